"""The payload of a request as a pure function of the log, the endpoint's profile and a few other inputs.

It runs for every request. The log is never repaired: calls without a result, orphan results and crashes during a step
are handled here, in the same way each time. `CachedPayloadBuilder` reuses messages between requests (the log only
grows) and returns the same payloads.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from msgspec import Struct

from app.conversation.events import AssistantMessage, ContentPruned, Event, HistoryCompacted, RequestSent, TurnStarted
from app.conversation.payload.history import (
    History,
    HistoryBuilder,
    HistoryBuilderState,
    HistoryGap,
    HistoryItem,
    HistoryOmissions,
    ModelResponse,
    ProgramNote,
    UserHistoryItem,
    fold_history,
    read_omissions,
)
from app.conversation.payload.image_attachment import (
    HistoryImage,
    attach_history_images_or_notes,
    attach_images_or_reasons,
    collect_history_images,
    pair_images_with_unsent_reasons,
)
from app.conversation.payload.tool_calls import (
    CallRecord,
    WireIds,
    dump_arguments_as_json,
    replace_surrogates,
    to_valid_tool_name,
)
from app.copies import replace
from app.images.image import Image
from app.llm.values.endpoint import EndpointProfile, filter_accepted_tools
from app.llm.values.requests_and_updates import NO_OPTIONS, Payload, RequestOptions
from app.llm.wires.wire import (
    NO_BEGINNING,
    AttachedImage,
    CallWithResult,
    Item,
    ItemWriter,
    ModelTurn,
    OpaqueResponseBlocks,
    SystemItem,
    UserItem,
    WireMessages,
    mark_program_text,
)
from app.llm.wires.wire_registry import wire_for

BRIDGE = "(Written by signoff: the turn stopped here.)"
"""Assistant message between a tool result and the next user message, for templates that require one there."""
MID_TURN_BRIDGE = "(Written by signoff: the user says something here.)"
"""The same during a turn: the user has written about a call."""
NOTES_HEADING = "Notes from the program, oldest first; each was given in the course of the conversation:"


class _UserMessageDraft(Struct):
    """A user message under construction: tagged notes first, then the user's text."""

    notes: list[str] = []
    words: list[str] = []
    attachments: list[AttachedImage] = []

    def item(self) -> UserItem:
        parts = [mark_program_text("\n\n".join(self.notes))] if self.notes else []
        text = replace_surrogates("\n\n".join(parts + self.words))
        return UserItem(text, bool(self.words or self.attachments), tuple(self.attachments))


def make_request_items(
    history: History, system_prompt: str, profile: EndpointProfile, endpoint: str, model: str
) -> list[Item]:
    """Return the items of a request in an order that `profile` accepts."""
    builder = RequestItemBuilder(system_prompt, profile, endpoint, model, history.pruned)
    builder.add_items(history.items)
    for text in history.tail:
        builder.add_note(text)
    rest = builder.pop_rest()
    first = builder.first_item(system_prompt)
    return rest if first is None else [first, *rest]


