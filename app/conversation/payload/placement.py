"""From the history to the items of a request: where the program's notes go, and in which order roles may follow.

Servers and their chat templates differ in what they accept after what; the profile says so. Whatever the profile, a
call has its result, and the program's notes never look like the user's words: where a server takes no system message
at a place, a note goes to the first system message or into a marked block.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

from app.conversation.payload.history import History, Note, Omission, Response, Words
from app.conversation.payload.history import Item as HistoryItem
from app.conversation.payload.missing_results import CallRecord
from app.conversation.payload.wire_arguments import arguments_text, replace_surrogates
from app.conversation.payload.wire_ids import wire_name
from app.llm.capabilities.profile import Profile
from app.llm.wires.items import (
    Attachment,
    CallWithResult,
    Echo,
    Item,
    ModelTurn,
    SystemText,
    UserText,
)
from app.llm.wires.marking import NO_BEGINNING, tagged

BRIDGE = "(Written by signoff: the turn stopped here.)"
"""Stands between a tool result and the user's next words, where a template allows only the model there."""
MID_TURN_BRIDGE = "(Written by signoff: the user says something here.)"
"""The same where the turn goes on: the user has said something of a call."""
NOTES_HEADING = "Notes from the program, oldest first; each was given in the course of the conversation:"


@dataclass(slots=True)
class _UserDraft:
    """A user message in the making: tagged notes first, then what the user said."""

    notes: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)

    def item(self) -> UserText:
        parts = [tagged("\n\n".join(self.notes))] if self.notes else []
        text = replace_surrogates("\n\n".join(parts + self.words))
        return UserText(text, bool(self.words or self.attachments), tuple(self.attachments))


def place(history: History, system_prompt: str, profile: Profile, endpoint: str, model: str) -> list[Item]:
    """The items of one request, in the order that `profile` accepts."""
    placer = Placer(system_prompt, profile, endpoint, model, history.pruned)
    placer.place(history.items)
    for text in history.tail:
        placer.note(text)
    rest = placer.end()
    first = placer.first(system_prompt)
    return rest if first is None else [first, *rest]


