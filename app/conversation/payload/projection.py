"""The payload of a request as a pure function of the log, the profile of the endpoint and a few facts.

It runs at every send. Nothing mutates the history and nothing keeps a copy of it: a call without a result, an
orphan, a crash in mid-step are dealt with here, in the same way whenever the payload is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.conversation.events import Event
from app.conversation.payload.history import read_history
from app.conversation.payload.placement import place
from app.conversation.payload.wire_ids import WireIds
from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.registry import wire_of
from app.llm.wishes import NO_WISHES, Wishes

_KEPT_CHARACTERS = 24_000
"""How much of the user's own words from before a compaction stays verbatim, at most."""
_KEPT_CHARACTERS_PER_TOKEN = 0.8
"""The same as a share of the context window (a fifth of it, at four characters a token)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a payload depends on besides the log and the profile."""

    system_prompt: str
    tools: list[dict[str, Any]]
    """Tool schemas; passed on as they are, the same in every request."""
    closing: bool = False
    """Whether this is the closing request, in which the model may call no tool."""
    endpoint: str = ""
    """Base URL of this request, as in `AssistantMessage.endpoint`: opaque fields go back only to where they came
    from."""
    model: str = ""
    """As in `AssistantMessage.model`."""
    wishes: Wishes = NO_WISHES
    """The user's request settings; passed on as they are."""


def project(events: Sequence[Event], profile: Profile, facts: Facts) -> Payload:
    """The payload for a log.

    Total: any sequence of events, such as any prefix of a log, gives a valid payload. Linear in the size of the log.
    The same arguments give the same bytes, and an event at the end changes only the end of the messages, unless it is
    a compaction, a pruning, or a note that the profile folds into the first message.

    A closing request keeps its tools also where the endpoint takes no `tool_choice`. Measured over 60 chat templates,
    a median of 97 % of its prompt is the prefix of the request before it, and cached; without the tools it is 0.2 %,
    since nearly all templates name them first. The endpoints that are known to refuse `tool_choice` refuse calls in
    the history without tools as well. A call that comes all the same is refused by the executor and ends the turn.
    """
    wire = wire_of(profile)
    profile = wire.fitted(profile)
    history = read_history(events, WireIds(profile.tool_id), _kept_characters(profile))
    items = place(history, facts.system_prompt, profile, facts.endpoint, facts.model)
    closing = facts.closing and profile.tools_supported and profile.tool_choice_none != "rejected"
    written = wire.written(items, profile)
    return Payload(
        messages=written.messages,
        system=written.system,
        tools=facts.tools if profile.tools_supported else [],
        tool_choice="none" if closing else None,
        wishes=facts.wishes,
    )


def _kept_characters(profile: Profile) -> int:
    if profile.context_window is None:
        return _KEPT_CHARACTERS
    return min(_KEPT_CHARACTERS, int(profile.context_window * _KEPT_CHARACTERS_PER_TOKEN))