class RequestItemBuilder:
    """Builds the items of a request from the history, one by one, in an order that the profile accepts.

    Each step depends only on the last written items.
    """

    def __init__(
        self, system_prompt: str, profile: EndpointProfile, endpoint: str, model: str, pruned: frozenset[int]
    ) -> None:
        self._profile = profile
        self._endpoint = endpoint
        self._model = model
        self._pruned = pruned
        self._items: list[Item] = []
        self._user_draft: _UserMessageDraft | None = None
        """The user message at the end, to which more text can be added; None if there is none."""
        self._waiting_notes: list[str] = []
        """Notes without a place yet, if the profile does not allow them as system messages."""
        self._folded_notes: list[str] = []
        """Notes that are added to the first system message."""
        self._gap = ""
        self._last_role = ""
        """Role of the last message that is not a system message."""
        if profile.mid_system == "fold_user" and system_prompt:
            self.add_note(system_prompt)

    def fork(self) -> "RequestItemBuilder":
        """Return a copy that continues independently."""
        copied = copy(self)
        copied._items, copied._folded_notes = [*self._items], [*self._folded_notes]
        copied._waiting_notes = [*self._waiting_notes]
        if draft := self._user_draft:
            copied._user_draft = _UserMessageDraft([*draft.notes], [*draft.words], [*draft.attachments])
        return copied

    def add_items(self, items: Sequence[HistoryItem]) -> None:
        """Add the next items of the history."""
        for item in items:
            match item:
                case ModelResponse():
                    self.add_response(item)
                case UserHistoryItem():
                    self.add_user_message(item)
                case ProgramNote():
                    if item.applies:
                        self.add_note(item.text, introduces=item.introduces)
                case HistoryGap():
                    # Inserted if two user messages would be adjacent.
                    self._gap = item.text

    def pop_finished(self) -> list[Item]:
        """Remove and return the items that no later item changes (all but the last)."""
        settled, self._items = self._items[:-1], self._items[-1:]
        return settled

    def pop_rest(self) -> list[Item]:
        """Complete the last message and return all remaining items."""
        self._place_waiting_notes()
        self._close_user_draft()
        return self._items

    def first_item(self, system_prompt: str) -> SystemItem | None:
        """Return the system prompt with the notes folded into it as the first item; None if it is not needed."""
        folded = (NOTES_HEADING, *self._folded_notes) if self._folded_notes else ()
        if self._profile.mid_system == "fold_user" or not (system_prompt or folded):
            return None
        return SystemItem(replace_surrogates(system_prompt), tuple(replace_surrogates(text) for text in folded))

    def add_note(self, text: str, *, introduces: bool = False) -> None:
        """Add a note of the program; `introduces` as in `ProgramNote`."""
        if not text.strip():
            return
        system_text = SystemItem(replace_surrogates(text), introduces=introduces)
        if self._profile.mid_system == "inline":
            self._close_user_draft()
            self._items.append(system_text)
        else:
            self._waiting_notes.append(system_text.full_text())

    def add_user_message(self, message: UserHistoryItem) -> None:
        """Add a message of the user with its images."""
        if self._gap and self._last_role == "user":
            self._add_assistant_text(self._gap)
        self._gap = ""
        if self._last_role == "tool" and self._profile.bridge_tool_user:
            self._add_assistant_text(MID_TURN_BRIDGE if message.mid_turn else BRIDGE)
        if self._profile.mid_system == "fold_first":
            self._folded_notes += self._waiting_notes
            self._waiting_notes.clear()
        draft = self._open_user_draft(merge=self._profile.merge_users)
        draft.notes += self._waiting_notes
        self._waiting_notes.clear()
        draft.attachments += message.attachments
        if message.text.strip():
            draft.words.append(message.text)

    def add_response(self, response: ModelResponse) -> None:
        """Add a response of the model with the results of its calls."""
        self._place_waiting_notes()
        if not self._last_role and self._profile.mid_system != "inline":
            # Without system messages in the conversation, the model's message may not be the first there.
            self._open_user_draft(merge=True).notes.append(NO_BEGINNING)
        if not response.records:
            self._add_assistant_text(response.text, response)
            return
        if self._profile.single_call_turns:
            for position, record in enumerate(response.records):
                self._add_calls(response, [record], response.text if position == 0 else "")
        else:
            self._add_calls(response, response.records, response.text)

    def _place_waiting_notes(self) -> None:
        """Place the waiting notes that no user message follows."""
        if not self._waiting_notes:
            return
        if self._profile.mid_system == "fold_first" and self._last_role != "assistant":
            self._folded_notes += self._waiting_notes
        else:
            # Folding would leave two adjacent assistant messages, or the server accepts no system message.
            if self._last_role == "tool" and self._profile.bridge_tool_user:
                self._add_assistant_text(BRIDGE)
            self._open_user_draft(merge=True).notes += self._waiting_notes
        self._waiting_notes.clear()

    def _open_user_draft(self, *, merge: bool) -> _UserMessageDraft:
        if self._user_draft is None or not merge:
            self._close_user_draft()
            self._user_draft = _UserMessageDraft()
            self._last_role = "user"
        return self._user_draft

    def _close_user_draft(self) -> None:
        if self._user_draft is not None:
            self._items.append(self._user_draft.item())
            self._user_draft = None

    def _add_assistant_text(self, text: str, response: ModelResponse | None = None) -> None:
        self._close_user_draft()
        clean_text = replace_surrogates(text)
        match self._items[-1:]:
            case [ModelTurn(calls=()) as last]:
                self._items[-1] = ModelTurn(f"{last.text}\n\n{clean_text}", echo=last.echo)
            case _:
                self._items.append(ModelTurn(clean_text, echo=self._make_echo(response)))
        self._last_role = "assistant"

    def _add_calls(self, response: ModelResponse, records: list[CallRecord], text: str) -> None:
        self._close_user_draft()
        clean_text = replace_surrogates(text)
        match self._items[-1:]:
            case [ModelTurn(calls=()) as last]:
                clean_text = "\n\n".join(part for part in (last.text, clean_text) if part)
                self._items.pop()
        calls = tuple(self._make_call(record) for record in records)
        self._items.append(ModelTurn(clean_text, calls, self._make_echo(response)))
        self._last_role = "tool"

    def _make_call(self, record: CallRecord) -> CallWithResult:
        return CallWithResult(
            id=record.wire_id,
            name=to_valid_tool_name(record.call.name),
            arguments=dump_arguments_as_json(record.call.arguments),
            result=replace_surrogates(record.result_text(self._pruned)),
            attachments=record.attachments,
            extras=record.call.extras,
        )

    def _make_echo(self, response: ModelResponse | None) -> OpaqueResponseBlocks:
        if response is None:
            return OpaqueResponseBlocks()
        message = response.message
        same = message.endpoint == self._endpoint and message.model == self._model
        return OpaqueResponseBlocks(same, replace_surrogates(message.reasoning), message.extras)


