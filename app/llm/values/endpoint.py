"""An endpoint: its address with secrets separated, and its capabilities as data.

Users paste addresses that contain a password or a key. An address is stored with learned facts, shown, and exported
with the conversation, so its secrets are removed at once and kept separately. The projection and the client follow
the capabilities.
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

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from app.config.config_tables import PriceTable

_SECRET_NAME = re.compile(r"key|token|secret|sig(?:nature)?$|passw|pwd|auth|credential|^code$", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=//)[^/?#]*@")
_VALID_PORTS = range(1, 65_536)
_PRIVATE_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localdomain")


@dataclass(frozen=True, slots=True)
class BaseUrlWithSecrets:
    """A base URL without its secrets, and the secrets that were taken out of it."""

    url: str
    """The URL without secrets."""
    authorization: str = field(default="", repr=False)
    """Authorization header for user and password of the URL; empty if it has none."""
    password: str = field(default="", repr=False)
    secret_query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Query parameters that are not in `url` because they look secret."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not be shown."""
        query_values = (value for _, value in self.secret_query)
        values = (self.authorization.removeprefix("Basic "), self.password, *query_values)
        return tuple(value for value in values if value)

    @property
    def url_without_query(self) -> str:
        """Return the URL without the query, which is added to the URL of each request."""
        return self.url.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """Return all query parameters, including the secret ones."""
        return {**dict(parse_qsl(self.url.partition("?")[2], keep_blank_values=True)), **dict(self.secret_query)}


def split_base_url_and_secrets(base_url: str) -> BaseUrlWithSecrets:
    """Separate the secrets in a base URL (password, secret query parameters) from it; accepts invalid URLs, too."""
    try:
        parts = urlsplit(base_url.strip())
        user, password = parts.username, parts.password
    except ValueError:
        return BaseUrlWithSecrets(_USER_INFO.sub("", base_url).partition("?")[0])
    if "@" not in parts.netloc and not parts.query:
        return BaseUrlWithSecrets(base_url.strip())
    value = parse_qsl(parts.query, keep_blank_values=True)
    secret = tuple((name, value) for name, value in value if _SECRET_NAME.search(name))
    public = urlencode([(name, value) for name, value in value if not _SECRET_NAME.search(name)])
    url = SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, public, "").geturl()
    if user is None and password is None:
        return BaseUrlWithSecrets(url, secret_query=secret)
    password_text = unquote(password or "")
    pair = base64.b64encode(f"{unquote(user or '')}:{password_text}".encode()).decode()
    return BaseUrlWithSecrets(url, f"Basic {pair}", password_text, secret)