class Placer:
    """Appends items one by one; each step looks only at what was written last."""

    def __init__(
        self, system_prompt: str, profile: Profile, endpoint: str, model: str, pruned: frozenset[int]
    ) -> None:
        self._profile = profile
        self._endpoint = endpoint
        self._model = model
        self._pruned = pruned
        self._written: list[Item] = []
        self._user: _UserDraft | None = None
        """The user message at the very end, still open for more words."""
        self._waiting: list[str] = []
        """Notes without a place yet, where they cannot stand as system messages."""
        self._folded: list[str] = []
        """Notes that go to the first system message."""
        self._gap = ""
        self._last_role = ""
        """Of the last message that is not a system message."""
        if profile.mid_system == "fold_user" and system_prompt:
            self.note(system_prompt)

    def copy(self) -> "Placer":
        """Another one that goes on from here by itself."""
        copied = copy(self)
        copied._written, copied._waiting, copied._folded = [*self._written], [*self._waiting], [*self._folded]
        if draft := self._user:
            copied._user = _UserDraft([*draft.notes], [*draft.words], [*draft.attachments])
        return copied

    def place(self, items: Sequence[HistoryItem]) -> None:
        """Take in the next items of the history."""
        for item in items:
            match item:
                case Response():
                    self.response(item)
                case Words():
                    self.words(item)
                case Note():
                    if item.applies:
                        self.note(item.text, introduces=item.introduces)
                case Omission():
                    self.gap(item.text)

    def take_settled(self) -> list[Item]:
        """What was written and no later item changes, which is all but the last; each comes once."""
        settled, self._written = self._written[:-1], self._written[-1:]
        return settled

    def end(self) -> list[Item]:
        """Everything written but what was taken, once all items are in."""
        self._place_waiting_notes()
        self._close_user()
        return self._written

    def first(self, system_prompt: str) -> SystemText | None:
        """What stands before all that is written: the system prompt, and notes that are folded into it."""
        folded = (NOTES_HEADING, *self._folded) if self._folded else ()
        if self._profile.mid_system == "fold_user" or not (system_prompt or folded):
            return None
        return SystemText(replace_surrogates(system_prompt), tuple(replace_surrogates(text) for text in folded))

    def note(self, text: str, *, introduces: bool = False) -> None:
        """Something the program tells the model at this point; `introduces` as in `Note`."""
        if not text.strip():
            return
        told = SystemText(replace_surrogates(text), introduces=introduces)
        if self._profile.mid_system == "inline":
            self._close_user()
            self._written.append(told)
        else:
            self._waiting.append(told.whole())

    def gap(self, text: str) -> None:
        """Something was left out here."""
        self._gap = text

    def words(self, said: Words) -> None:
        """Something the user said, and images with it."""
        if self._gap and self._last_role == "user":
            self._assistant_text(self._gap)
        self._gap = ""
        if self._last_role == "tool" and self._profile.bridge_tool_user:
            self._assistant_text(MID_TURN_BRIDGE if said.mid_turn else BRIDGE)
        if self._profile.mid_system == "fold_first":
            self._folded += self._waiting
            self._waiting.clear()
        draft = self._open_user(merge=self._profile.merge_users)
        draft.notes += self._waiting
        self._waiting.clear()
        draft.attachments += said.attachments
        if said.text.strip():
            draft.words.append(said.text)

    def response(self, response: Response) -> None:
        """A response of the model, and the results of its calls."""
        self._place_waiting_notes()
        self._begin_with_user()
        if not response.records:
            self._assistant_text(response.text, response)
            return
        if self._profile.single_call_turns:
            for position, record in enumerate(response.records):
                self._calls(response, [record], response.text if position == 0 else "")
        else:
            self._calls(response, response.records, response.text)

    def _place_waiting_notes(self) -> None:
        """Find the place of notes that no words of the user follow."""
        if not self._waiting:
            return
        if self._profile.mid_system == "fold_first" and self._last_role != "assistant":
            self._folded += self._waiting
        else:
            # Two turns of the model would touch, or the server takes no system message at all.
            if self._last_role == "tool" and self._profile.bridge_tool_user:
                self._assistant_text(BRIDGE)
            self._open_user(merge=True).notes += self._waiting
        self._waiting.clear()

    def _begin_with_user(self) -> None:
        """Where system messages are not taken in mid-conversation, the model may not speak first either."""
        if not self._last_role and self._profile.mid_system != "inline":
            self._open_user(merge=True).notes.append(NO_BEGINNING)

    def _open_user(self, *, merge: bool) -> _UserDraft:
        if self._user is None or not merge:
            self._close_user()
            self._user = _UserDraft()
            self._last_role = "user"
        return self._user

    def _close_user(self) -> None:
        if self._user is not None:
            self._written.append(self._user.item())
            self._user = None

    def _assistant_text(self, text: str, response: Response | None = None) -> None:
        self._close_user()
        spoken = replace_surrogates(text)
        match self._written[-1:]:
            case [ModelTurn(calls=()) as last]:
                self._written[-1] = ModelTurn(f"{last.text}\n\n{spoken}", echo=last.echo)
            case _:
                self._written.append(ModelTurn(spoken, echo=self._echo(response)))
        self._last_role = "assistant"

    def _calls(self, response: Response, records: list[CallRecord], text: str) -> None:
        self._close_user()
        spoken = replace_surrogates(text)
        match self._written[-1:]:
            case [ModelTurn(calls=()) as last]:
                spoken = "\n\n".join(part for part in (last.text, spoken) if part)
                self._written.pop()
        calls = tuple(self._call(record) for record in records)
        self._written.append(ModelTurn(spoken, calls, self._echo(response)))
        self._last_role = "tool"

    def _call(self, record: CallRecord) -> CallWithResult:
        return CallWithResult(
            id=record.wire_id,
            name=wire_name(record.call.name),
            arguments=arguments_text(record.call.arguments),
            result=replace_surrogates(record.text(self._pruned)),
            attachments=record.attachments,
            extras=record.call.extras,
        )

    def _echo(self, response: Response | None) -> Echo:
        if response is None:
            return Echo()
        message = response.message
        same = message.endpoint == self._endpoint and message.model == self._model
        return Echo(same, replace_surrogates(message.reasoning), message.extras)