_MAX_KEPT_CHARACTERS = 24_000
"""Maximum number of characters of user messages from before a compaction that stay verbatim."""
_KEPT_CHARACTERS_PER_TOKEN = 0.8
"""The same relative to the context window (a fifth of it, at four characters per token)."""

UNANSWERED_YET = "(Written by signoff: this is answered later; the user asks something aside.)"
"""Assistant message between the last user message of the conversation and the side question."""


class SideQuestionInputs(Struct, frozen=True):
    """The inputs of a request for a side question: the program's note, the question, and the thread so far."""

    note: str
    """The program's explanation of the side question."""
    question: str
    """The text of the user."""
    earlier: Sequence[tuple[str, str]] = ()
    """The previous questions and answers of its thread."""


@dataclass(frozen=True, slots=True)
class PayloadInputs:
    """The inputs of a payload besides the log and the profile."""

    system_prompt: str
    tools: list[dict[str, Any]]
    """Tool schemas; passed on unchanged, the same in every request."""
    closing: bool = False
    """Whether this is the closing request, in which the model may not call tools."""
    endpoint: str = ""
    """Base URL of this request, as in `AssistantMessage.endpoint`: opaque fields are sent only to the endpoint that
    produced them."""
    model: str = ""
    """Same format as `AssistantMessage.model`."""
    options: RequestOptions = NO_OPTIONS
    """The user's request settings; passed on unchanged."""
    images: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The bytes of images as base64, by SHA-256."""
    side_request: SideQuestionInputs | None = None
    """A side question, which is not in the log; the model may not call tools."""


def project(events: Sequence[Event], profile: EndpointProfile, inputs: PayloadInputs) -> Payload:
    """Return the payload for a log.

    Any sequence of events (for example any prefix of a log) gives a valid payload, in linear time. The same arguments
    give the same bytes. An appended event changes only the end of the messages, unless it is a compaction, a pruning,
    or a note that the profile folds into the first message.

    A closing request contains the tools even if the endpoint does not accept `tool_choice`. Measured over 60 chat
    templates, a median of 97 % of its prompt is a cached prefix of the request before it; without the tools it is
    0.2 %, because nearly all templates list them first. The endpoints known to refuse `tool_choice` also refuse calls
    in the history without tools. If the model calls a tool anyway, the executor refuses the call and the turn ends.
    """
    wire = wire_for(profile)
    original_profile, profile = profile, wire.adapt_profile(profile)
    history = fold_history(events, WireIds(profile.tool_id), _max_kept_characters(profile))
    if inputs.side_request is not None:
        history = _append_side_request(history, inputs.side_request)
    history_items, images = attach_history_images_or_notes(history.items, profile, inputs.images)
    items = make_request_items(
        replace(history, items=history_items), inputs.system_prompt, profile, inputs.endpoint, inputs.model
    )
    return _make_payload(wire.make_messages(items, profile), original_profile, inputs, images)


def _make_payload(
    written: WireMessages, profile: EndpointProfile, inputs: PayloadInputs, images: tuple[Image, ...]
) -> Payload:
    is_text_only = inputs.closing or inputs.side_request is not None
    forbids_calls = is_text_only and profile.tools_supported and profile.tool_choice_none != "rejected"
    return Payload(
        messages=written.messages,
        system=written.system,
        tools=filter_accepted_tools(inputs.tools, profile.refused_tools) if profile.tools_supported else [],
        tool_choice="none" if forbids_calls else None,
        options=inputs.options,
        images=images,
    )


class _CachedPrefix(Struct, frozen=True):
    """The beginning of a log as messages, with all state that the projection of later events needs."""

    key: tuple[Any, ...]
    events: tuple[Event, ...]
    marks: HistoryOmissions
    later: tuple[Event, ...]
    """Compactions and prunings after the prefix that `marks` includes."""
    earlier: HistoryBuilderState | None
    ids: WireIds
    history_images: list[HistoryImage]
    image_reasons: list[tuple[Image, str]]
    builder: RequestItemBuilder
    writer: ItemWriter

    def reader(self) -> HistoryBuilder:
        """Return a new reader for the events after the prefix."""
        kept = _max_kept_characters(self.key[0])
        return HistoryBuilder(self.marks, self.ids.fork(), kept, self.earlier)


class CachedPayloadBuilder:
    """Builds the payloads of a session; each costs time only for the new events.

    It caches the messages of the log up to the last request or turn start at which no call or question was open. It
    starts again from the first event if the log does not continue the cached one, if a later event changes earlier
    items (a pruning, a compaction, a late result, a note that no longer applies), if a different image has to be left
    out, or if the profile, endpoint or model changes. May be called on any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._prefix: _CachedPrefix | None = None

    def project(self, events: Sequence[Event], profile: EndpointProfile, inputs: PayloadInputs) -> Payload:
        """Return the payload for a log, like the function `project`."""
        events = tuple(events)
        prompt = inputs.system_prompt if profile.mid_system == "fold_user" else ""
        key = (profile, inputs.endpoint, inputs.model, prompt)
        with self._lock:
            prefix, self._prefix = self._prefix, None
            continues_prefix = prefix and prefix.key == key and events[: len(prefix.events)] == prefix.events
            if prefix and continues_prefix and (payload := self._project_after_prefix(prefix, events, inputs)):
                return payload
            payload = self._project_after_prefix(_empty_prefix(key, events, prompt), events, inputs)
            assert payload is not None, "nothing stands before the first event"
            return payload

    def _project_after_prefix(
        self, prefix: _CachedPrefix, events: tuple[Event, ...], inputs: PayloadInputs
    ) -> Payload | None:
        """Return the payload based on the cached prefix; None if a later event changes the prefix."""
        start = len(prefix.events)
        if _find_omission_events(events[start:]) != prefix.later:
            return None
        profile = wire_for(prefix.key[0]).adapt_profile(prefix.key[0])
        reader, settled = prefix.reader(), start
        for position in range(start, len(events)):
            event = events[position]
            if isinstance(event, RequestSent | TurnStarted) and reader.is_settled:
                settled = position
            reader.apply(position, event)
        history = reader.finish_history()
        if inputs.side_request is not None:
            history = _append_side_request(history, inputs.side_request)
        history_images = prefix.history_images + collect_history_images(history.items)
        image_reasons = pair_images_with_unsent_reasons(history_images, profile, inputs.images)
        if reader.changed_earlier or image_reasons[: len(prefix.image_reasons)] != prefix.image_reasons:
            return None
        builder, writer = prefix.builder.fork(), prefix.writer.fork()
        builder.add_items(
            attach_images_or_reasons(history.items, image_reasons[len(prefix.image_reasons) :], inputs.images)
        )
        for text in history.tail:
            builder.add_note(text)
        for item in builder.pop_rest():
            writer.add(item)
        if settled:
            self._prefix = (
                _extend_prefix(prefix, events[:settled], image_reasons, inputs) if settled > start else prefix
            )
        images = tuple(image for image, reason in image_reasons if not reason)
        return _make_payload(writer.finish(builder.first_item(inputs.system_prompt)), prefix.key[0], inputs, images)


