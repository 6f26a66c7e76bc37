"""The payload of a request as a pure function of the log, the profile of the endpoint and a few facts.

It runs at every send. Nothing mutates the history: a call without a result, an orphan, a crash in mid-step are dealt
with here, in the same way whenever the payload is made. `KeptProjection` keeps messages between sends, since the log
only grows, and gives the same payloads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from app.conversation.compaction.cuts import Omissions, compaction_marks
from app.conversation.events import AssistantMessage, Compacted, Event, Pruned, RequestSent, TurnStarted
from app.conversation.payload.attached import CarriedImage, attach, images_in, judge_images, with_attachments
from app.conversation.payload.history import (
    EarlierHistory,
    History,
    HistoryReader,
    Item,
    Note,
    Omission,
    Response,
    Words,
    read_history,
)
from app.conversation.payload.placement import Placer, place
from app.conversation.payload.wire_ids import WireIds
from app.images.image import Image
from app.llm.capabilities.profile import Profile
from app.llm.capabilities.refused_tools import taken
from app.llm.types import Payload
from app.llm.wires.registry import wire_of
from app.llm.wires.wire import ItemWriter, Written
from app.llm.wishes import NO_WISHES, Wishes

_KEPT_CHARACTERS = 24_000
"""How much of the user's own words from before a compaction stays verbatim, at most."""
_KEPT_CHARACTERS_PER_TOKEN = 0.8
"""The same as a share of the context window (a fifth of it, at four characters a token)."""

UNANSWERED_YET = "(Written by signoff: this is answered later; the user asks something aside.)"
"""Stands between what the user said last in the conversation and the question."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A side question and what it takes to answer it."""

    note: str
    """What this is, in the program's words."""
    question: str
    """The user's."""
    earlier: Sequence[tuple[str, str]] = ()
    """The questions and answers before it in its thread."""


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
    images: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The bytes of images as base64, by their SHA-256."""
    aside: Aside | None = None
    """A side question, which is no part of the log; then no tool may be called."""


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
    given, profile = profile, wire.fitted(profile)
    history = read_history(events, WireIds(profile.tool_id), _kept_characters(profile))
    if facts.aside is not None:
        history = _with_aside(history, facts.aside)
    spoken, images = with_attachments(history.items, profile, facts.images)
    items = place(replace(history, items=spoken), facts.system_prompt, profile, facts.endpoint, facts.model)
    return _payload(wire.written(items, profile), given, facts, images)


def _payload(written: Written, profile: Profile, facts: Facts, images: tuple[Image, ...]) -> Payload:
    talks = facts.closing or facts.aside is not None
    closing = talks and profile.tools_supported and profile.tool_choice_none != "rejected"
    return Payload(
        messages=written.messages,
        system=written.system,
        tools=taken(facts.tools, profile.refused_tools) if profile.tools_supported else [],
        tool_choice="none" if closing else None,
        wishes=facts.wishes,
        images=images,
    )


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The beginning of a log as messages, with all that the projection of what comes after it depends on."""

    key: tuple[Any, ...]
    events: tuple[Event, ...]
    marks: Omissions
    later: tuple[Event, ...]
    """The compactions and prunings behind it that `marks` has, too."""
    earlier: EarlierHistory | None
    ids: WireIds
    carried: list[CarriedImage]
    judged: list[tuple[Image, str]]
    placer: Placer
    writer: ItemWriter

    def reader(self) -> HistoryReader:
        """A reader of the events behind it, each of which may be read by several."""
        kept = _kept_characters(self.key[0])
        return HistoryReader(self.marks, self.ids.copy(), kept, self.earlier)


