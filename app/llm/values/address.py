"""Parse and check the address of an endpoint, and separate the secrets in it.

People paste addresses with a password or a key in them. An address is stored with what was learned, shown, and
exported with the conversation, so what is secret is taken out at once and travels by itself.
"""

import base64
import contextlib
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

_SECRET_NAME = re.compile(r"key|token|secret|sig(?:nature)?$|passw|pwd|auth|credential|^code$", re.IGNORECASE)
_USER = re.compile(r"(?<=//)[^/?#]*@")
_PORTS = range(1, 65_536)
_PRIVATE_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localdomain")


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """A parsed base URL."""

    url: str
    """Without anything secret."""
    authorization: str = field(default="", repr=False)
    """The header that user and password of the URL stand for; empty if it has none."""
    password: str = field(default="", repr=False)
    secret_query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the URL's query says beside what is in `url`."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the parts that must not be shown anywhere."""
        told = (self.authorization.removeprefix("Basic "), self.password, *(value for _, value in self.secret_query))
        return tuple(text for text in told if text)

    @property
    def url_without_query(self) -> str:
        """Return it without the query, which belongs behind the path of each request."""
        return self.url.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """Return the query."""
        return {**dict(parse_qsl(self.url.partition("?")[2], keep_blank_values=True)), **dict(self.secret_query)}


def parse_address(base_url: str) -> EndpointAddress:
    """Return the address of any text."""
    try:
        parts = urlsplit(base_url.strip())
        user, password = parts.username, parts.password
    except ValueError:
        return EndpointAddress(_USER.sub("", base_url).partition("?")[0])
    if "@" not in parts.netloc and not parts.query:
        return EndpointAddress(base_url.strip())
    said = parse_qsl(parts.query, keep_blank_values=True)
    secret = tuple((name, value) for name, value in said if _SECRET_NAME.search(name))
    public = urlencode([(name, value) for name, value in said if not _SECRET_NAME.search(name)])
    url = SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, public, "").geturl()
    if user is None and password is None:
        return EndpointAddress(url, secret_query=secret)
    told = unquote(password or "")
    pair = base64.b64encode(f"{unquote(user or '')}:{told}".encode()).decode()
    return EndpointAddress(url, f"Basic {pair}", told, secret)


def host_and_port(base_url: str) -> str:
    """Return host and port of an address in lower case; empty if it names none."""
    try:
        return urlsplit(base_url.strip()).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def is_local(base_url: str) -> bool:
    """Return whether the address leads to this machine."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def is_private(base_url: str) -> bool:
    """Return whether the address leads to this machine or a private network, by its form alone; no name is resolved.

    Names without a dot (those of containers) and under the suffixes of home and company networks (RFC 6762, RFC 8375,
    ICANN's `.internal`) are private; so are IP addresses that are not global.
    """
    if is_local(base_url):
        return True
    try:
        host = (urlsplit(base_url).hostname or "").rstrip(".")
    except ValueError:
        return False
    with contextlib.suppress(ValueError):
        return not ip_address(host).is_global
    return bool(host) and ("." not in host or host.endswith(_PRIVATE_SUFFIXES))


def proxy_for(base_url: str) -> str:
    """Return the URL of the environment's proxy for a URL; empty if there is none."""
    # Takes a while to be imported.
    from urllib.request import getproxies, proxy_bypass

    parts, named = urlsplit(base_url), getproxies()
    proxy = named.get(parts.scheme) or named.get("all") or ""
    if not proxy or is_local(base_url) or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def find_url_fault(url: str, example: str = "https://host/v1") -> str:
    """Return what is wrong with a URL, with what to write instead; empty if nothing is."""
    if "://" not in url:
        return f"it lacks http:// or https://; write http://{url} or https://{url}" if url else "it is empty"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as fault:
        return f"{fault}; write it as in {example}"
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:// is not spoken here; write http:// or https://"
    if not host or re.search(r"\s", parts.netloc):
        return f"it names no host; write it as in {example}"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is not None and port not in _PORTS:
        return f"port {parts.netloc.rpartition(':')[2]} does not exist; write one from 1 to 65535"
    return ""


def find_header_fault(name: str, value: str) -> str:
    """Return what is wrong with a header value, as a sentence without its subject."""
    if re.search(r"[\r\n]", value):
        return f"{name} has a line break in it"
    if not value.isascii() or not value.isprintable():
        return f"{name} has a character in it that no header may have"
    return ""