def _empty_prefix(key: tuple[Any, ...], events: Sequence[Event], prompt: str) -> _CachedPrefix:
    wire = wire_for(key[0])
    profile, marks = wire.adapt_profile(key[0]), read_omissions(events)
    builder = RequestItemBuilder(prompt, profile, key[1], key[2], marks.pruned)
    return _CachedPrefix(
        key,
        (),
        marks,
        _find_omission_events(events),
        None,
        WireIds(profile.tool_id),
        [],
        [],
        builder,
        wire.make_writer(profile),
    )


def _find_omission_events(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the compactions and prunings among these events."""
    return tuple(event for event in events if isinstance(event, HistoryCompacted | ContentPruned))


def _extend_prefix(
    prefix: _CachedPrefix,
    events: tuple[Event, ...],
    image_reasons: Sequence[tuple[Image, str]],
    inputs: PayloadInputs,
) -> _CachedPrefix:
    """Return the prefix of these events, which are settled; `image_reasons` may go on with later images."""
    reader = prefix.reader()
    for position in range(len(prefix.events), len(events)):
        reader.apply(position, events[position])
    items, earlier = reader.checkpoint()
    history_images = prefix.history_images + collect_history_images(items)
    builder, writer = prefix.builder.fork(), prefix.writer.fork()
    builder.add_items(
        attach_images_or_reasons(items, image_reasons[len(prefix.image_reasons) : len(history_images)], inputs.images)
    )
    for item in builder.pop_finished():
        writer.add(item)
    prefix_images = list(image_reasons[: len(history_images)])
    later = prefix.later[len(_find_omission_events(events[len(prefix.events) :])) :]
    return _CachedPrefix(
        prefix.key, events, prefix.marks, later, earlier, reader.ids, history_images, prefix_images, builder, writer
    )


def _max_kept_characters(profile: EndpointProfile) -> int:
    if profile.context_window is None:
        return _MAX_KEPT_CHARACTERS
    return min(_MAX_KEPT_CHARACTERS, int(profile.context_window * _KEPT_CHARACTERS_PER_TOKEN))


def _append_side_request(history: History, aside: SideQuestionInputs) -> History:
    """Return the history with a side question at its end, without the notes for this request."""
    items: list[HistoryItem] = [*history.items, HistoryGap(UNANSWERED_YET), ProgramNote(aside.note)]
    for question, answer in aside.earlier:
        items += [UserHistoryItem(question), ModelResponse(answer, AssistantMessage(text=answer))]
    items.append(UserHistoryItem(aside.question))
    return replace(history, items=items, tail=[])