class KeptProjection:
    """Projects the log of one session again and again: `project`, at the cost of what is new in the log.

    Of the log up to the last request at which nothing was open the messages are kept. All is projected anew where
    the log does not go on from there, where a later event changes what was said before (a pruning, a compaction, a
    late result, a note that no longer applies), where another image has to be left out, and for another profile,
    endpoint or model. May be called on any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._prefix: _Prefix | None = None

    def project(self, events: Sequence[Event], profile: Profile, facts: Facts) -> Payload:
        """What `project` gives for the same arguments."""
        events = tuple(events)
        prompt = facts.system_prompt if profile.mid_system == "fold_user" else ""
        key = (profile, facts.endpoint, facts.model, prompt)
        with self._lock:
            prefix, self._prefix = self._prefix, None
            goes_on = prefix and prefix.key == key and events[: len(prefix.events)] == prefix.events
            if prefix and goes_on and (payload := self._continued(prefix, events, facts)):
                return payload
            payload = self._continued(_empty_prefix(key, events, prompt), events, facts)
            assert payload is not None, "nothing stands before the first event"
            return payload

    def _continued(self, prefix: _Prefix, events: tuple[Event, ...], facts: Facts) -> Payload | None:
        """The payload from what is kept; None if an event behind that changes it."""
        start = len(prefix.events)
        if _omitting(events[start:]) != prefix.later:
            return None
        profile = wire_of(prefix.key[0]).fitted(prefix.key[0])
        reader, settled = prefix.reader(), start
        for position in range(start, len(events)):
            event = events[position]
            if isinstance(event, RequestSent | TurnStarted) and reader.settled:
                settled = position
            reader.apply(position, event)
        history = reader.history()
        if facts.aside is not None:
            history = _with_aside(history, facts.aside)
        carried = prefix.carried + images_in(history.items)
        judged = judge_images(carried, profile, facts.images)
        if reader.changed_earlier or judged[: len(prefix.judged)] != prefix.judged:
            return None
        placer, writer = prefix.placer.copy(), prefix.writer.copy()
        placer.place(attach(history.items, judged[len(prefix.judged) :], facts.images))
        for text in history.tail:
            placer.note(text)
        for item in placer.end():
            writer.add(item)
        if settled:
            self._prefix = _longer(prefix, events[:settled], judged, facts) if settled > start else prefix
        images = tuple(image for image, reason in judged if not reason)
        return _payload(writer.end(placer.first(facts.system_prompt)), prefix.key[0], facts, images)


def _empty_prefix(key: tuple[Any, ...], events: Sequence[Event], prompt: str) -> _Prefix:
    wire = wire_of(key[0])
    profile, marks = wire.fitted(key[0]), compaction_marks(events)
    placer = Placer(prompt, profile, key[1], key[2], marks.pruned)
    return _Prefix(
        key, (), marks, _omitting(events), None, WireIds(profile.tool_id), [], [], placer, wire.writer(profile)
    )


def _omitting(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the compactions and prunings among these events."""
    return tuple(event for event in events if isinstance(event, Compacted | Pruned))


def _longer(prefix: _Prefix, events: tuple[Event, ...], judged: Sequence[tuple[Image, str]], facts: Facts) -> _Prefix:
    """A prefix of all of these events, which are settled; of the images, `judged` has these and maybe later ones."""
    reader = prefix.reader()
    for position in range(len(prefix.events), len(events)):
        reader.apply(position, events[position])
    items, earlier = reader.settle()
    carried = prefix.carried + images_in(items)
    placer, writer = prefix.placer.copy(), prefix.writer.copy()
    placer.place(attach(items, judged[len(prefix.judged) : len(carried)], facts.images))
    for item in placer.take_settled():
        writer.add(item)
    kept = list(judged[: len(carried)])
    later = prefix.later[len(_omitting(events[len(prefix.events) :])) :]
    return _Prefix(prefix.key, events, prefix.marks, later, earlier, reader.ids, carried, kept, placer, writer)


def _kept_characters(profile: Profile) -> int:
    if profile.context_window is None:
        return _KEPT_CHARACTERS
    return min(_KEPT_CHARACTERS, int(profile.context_window * _KEPT_CHARACTERS_PER_TOKEN))


def _with_aside(history: History, aside: Aside) -> History:
    """The history with a side question at its end, in the place of the notes for the request that it isn't."""
    items: list[Item] = [*history.items, Omission(UNANSWERED_YET), Note(aside.note)]
    for question, answer in aside.earlier:
        items += [Words(question), Response(answer, AssistantMessage(text=answer))]
    items.append(Words(aside.question))
    return replace(history, items=items, tail=[])
