"""An endpoint: its address, checked and without the secrets in it, and its capabilities as data.

People paste addresses with a password or a key in them. An address is stored with what was learned, shown, and
exported with the conversation, so what is secret is taken out at once and travels by itself. The projection and the
client follow the capabilities.
"""

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.config.config_tables import PriceTable

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


def filter_accepted_tools(tools: list[dict[str, Any]], refused: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tools without those that the server refused; the same list if it refused none."""
    return [tool for tool in tools if tool_key(tool) not in refused] if refused else tools


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool in OpenAI's form."""
    return str((tool.get("function") or {}).get("name", ""))


def tool_key(tool: Mapping[str, Any]) -> str:
    """Return a key that tells a tool from another of the same name with another schema."""
    said = json.dumps(tool, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"{tool_name(tool)} {hashlib.sha256(said).hexdigest()[:16]}"


Placement = Literal["inline", "fold_first", "fold_user"]
NEXT_PLACEMENT: dict[Placement, Placement] = {"inline": "fold_first", "fold_first": "fold_user"}
"""Where a system message of mid-conversation goes next, if it does not reach the model where it is."""


def _price(fields: dict[str, float] | None) -> dict[str, float] | None:
    """Kept as plain numbers, as everything that is learned."""
    if fields is not None:
        PriceTable.model_validate(fields)
    return fields


class Profile(BaseModel):
    """Capabilities of one endpoint and model. The defaults are those of an unknown server."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = "unknown"
    """The kind of server, a key of `app.llm.capabilities.profiles.SEEDS`; nothing depends on it."""
    wire: Literal["chat", "anthropic", "responses"] = "chat"
    """The protocol: chat completions, Anthropic's messages, or OpenAI's Responses."""
    mid_system: Placement = "inline"
    """Where a system message in mid-conversation goes: in place, appended to the first system message, or as a
    marked block at the head of the next user message (only where the server takes no system message at all)."""
    rendered: Placement | None = None
    """The first placement that the server's own renderings of a conversation kept whole, when they were last looked
    at; None if the server cannot render, or was never asked."""
    tool_choice_none: Literal["honoured", "ignored", "rejected", "fails"] = "honoured"
    """What the server does with `tool_choice: "none"`; `fails` is an error if the model calls a tool all the same."""
    tools_supported: bool = True
    """The model takes tools at all; without, it can only talk."""
    images_supported: bool | None = None
    """The model takes images, where known; where it takes none, it is told which ones it does not see."""
    refused_images: list[str] = []
    """Images that the server refused although it takes others, by their SHA-256."""
    refused_tools: list[str] = []
    """Tools of MCP servers whose schema the server refused, by `refused_tools.key_of`."""
    bridge_tool_user: bool = False
    """Put a short assistant message between a tool result and a user message, as Mistral's templates insist."""
    single_call_turns: bool = False
    """The chat template takes one call per assistant message: split the others."""
    merge_users: bool = True
    """Join user messages that follow each other into one."""
    tool_id: str = Field(default="any", pattern=r"^(?:any|alnum9|word64|max[1-9][0-9]{1,2})$")
    """What ids of tool calls may look like: anything within reason, nine letters and digits (`alnum9`, Mistral),
    at most so many characters (`max64`), or 64 letters, digits, `_` and `-` (`word64`, Anthropic)."""
    tool_name_on_result: bool = False
    """Put the tool's name on every result."""
    empty_content: Literal["empty", "null", "absent"] = "empty"
    """What stands as content beside tool calls without text."""
    text_beside_calls: bool = True
    """A message may have both a text and calls; where it may not (Mistral's first templates), the calls count."""
    developer_role: bool = False
    """Send `developer` where others take `system`."""
    parallel_tool_calls: bool | None = None
    """Sent when set."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the limit of a response is called, where one is sent."""
    stream_usage: bool = True
    """Ask for usage in the stream."""
    reasoning_echo: Literal["never", "same_model", "required_on_calls"] = "never"
    """Whether reasoning goes back: not at all, opaque as it came to the model that made it, or as
    `reasoning_content` beside every tool call, even if empty (DeepSeek, Moonshot)."""
    call_extras_echo: bool = False
    """Opaque fields of tool calls go back as they came (Gemini's thought signature)."""
    opaque_echo: bool = True
    """Signed thinking (Anthropic) and encrypted reasoning (Responses) go back to the model that made them."""
    cache_breakpoints: bool = True
    """Say how far the prompt can be cached, where the wire wants it said (Anthropic)."""
    output_limit: int | None = None
    """Tokens that a response may have, where the wire wants a limit said (Anthropic); by the model, if not set."""
    finish_optional: bool = False
    """The server never sends a finish reason: a clean end is an end."""
    refused: dict[str, Any] = Field(default_factory=dict)
    """Request settings of the user's that the server does not take, with the value that it refused."""
    price: Annotated[dict[str, float] | None, AfterValidator(_price)] = None
    """US dollars per million tokens, by the names of `PriceTable`, where the list of models says it."""
    context_window: int | None = None
    """Tokens, where known."""

    @property
    def accepts_images(self) -> bool:
        """Return whether images are sent: until it is known that they are refused."""
        return self.images_supported is not False
