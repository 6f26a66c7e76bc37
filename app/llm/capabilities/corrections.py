"""Corrections of a profile after a refusal: pure functions from a profile and a failure to a better profile.

Each correction is tried at most once per request, and only if it changes the profile. If the server refuses
everything, the request ends with its error message, not in a loop. `RequestProfileCorrector` finds out which were
right.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from app.llm.failures.classification import NINE_CHARACTERS, NO_SYSTEM, SINGLE_CALL, SPEAKING_ORDER
from app.llm.failures.request_errors import Failure, FailureKind
from app.llm.values.endpoint import EndpointProfile, tool_fingerprint, tool_name
from app.llm.values.requests_and_updates import EFFORT, Payload


class ProfileCorrection(Struct, frozen=True):
    """A changed profile and the notice for the user."""

    name: str
    """Rule and variant; a request tries each name at most once."""
    profile: EndpointProfile
    notice: str


Rule = Callable[[EndpointProfile, Failure, Payload], Iterator[ProfileCorrection]]
"""Yields corrections that may avoid the failure, the likeliest first."""


def make_correction(name: str, profile: EndpointProfile, notice: str, **changes: Any) -> ProfileCorrection:
    """Return a correction: the profile with these fields changed, and the notice for the user."""
    return ProfileCorrection(name, profile.model_copy(update=changes), notice)


def make_correction_rule(pattern: re.Pattern[str], name: str, notice: str, **changes: Any) -> Rule:
    """Return a rule that makes `changes` to a profile if the server's message matches `pattern`."""

    def rule(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
        if pattern.search(failure.text):
            yield make_correction(name, profile, notice, **changes)

    return rule


_EFFORT_PATTERNS = {
    **dict.fromkeys(
        ("chat", "responses"),
        r"(?<!\w)(?:reasoning[._]?)?effort(?!\w)|['\"`]reasoning['\"`]|support (?:reasoning|thinking)|"
        r"supplied: reasoning|(?:reasoning|think) value|thinking (?:level|budget)|valid levels",
    ),
    # No match for refused thinking blocks in the history: `_drop_opaque_blocks` handles them.
    "anthropic": (
        r"(?<!\w)effort(?!\w)|output_config|budget_tokens|(?<!\w)thinking[.:]|adaptive|"
        r"(?:not|n't) support .{0,20}thinking|thinking['\"`]? (?:is|are) not|['\"]thinking['\"]"
    ),
}
"""Patterns for the reasoning effort in servers' messages, by wire."""


def _drop_refused_option(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    for name, value in payload.options.without_refused(profile.refused).as_fields().items():
        pattern = _EFFORT_PATTERNS[profile.wire] if name == EFFORT else rf"(?<!\w){re.escape(name)}(?!\w)"
        if re.search(pattern, failure.text, re.IGNORECASE):
            notice = f"The server does not accept {name} = {_format_value(value)}; requests are sent without it now."
            yield make_correction(f"without:{name}", profile, notice, refused={**profile.refused, name: value})


def _format_value(value: object) -> str:
    """Return a value in the syntax of the configuration, shortened."""
    match value:
        case dict():
            return "{…}"
        case list():
            return "[…]"
        case str():
            return f'"{value[:40]}"'
    return json.dumps(value, default=str)


_RESPONSES_REQUIRED = re.compile(
    r"(?:only|use|try|supported|available)\b.{0,40}v1/responses|v1/responses.{0,30}instead", re.IGNORECASE
)
_ENCRYPTED_REASONING = re.compile(r"encrypted[_ ]content|of type .?reasoning|reasoning item|'include'", re.IGNORECASE)
_SIGNED_THINKING = re.compile(r"signature|redacted_thinking|thinking.{0,20}block|block.{0,40}thinking", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(
    r"max_tokens\W{0,4}\d+ > (\d{3,7})|"
    r"max_tokens.{0,80}(?:maximum|at most|less than or equal to|<=)\D{0,60}(\d{3,7})",
    re.IGNORECASE | re.DOTALL,
)


def _switch_to_responses(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    if profile.wire == "chat" and failure.status in (400, 404) and _RESPONSES_REQUIRED.search(failure.text):
        notice = "This model does not support chat completions here; requests are sent as Responses from now on."
        yield make_correction("wire:responses", profile, notice, wire="responses")


def _switch_to_chat(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    missing = failure.status in (404, 405, 501) and failure.kind is not FailureKind.MODEL_NOT_FOUND
    if profile.wire == "responses" and missing:
        notice = "There is no Responses API here; requests are sent as chat completions from now on."
        yield make_correction("wire:chat", profile, notice, wire="chat")


def _drop_opaque_blocks(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    said = {"responses": _ENCRYPTED_REASONING, "anthropic": _SIGNED_THINKING}.get(profile.wire)
    if said is not None and said.search(failure.text):
        notice = "The model does not accept its own reasoning; it is not sent back from now on."
        yield make_correction("opaque_echo", profile, notice, opaque_echo=False)


def _drop_cache_breakpoints(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    if profile.wire == "anthropic" and "cache_control" in failure.text:
        yield make_correction("cache", profile, "The server does not know cache_control.", cache_breakpoints=False)


def _lower_output_limit(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    if profile.wire == "anthropic" and (named := _OUTPUT_LIMIT.search(failure.text)):
        limit = int(named[1] or named[2])
        yield make_correction(
            f"output_limit:{limit}", profile, f"A response has at most {limit:,} tokens here.", output_limit=limit
        )


_MAX_TOOLS = 100
"""Maximum number of refused tools that are remembered."""
_NAME_SEPARATOR = "__"
"""Separator between the names of an MCP server and its tool; signoff's own tools don't have it."""
_MENTIONS_SCHEMA = re.compile(r"schema|parameters|propert|function_?declarations|\btools?\W{1,4}\d", re.IGNORECASE)
_TOOL_NUMBERS = (
    re.compile(r"function_?declarations\W{1,4}(\d{1,4})", re.IGNORECASE),
    re.compile(r"\btools?['\"]?\W{1,4}(\d{1,4})", re.IGNORECASE),
)
"""Patterns for the number of an unnamed tool: Gemini's list of functions; Anthropic's and pydantic's messages."""
_UNNUMBERED_TOOL = "tools.function.parameters"
"""Moonshot's words for the schema of some tool, without its name or number."""
_SCHEMA_STATUSES = (400, 422)


def _drop_refused_tools(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    if failure.status not in _SCHEMA_STATUSES or not _MENTIONS_SCHEMA.search(failure.text):
        return
    for tool in payload.tools:
        name = tool_name(tool)
        if _NAME_SEPARATOR in name and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", failure.text):
            yield _without_tools(profile, [tool], f"The endpoint does not accept the schema of {name}")
            return
    servers = _tools_by_server(payload)
    if _UNNUMBERED_TOOL in failure.text:
        # Leave out one server after the other until it is accepted; all if several have such tools.
        for server, tools in servers.items():
            yield _without_tools(profile, tools, f"The endpoint does not accept the schemas of the server {server}")
        everything = [tool for tools in servers.values() for tool in tools]
        yield _without_tools(profile, everything, "The endpoint does not accept the schemas of several servers")
        return
    at = next((int(found[1]) for place in _TOOL_NUMBERS if (found := place.search(failure.text))), len(payload.tools))
    if at >= len(payload.tools) or _NAME_SEPARATOR not in (name := tool_name(payload.tools[at])):
        return
    yield _without_tools(profile, payload.tools[at : at + 1], f"The endpoint does not accept the schema of {name}")
    # If the next tool at this number is refused too, a schema alone does not explain it: leave out the whole server.
    server = name.partition(_NAME_SEPARATOR)[0]
    yield _without_tools(profile, servers[server], f"The endpoint does not accept the schemas of the server {server}")


def _tools_by_server(payload: Payload) -> dict[str, list[Mapping[str, Any]]]:
    servers: dict[str, list[Mapping[str, Any]]] = {}
    for tool in payload.tools:
        server, separator, _ = tool_name(tool).partition(_NAME_SEPARATOR)
        if separator:
            servers.setdefault(server, []).append(tool)
    return servers


def _without_tools(profile: EndpointProfile, tools: Sequence[Mapping[str, Any]], problem: str) -> ProfileCorrection:
    refused = [*profile.refused_tools, *map(tool_fingerprint, tools)][-_MAX_TOOLS:]
    left_out = "it is left out" if len(tools) == 1 else "its tools are left out"
    name = f"tools:{','.join(map(tool_name, tools))}"
    return make_correction(name, profile, f"{problem}; {left_out}.", refused_tools=refused)


_BAD_IMAGE = re.compile(
    r"(?:could not|unable to|failed to|cannot) (?:process|load|decode|identify) (?:the )?(?:input )?image|"
    r"invalid[ _]image|image_parse_error|unsupported image|(?:image|url).{0,40}base64|base64.{0,40}image|"
    r"(?:image|media).{0,60}(?:exceed|too large|too big|too small|maximum|max allowed|corrupt|unsupported format|"
    r"cannot be (?:decoded|identified)|media[ _]type|does not (?:represent|match))",
    re.IGNORECASE | re.DOTALL,
)
"""The server accepts images, but not this one."""
_IMAGES_UNSUPPORTED = re.compile(
    r"(?:images?\b|image_url|\bvision\b|multi-?modal).{0,80}"
    r"(?:not support|n't support|unsupported|not enabled|not available|only supported|not allowed|not accept)|"
    r"(?:not|n't|no endpoints found that) (?:support|accept|take).{0,60}(?:image|vision|multi-?modal)|"
    r"mmproj|at most 0 image|required for image|not a (?:vision|multi-?modal)",
    re.IGNORECASE | re.DOTALL,
)
"""The server says that it accepts no images."""
_MENTIONS_IMAGES = re.compile(
    r"image|\bvision\b|multi-?modal|content.{0,60}(?:must be|should be|valid|expected|not) a? ?(?:string|str)\b|"
    r"expected (?:a )?string|content.{0,40}(?:array|list|sequence)|unknown variant|cannot unmarshal array",
    re.IGNORECASE | re.DOTALL,
)
"""The message mentions images, or a message content that is not a string."""
_SERVER_ERROR_STATUS = 500
_UNREADABLE_STATUSES = (400, 415, 422)


def _drop_refused_image(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    if payload.images and _BAD_IMAGE.search(failure.text):
        names = [image.sha256 for image in payload.images]
        for refused in (names[-1:], names):
            notice = "The server refused an image: it is left out, and the model is told."
            known = [name for name in profile.refused_images if name not in refused]
            yield make_correction(
                f"image:{len(refused)}",
                profile,
                notice,
                refused_images=[*known, *dict.fromkeys(refused)][-_MAX_REFUSED_IMAGES:],
            )


def _drop_unsupported_images(
    profile: EndpointProfile, failure: Failure, payload: Payload
) -> Iterator[ProfileCorrection]:
    if not payload.images:
        return
    clear = (
        failure.status is not None and failure.status < _SERVER_ERROR_STATUS and _MENTIONS_IMAGES.search(failure.text)
    )
    if clear or _IMAGES_UNSUPPORTED.search(failure.text):
        yield _without_images(profile)


def _drop_unread_images(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    """Yield a profile without images as the last correction: otherwise a history with a refused image would fail
    forever."""
    if payload.images and failure.status in _UNREADABLE_STATUSES:
        yield _without_images(profile)


def _without_images(profile: EndpointProfile) -> ProfileCorrection:
    notice = "The model accepts no images here: they are left out, and it is told. /model changes the model."
    return make_correction("images", profile, notice, images_supported=False)


_MAX_REFUSED_IMAGES = 50
"""Maximum number of refused images that are remembered."""


_SYSTEM_REFUSED = re.compile(
    rf"{NO_SYSTEM}|(?:role|message)s? ['\"]?system['\"]? (?:is|are) not (?:supported|allowed)|"
    r"does not support (?:the )?system (?:role|message|prompt)|developer instruction is not enabled",
    re.IGNORECASE,
)
_ORDER_REFUSED = re.compile(
    rf"{SPEAKING_ORDER}|"
    r"system messages? (?:must|should|can only|is only allowed)|(?:must|has to) be the first message|"
    r"role 'system' must|unknown variant `system`|input should be 'user' or 'assistant'",
    re.IGNORECASE,
)
_TOOL_CHOICE = re.compile(r"tool[_ ]choice", re.IGNORECASE)
_REFUSAL = re.compile(
    r"not support|n't support|unsupported|not permitted|not allowed|forbidden|unknown|unrecogni[sz]ed|unexpected|"
    r"invalid(?!_request)|extra inputs|additional propert|must be|should be|no longer|deprecated|not available|"
    r"literal_error|not implemented|\bonly\b|incompatible",
    re.IGNORECASE,
)
_TOOLS_UNSUPPORTED = re.compile(
    r"(?:does not|doesn'?t) support (?:tools|tool use|tool calling|function calling)|"
    r"tools?(?: calls?)? (?:is|are) not supported|support tool use|--enable-auto-tool-choice|"
    r"function calling is not (?:enabled|supported)|requires --jinja|tools param requires",
    re.IGNORECASE,
)
_SINGLE_CALL = re.compile(SINGLE_CALL, re.IGNORECASE)
_ID_ALNUM9 = re.compile(NINE_CHARACTERS, re.IGNORECASE)
_ID_LENGTH = re.compile(
    r"tool_?call(?:_id\b|s?.{0,40}\bid\b).{0,80}(?:too long|maximum length|at most|maxLength)",
    re.IGNORECASE | re.DOTALL,
)
_ID_LENGTH_LIMIT = re.compile(r"(?:maximum length|at most|maxLength)\D{0,12}(\d{2,3})\b", re.IGNORECASE)
_DEFAULT_ID_LENGTHS = (64, 40)
"""Longest ids if the message names no limit: OpenAI's current limit, and its earlier one."""
_TEXT_OR_CALLS = re.compile(r"either content or tool_?calls?,? but not both", re.IGNORECASE)
_REASONING_REQUIRED = re.compile(
    r"reasoning_content`?.{0,80}(?:missing|must be passed|required)|missing.{0,40}reasoning_content", re.I
)
_SIGNATURE_WANTED = re.compile(r"thought_?signature", re.IGNORECASE)
_NULL_CONTENT_REFUSED = re.compile(
    r"content.{0,60}(?:null|<nil>|None|should be a valid string|is required|must be a string|missing)", re.IGNORECASE
)
_EMPTY_CONTENT_REFUSED = re.compile(
    r"content.{0,60}(?:must (?:not be empty|be non-empty|have non-empty)|(?:cannot|can't|may not) be empty|is empty)|"
    r"(?:non-empty|empty) content|text content blocks must be non-empty",
    re.IGNORECASE,
)


_UNCORRECTABLE_KINDS = frozenset(
    {
        FailureKind.CONTEXT_FULL,
        FailureKind.AUTH,
        FailureKind.RATE_LIMITED,
        FailureKind.QUOTA,
        # The server accepts tools and tool_choice; the model made the error.
        FailureKind.TOOL_USE_FAILED,
    }
)


def find_correction(
    profile: EndpointProfile, failure: Failure, payload: Payload, tried: Collection[str] = ()
) -> ProfileCorrection | None:
    """Return the first correction that fits the failure, changes the profile and is not in `tried`; else None."""
    if failure.kind in _UNCORRECTABLE_KINDS:
        return None
    if failure.status is None and failure.kind is not FailureKind.INVALID_REQUEST:
        return None
    for rule in RULES:
        for found in rule(profile, failure, payload):
            if found.name not in tried and found.profile != profile:
                return found
    return None


def _switch_max_tokens_field(
    profile: EndpointProfile, failure: Failure, payload: Payload
) -> Iterator[ProfileCorrection]:
    if payload.max_tokens is None or not re.search(r"max_(?:completion_)?tokens", failure.text):
        return
    other = "max_tokens" if profile.max_tokens_field == "max_completion_tokens" else "max_completion_tokens"
    if not _REFUSAL.search(failure.text):
        return
    yield make_correction(f"max_tokens:{other}", profile, f"The server requires {other}.", max_tokens_field=other)


def _drop_tools(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    if payload.tools and profile.tools_supported and _TOOLS_UNSUPPORTED.search(failure.text):
        notice = "This model accepts no tools here: it can talk, but neither read files nor propose edits."
        yield make_correction("tools", profile, notice, tools_supported=False)


def _drop_tool_choice(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    sent = payload.tool_choice == "none" and profile.tool_choice_none != "rejected"
    if sent and _TOOL_CHOICE.search(failure.text) and _REFUSAL.search(failure.text):
        notice = (
            "The server does not accept tool_choice; after a staged edit the model is told to stop, and is stopped."
        )
        yield make_correction("tool_choice", profile, notice, tool_choice_none="rejected")


def _shorten_tool_ids(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    if _ID_ALNUM9.search(failure.text):
        yield make_correction(
            "tool_id:alnum9", profile, "The server requires short ids of tool calls.", tool_id="alnum9"
        )
    if not (found := _ID_LENGTH.search(failure.text)):
        return
    named = _ID_LENGTH_LIMIT.search(failure.text, found.start())
    for length in (named[1],) if named else _DEFAULT_ID_LENGTHS:
        notice = f"The server requires ids of tool calls of at most {length} characters."
        yield make_correction(f"tool_id:max{length}", profile, notice, tool_id=f"max{length}")


def _return_signatures(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    if _SIGNATURE_WANTED.search(failure.text):
        notice = "The server requires the signatures of its tool calls back."
        yield make_correction("signature", profile, notice, call_extras_echo=True)
        notice = "The server requires signatures; the calls of other models are sent with a placeholder."
        changes = {"call_extras_echo": True, "placeholder_signatures": True}
        yield make_correction("signature:placeholder", profile, notice, **changes)


def _add_tool_names(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    wanted = re.search(r"(?:tool|function).{0,60}name.{0,40}(?:required|missing|must)", failure.text, re.IGNORECASE)
    if wanted and any(message.get("role") == "tool" for message in payload.messages):
        notice = "The server requires the tool's name on every result."
        yield make_correction("tool_name", profile, notice, tool_name_on_result=True)


def _drop_echoed_fields(profile: EndpointProfile, failure: Failure, _: Payload) -> Iterator[ProfileCorrection]:
    """Yield a profile without nonstandard fields, for a server that refuses them."""
    if not _REFUSAL.search(failure.text):
        return
    changes: dict[str, Any] = {}
    if profile.reasoning_echo != "never" and re.search(r"\breasoning", failure.text):
        changes["reasoning_echo"] = "never"
    if profile.call_extras_echo and "extra_content" in failure.text:
        changes["call_extras_echo"] = False
    if profile.tool_name_on_result and re.search(
        r"['\"]?\bname\b['\"]? is unsupported|\bname\b.{0,40}extra", failure.text
    ):
        changes["tool_name_on_result"] = False
    yield make_correction(f"echo:{','.join(changes)}", profile, "The server accepts standard fields only.", **changes)


def _change_empty_content(
    profile: EndpointProfile, failure: Failure, payload: Payload
) -> Iterator[ProfileCorrection]:
    """Yield profiles with another content beside tool calls."""
    if not any(message.get("tool_calls") for message in payload.messages):
        return
    if profile.empty_content == "empty" and _EMPTY_CONTENT_REFUSED.search(failure.text):
        notice = "The server accepts no empty text beside tool calls."
        yield make_correction("content:null", profile, notice, empty_content="null")
    if profile.empty_content != "empty" and _NULL_CONTENT_REFUSED.search(failure.text):
        notice = "The server requires a text beside tool calls."
        yield make_correction("content:empty", profile, notice, empty_content="empty")


def _change_role_order(profile: EndpointProfile, failure: Failure, payload: Payload) -> Iterator[ProfileCorrection]:
    """Yield corrections for templates with rules about the order of roles: other placements of system messages
    first."""
    refused, is_order_refused = _SYSTEM_REFUSED.search(failure.text), _ORDER_REFUSED.search(failure.text)
    # If the system prompt is a separate field, only later system messages can have been refused.
    has_system_field = bool(payload.system) and profile.mid_system == "inline"
    if refused and not has_system_field and profile.mid_system != "fold_user":
        yield _move_system_messages(profile, "fold_user")
    if not refused and not is_order_refused:
        return
    if not profile.bridge_tool_user and re.search(r"'?user'? after role '?tool", failure.text):
        yield make_correction(
            "bridge", profile, "The server requires an answer after tool results.", bridge_tool_user=True
        )
    alternating = profile
    if _has_adjacent_user_roles(payload):
        alternating = profile.model_copy(update={"merge_users": True, "bridge_tool_user": True})
    folding = profile.mid_system == "inline" and _has_mid_system(payload)
    if folding:
        yield _move_system_messages(profile, "fold_first")
    yield ProfileCorrection("alternate", alternating, "The server requires user and assistant to alternate.")
    if folding and alternating != profile:
        yield _move_system_messages(alternating, "fold_first", "alternate+")
    systems = sum(one.get("role") in ("system", "developer") for one in payload.messages)
    if not refused and (folding or (profile.mid_system == "fold_first" and systems)):
        yield _move_system_messages(profile, "fold_user")
        if alternating != profile:
            yield _move_system_messages(alternating, "fold_user", "alternate+")


def _move_system_messages(profile: EndpointProfile, placement: str, name_prefix: str = "") -> ProfileCorrection:
    where = "joined to the first one" if placement == "fold_first" else "marked as such in the user's messages"
    notice = f"The model accepts no system message in mid-conversation; from now on they are {where}."
    return make_correction(f"{name_prefix}mid_system:{placement}", profile, notice, mid_system=placement)


def _has_adjacent_user_roles(payload: Payload) -> bool:
    """Return whether a user message directly follows a tool or user message, ignoring system messages."""
    roles = [role for one in payload.messages if (role := one.get("role")) not in ("system", "developer")]
    return any(before in ("tool", "user") and after == "user" for before, after in pairwise(roles))


def _has_mid_system(payload: Payload) -> bool:
    later = payload.messages if payload.system else payload.messages[1:]
    return any(message.get("role") in ("system", "developer") for message in later)


RULES: tuple[Rule, ...] = (
    *(_switch_to_responses, _switch_to_chat, _lower_output_limit, _drop_cache_breakpoints, _drop_opaque_blocks),
    # Before the rules that match a word which is also a field name or part of such a refusal.
    *(_drop_refused_option, _drop_refused_tools, _drop_refused_image, _drop_unsupported_images),
    make_correction_rule(
        re.compile(r"stream_options|include_usage"),
        "stream_usage",
        "The server does not report token counts in the stream; they are estimated.",
        stream_usage=False,
    ),
    make_correction_rule(
        re.compile("parallel_tool_calls"),
        "parallel",
        "The server does not know parallel_tool_calls.",
        parallel_tool_calls=None,
    ),
    _drop_tools,
    _drop_tool_choice,
    make_correction_rule(
        _SINGLE_CALL,
        "single_call",
        "The model accepts one tool call per message; the history is sent that way.",
        single_call_turns=True,
    ),
    _shorten_tool_ids,
    _return_signatures,
    make_correction_rule(
        _REASONING_REQUIRED,
        "reasoning",
        "The server requires the reasoning back beside tool calls.",
        reasoning_echo="required_on_calls",
    ),
    make_correction_rule(
        _TEXT_OR_CALLS,
        "text_beside_calls",
        "The server accepts no text beside tool calls; only the calls are sent.",
        text_beside_calls=False,
    ),
    _drop_echoed_fields,
    make_correction_rule(
        re.compile("developer"), "developer", "The server accepts system messages only.", developer_role=False
    ),
    _change_role_order,
    _switch_max_tokens_field,
    _add_tool_names,
    _change_empty_content,
    _drop_unread_images,
)
"""All rules, the most specific first."""