def host_and_port(base_url: str) -> str:
    """Return host and port of an address in lower case; empty if it has none."""
    try:
        return urlsplit(base_url.strip()).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def is_loopback_url(base_url: str) -> bool:
    """Return whether the address is on this machine."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        # 0.0.0.0, at which a server says that it listens, leads to this machine too.
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    return False


def is_private(base_url: str) -> bool:
    """Return whether the address is on this machine or in a private network; names are not resolved.

    Private are names without a dot (such as those of containers), names with the suffixes of home and company
    networks (RFC 6762, RFC 8375, ICANN's `.internal`), and IP addresses that are not global.
    """
    if is_loopback_url(base_url):
        return True
    try:
        host = (urlsplit(base_url).hostname or "").rstrip(".")
    except ValueError:
        return False
    with contextlib.suppress(ValueError):
        return not ip_address(host).is_global
    return bool(host) and ("." not in host or host.endswith(_PRIVATE_SUFFIXES))


def find_environment_proxy(base_url: str) -> str:
    """Return the URL of the environment's proxy for a URL; empty if there is none."""
    # Imported here because it takes a while.
    from urllib.request import getproxies, proxy_bypass

    parts, named = urlsplit(base_url), getproxies()
    proxy = named.get(parts.scheme) or named.get("all") or ""
    if not proxy or is_loopback_url(base_url) or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def find_url_fault(url: str, example: str = "https://host/v1") -> str:
    """Return what is wrong with a URL and what to write instead; empty if it is valid."""
    if "://" not in url:
        if not url or re.search(r"\s", url):
            return f"it has a space in it; write it as in {example}" if url else "it is empty"
        return f"it lacks http:// or https://; write http://{url} or https://{url}"
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
    if port is not None and port not in _VALID_PORTS:
        return f"port {parts.netloc.rpartition(':')[2]} does not exist; write one from 1 to 65535"
    return ""


def find_header_fault(name: str, value: str) -> str:
    """Return what is wrong with a header value as a sentence about `name`; empty if it is valid."""
    if re.search(r"[\r\n]", value):
        return f"{name} has a line break in it"
    if not value.isascii() or not value.isprintable():
        return f"{name} has a character in it that no header may have"
    return ""


def filter_accepted_tools(tools: list[dict[str, Any]], refused: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tools that the server has not refused; the same list object if it refused none."""
    return [tool for tool in tools if tool_fingerprint(tool) not in refused] if refused else tools


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool in OpenAI's format."""
    return str((tool.get("function") or {}).get("name", ""))


def tool_fingerprint(tool: Mapping[str, Any]) -> str:
    """Return a tool's name with a digest of its schema, which tells tools of the same name apart."""
    value = json.dumps(tool, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"{tool_name(tool)} {hashlib.sha256(value).hexdigest()[:16]}"


Placement = Literal["inline", "fold_first", "fold_user"]
NEXT_PLACEMENT: dict[Placement, Placement] = {"inline": "fold_first", "fold_first": "fold_user"}
"""The next placement to try if a system message in mid-conversation does not reach the model."""


def _check_price(fields: dict[str, float] | None) -> dict[str, float] | None:
    """Validate a price; it is stored as plain numbers, like all learned fields."""
    if fields is not None:
        PriceTable.model_validate(fields)
    return fields


class EndpointProfile(BaseModel):
    """Capabilities of one endpoint and model. The defaults are for an unknown server."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = "unknown"
    """The kind of server, a key of `app.llm.capabilities.profiles.DEFAULT_PROFILES`; for information only."""
    wire: Literal["chat", "anthropic", "responses"] = "chat"
    """The protocol: chat completions, Anthropic's messages, or OpenAI's Responses."""
    mid_system: Placement = "inline"
    """Where a system message in mid-conversation goes: in place, appended to the first system message, or as a
    marked block at the start of the next user message (only if the server accepts no system message)."""
    rendered: Placement | None = None
    """The first placement that kept all messages in the server's own renderings at the last check; None if the server
    cannot render or was not checked."""
    tool_choice_none: Literal["honoured", "ignored", "rejected", "fails"] = "honoured"
    """How the server handles `tool_choice: "none"`; `fails`: it returns an error if the model calls a tool anyway."""
    tools_supported: StrictBool = True
    """Whether the model accepts tools; without them it can only talk."""
    images_supported: StrictBool | None = None
    """Whether the model accepts images; None if unknown. A note names the images that are not sent."""
    refused_images: list[str] = []
    """SHA-256 of images that the server refused although it accepts others."""
    refused_tools: list[str] = []
    """Tools of MCP servers whose schema the server refused, by `tool_fingerprint`."""
    bridge_tool_user: StrictBool = False
    """Insert a short assistant message between a tool result and a user message, as Mistral's templates require."""
    single_call_turns: StrictBool = False
    """Split messages with several calls, because the chat template accepts one call per assistant message."""
    merge_users: StrictBool = True
    """Join consecutive user messages into one."""
    tool_id: str = Field(default="any", pattern=r"^(?:any|alnum9|word64|max[1-9][0-9]{1,2})$")
    """Format of tool call ids: `any` reasonable id, nine letters and digits (`alnum9`, Mistral), a maximum length
    (`max64`), or 64 letters, digits, `_` and `-` (`word64`, Anthropic)."""
    tool_name_on_result: StrictBool = False
    """Put the tool's name on every result."""
    empty_content: Literal["empty", "null", "absent"] = "empty"
    """The value of `content` beside tool calls without text."""
    text_beside_calls: StrictBool = True
    """Whether a message may have both text and calls; if not (Mistral's first templates), only the calls are sent."""
    developer_role: StrictBool = False
    """Send the role `developer` instead of `system`."""
    parallel_tool_calls: StrictBool | None = None
    """The value to send; None sends none."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name of the field for the output limit."""
    stream_usage: StrictBool = True
    """Request the usage in the stream."""
    reasoning_echo: Literal["never", "same_model", "required_on_calls"] = "never"
    """How reasoning is sent back: never, unchanged to the model that produced it, or as `reasoning_content` beside
    every tool call, even if empty (DeepSeek, Moonshot)."""
    call_extras_echo: StrictBool = False
    """Send opaque fields of tool calls back unchanged (Gemini's thought signature)."""
    placeholder_signatures: StrictBool = False
    """Send Google's placeholder as the signature of calls that another model made (Gemini 3)."""
    opaque_echo: StrictBool = True
    """Send signed thinking (Anthropic) and encrypted reasoning (Responses) back to the model that produced them."""
    cache_breakpoints: StrictBool = True
    """Mark how much of the prompt can be cached, if the wire supports it (Anthropic)."""
    output_limit: StrictInt | None = None
    """Maximum number of tokens of a response if the wire requires it (Anthropic); None: the default for the model."""
    finish_optional: StrictBool = False
    """The server never sends a finish reason: a clean end of the stream counts as complete."""
    refused: dict[str, Any] = Field(default_factory=dict)
    """The user's request settings that the server refused, each with the refused value."""
    price: Annotated[dict[str, StrictFloat] | None, AfterValidator(_check_price)] = None
    """US dollars per million tokens, with the field names of `PriceTable`; None if the list of models has none."""
    context_window: StrictInt | None = None
    """Tokens; None if unknown."""

    @property
    def accepts_images(self) -> bool:
        """Return whether images are sent: True until it is known that they are refused."""
        return self.images_supported is not False
