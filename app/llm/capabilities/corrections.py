"""What a refusal teaches about an endpoint: pure functions from a profile and a failure to a better profile.

Each correction is tried at most once per request, and only if it changes something, so a server that refuses
everything ends in its own error message and not in a loop. Which of them were right, `lessons` finds out.
"""

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from app.llm.capabilities.correction import Correction, Rule, changed, where_said
from app.llm.capabilities.image_corrections import IMAGE_RULES, LAST_IMAGE_RULES
from app.llm.capabilities.profile import Profile
from app.llm.capabilities.tool_corrections import TOOL_RULES
from app.llm.capabilities.wire_corrections import WIRE_RULES
from app.llm.capabilities.wish_corrections import WISH_RULES
from app.llm.failures.classification import NINE_CHARACTERS, NO_SYSTEM, SINGLE_CALL, SPEAKING_ORDER
from app.llm.failures.errors import Failure, FailureKind
from app.llm.types import Payload

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
_REFUSING = re.compile(
    r"not support|n't support|unsupported|not permitted|not allowed|forbidden|unknown|unrecogni[sz]ed|unexpected|"
    r"invalid(?!_request)|extra inputs|additional propert|must be|should be|no longer|deprecated|not available|"
    r"literal_error|not implemented",
    re.IGNORECASE,
)
_TOOLS = re.compile(
    r"(?:does not|doesn'?t) support (?:tools|tool use|tool calling|function calling)|"
    r"tools? (?:is|are) not supported|support tool use|--enable-auto-tool-choice|"
    r"function calling is not (?:enabled|supported)|requires --jinja|tools param requires",
    re.IGNORECASE,
)
_SINGLE_CALL = re.compile(SINGLE_CALL, re.IGNORECASE)
_ID_ALNUM9 = re.compile(NINE_CHARACTERS, re.IGNORECASE)
_ID_LENGTH = re.compile(
    r"tool_?call(?:_id\b|s?.{0,40}\bid\b).{0,80}(?:too long|maximum length|at most|maxLength)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED_LENGTH = re.compile(r"(?:maximum length|at most|maxLength)\D{0,12}(\d{2,3})\b", re.IGNORECASE)
_USUAL_LENGTHS = (64, 40)
"""Characters of an id, where the message names no limit: OpenAI's today, and before."""
_EITHER = re.compile(r"either content or tool_?calls?,? but not both", re.IGNORECASE)
_REASONING = re.compile(
    r"reasoning_content`?.{0,80}(?:missing|must be passed|required)|missing.{0,40}reasoning_content", re.I
)
_SIGNATURE = re.compile(r"thought_?signature", re.IGNORECASE)
_NULL_CONTENT = re.compile(
    r"content.{0,60}(?:null|<nil>|None|should be a valid string|is required|must be a string|missing)", re.IGNORECASE
)
_EMPTY_CONTENT = re.compile(
    r"content.{0,60}(?:must (?:not be empty|be non-empty|have non-empty)|(?:cannot|can't|may not) be empty|is empty)|"
    r"(?:non-empty|empty) content|text content blocks must be non-empty",
    re.IGNORECASE,
)


_TEACHES_NOTHING = frozenset(
    {
        FailureKind.CONTEXT_FULL,
        FailureKind.AUTH,
        FailureKind.RATE_LIMITED,
        FailureKind.QUOTA,
        # The server takes tools and tool_choice: it has found the model at fault.
        FailureKind.TOOL_USE_FAILED,
    }
)


def correct(profile: Profile, failure: Failure, payload: Payload, done: Collection[str] = ()) -> Correction | None:
    """The first correction that explains the failure, changes the profile and is not in `done`; None if none does."""
    if failure.kind in _TEACHES_NOTHING:
        return None
    if failure.status is None and failure.kind is not FailureKind.INVALID_REQUEST:
        return None
    for rule in RULES:
        for found in rule(profile, failure, payload):
            if found.name not in done and found.profile != profile:
                return found
    return None


def _stream_usage(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.stream_usage and re.search(r"stream_options|include_usage", failure.text):
        notice = "The server does not report token counts in the stream; they are estimated."
        yield changed("stream_usage", profile, notice, stream_usage=False)


def _max_tokens(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    if payload.max_tokens is None or not re.search(r"max_(?:completion_)?tokens", failure.text):
        return
    other = "max_tokens" if profile.max_tokens_field == "max_completion_tokens" else "max_completion_tokens"
    if not _REFUSING.search(failure.text):
        return
    yield changed(f"max_tokens:{other}", profile, f"The server takes {other}.", max_tokens_field=other)


def _parallel_calls(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.parallel_tool_calls is not None and "parallel_tool_calls" in failure.text:
        yield changed("parallel", profile, "The server does not know parallel_tool_calls.", parallel_tool_calls=None)


def _tools(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    if payload.tools and profile.tools_supported and _TOOLS.search(failure.text):
        notice = "This model takes no tools here: it can talk, but neither read files nor propose edits."
        yield changed("tools", profile, notice, tools_supported=False)


def _tool_choice(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    sent = payload.tool_choice == "none" and profile.tool_choice_none != "rejected"
    if sent and _TOOL_CHOICE.search(failure.text) and _REFUSING.search(failure.text):
        notice = (
            "The server does not take tool_choice; after a staged edit the model is told to stop, and is stopped."
        )
        yield changed("tool_choice", profile, notice, tool_choice_none="rejected")


def _developer(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.developer_role and "developer" in failure.text:
        yield changed("developer", profile, "The server takes system messages only.", developer_role=False)


def _tool_id(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if _ID_ALNUM9.search(failure.text):
        yield changed("tool_id:alnum9", profile, "The server wants short ids of tool calls.", tool_id="alnum9")
    if not (found := _ID_LENGTH.search(failure.text)):
        return
    named = _NAMED_LENGTH.search(failure.text, found.start())
    for length in (named[1],) if named else _USUAL_LENGTHS:
        notice = f"The server wants ids of tool calls of at most {length} characters."
        yield changed(f"tool_id:max{length}", profile, notice, tool_id=f"max{length}")


def _tool_name(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    wanted = re.search(r"(?:tool|function).{0,60}name.{0,40}(?:required|missing|must)", failure.text, re.IGNORECASE)
    if wanted and any(message.get("role") == "tool" for message in payload.messages):
        notice = "The server wants the tool's name on every result."
        yield changed("tool_name", profile, notice, tool_name_on_result=True)


def _echoes(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    """Fields beyond the standard ones, on a server that takes no others."""
    if not _REFUSING.search(failure.text):
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
    yield changed(f"echo:{','.join(changes)}", profile, "The server takes standard fields only.", **changes)


def _content(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    """What stands as content beside tool calls."""
    if not any(message.get("tool_calls") for message in payload.messages):
        return
    if profile.empty_content == "empty" and _EMPTY_CONTENT.search(failure.text):
        notice = "The server wants no empty text beside tool calls."
        yield changed("content:null", profile, notice, empty_content="null")
    if profile.empty_content != "empty" and _NULL_CONTENT.search(failure.text):
        notice = "The server wants a text beside tool calls."
        yield changed("content:empty", profile, notice, empty_content="empty")


def _order(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    """Templates with rules about who may speak when: the ladder of placements for system messages, then the rest."""
    refused, disordered = _SYSTEM_REFUSED.search(failure.text), _ORDER_REFUSED.search(failure.text)
    # Where the first one stands apart, only those in mid-conversation can have been refused.
    apart = bool(payload.system) and profile.mid_system == "inline"
    if refused and not apart and profile.mid_system != "fold_user":
        yield _placed(profile, "fold_user")
    if not refused and not disordered:
        return
    if not profile.bridge_tool_user and re.search(r"'?user'? after role '?tool", failure.text):
        yield changed("bridge", profile, "The server wants an answer after tool results.", bridge_tool_user=True)
    alternating = profile
    if _touching(payload):
        alternating = profile.model_copy(update={"merge_users": True, "bridge_tool_user": True})
    folding = profile.mid_system == "inline" and _has_mid_system(payload)
    if folding:
        yield _placed(profile, "fold_first")
    yield Correction("alternate", alternating, "The server wants user and assistant to alternate.")
    if folding and alternating != profile:
        yield _placed(alternating, "fold_first", "alternate+")
    systems = sum(one.get("role") in ("system", "developer") for one in payload.messages)
    if not refused and (folding or (profile.mid_system == "fold_first" and systems)):
        yield _placed(profile, "fold_user")
        if alternating != profile:
            yield _placed(alternating, "fold_user", "alternate+")


def _placed(profile: Profile, placement: str, also: str = "") -> Correction:
    where = "joined to the first one" if placement == "fold_first" else "marked as such in the user's messages"
    notice = f"The model takes no system message in mid-conversation; from now on they are {where}."
    return changed(f"{also}mid_system:{placement}", profile, notice, mid_system=placement)


def _touching(payload: Payload) -> bool:
    """Whether, but for system messages, the user speaks right after a tool or the user."""
    roles = [role for one in payload.messages if (role := one.get("role")) not in ("system", "developer")]
    return any(before in ("tool", "user") and after == "user" for before, after in pairwise(roles))


def _has_mid_system(payload: Payload) -> bool:
    later = payload.messages if payload.system else payload.messages[1:]
    return any(message.get("role") in ("system", "developer") for message in later)


RULES: tuple[Rule, ...] = (
    *WIRE_RULES,
    *WISH_RULES,
    *TOOL_RULES,
    *IMAGE_RULES,
    _stream_usage,
    _parallel_calls,
    _tools,
    _tool_choice,
    where_said(
        _SINGLE_CALL,
        "single_call",
        "The model takes one tool call per message; the history is sent that way.",
        single_call_turns=True,
    ),
    _tool_id,
    where_said(
        _SIGNATURE, "signature", "The server wants the signatures of its tool calls back.", call_extras_echo=True
    ),
    where_said(
        _REASONING,
        "reasoning",
        "The server wants the reasoning back beside tool calls.",
        reasoning_echo="required_on_calls",
    ),
    where_said(
        _EITHER,
        "text_beside_calls",
        "The server takes no text beside tool calls; the calls are sent.",
        text_beside_calls=False,
    ),
    _echoes,
    _developer,
    _order,
    _max_tokens,
    _tool_name,
    _content,
    *LAST_IMAGE_RULES,
)
"""Most specific first."""
