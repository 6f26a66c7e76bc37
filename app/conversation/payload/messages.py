"""From the history to wire messages: where the program's notes go, and in which order roles may follow.

Servers and their chat templates differ in what they accept after what; the profile says so. Whatever the profile, a
call is followed at once by its result, and the program's notes never look like the user's words: where a server takes
no system message at a place, a note goes to the first system message or into a tagged block.
"""

from dataclasses import dataclass, field
from typing import Any

from app.conversation.payload.history import History, Note, Omission, Response, Words
from app.conversation.payload.missing_results import CallRecord
from app.conversation.payload.wire_arguments import arguments_text, replace_surrogates
from app.conversation.payload.wire_ids import wire_name
from app.llm.capabilities.profile import Profile

BRIDGE = "(stopped here)"
"""Stands between a tool result and the user's next words, since many templates allow only the model there."""
NOTE_OPENING = "<signoff-note>"
NOTE_CLOSING = "</signoff-note>"
NOTE_PREAMBLE = "Written by the program signoff, not by the user:"
NOTES_HEADING = "Notes from the program, oldest first; each was given in the course of the conversation:"
NO_BEGINNING = "The beginning of this conversation is not shown."


@dataclass(slots=True)
class _UserDraft:
    """A user message in the making: tagged notes first, then what the user said."""

    notes: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def content(self) -> str:
        parts = [tagged("\n\n".join(self.notes))] if self.notes else []
        return replace_surrogates("\n\n".join(parts + self.words))


def tagged(text: str) -> str:
    """Program text as a marked block for a place where only a user message is accepted."""
    inert = text.replace(NOTE_CLOSING, "<\\/signoff-note>")
    return f"{NOTE_OPENING}\n{NOTE_PREAMBLE}\n{inert}\n{NOTE_CLOSING}"


def place(history: History, system_prompt: str, profile: Profile, endpoint: str, model: str) -> list[dict[str, Any]]:
    """The messages of one request, in the order and form that `profile` accepts."""
    writer = _Writer(profile, endpoint, model, history.pruned)
    if profile.mid_system == "fold_user" and system_prompt:
        writer.note(system_prompt)
    for item in history.items:
        match item:
            case Response():
                writer.response(item)
            case Words():
                writer.words(item.text)
            case Note():
                if item.applies:
                    writer.note(item.text)
            case Omission():
                writer.gap(item.text)
    for text in history.tail:
        writer.note(text)
    return writer.messages(system_prompt)


class _Writer:
    """Appends messages one by one; each step looks only at what was written last."""

    def __init__(self, profile: Profile, endpoint: str, model: str, pruned: frozenset[int]) -> None:
        self._profile = profile
        self._endpoint = endpoint
        self._model = model
        self._pruned = pruned
        self._written: list[dict[str, Any]] = []
        self._user: _UserDraft | None = None
        """The user message at the very end, still open for more words."""
        self._waiting: list[str] = []
        """Notes without a place yet, where they cannot stand as system messages."""
        self._folded: list[str] = []
        """Notes that go to the first system message."""
        self._gap = ""
        self._last_role = ""
        """Of the last message that is not a system message."""

    @property
    def _system_role(self) -> str:
        return "developer" if self._profile.developer_role else "system"

    def messages(self, system_prompt: str) -> list[dict[str, Any]]:
        """Everything written, with the system prompt first."""
        self._place_waiting_notes()
        self._close_user()
        if self._profile.mid_system == "fold_user":
            return self._written
        first = system_prompt
        if self._folded:
            first = "\n\n".join([part for part in (first, NOTES_HEADING) if part] + self._folded)
        head = [{"role": self._system_role, "content": replace_surrogates(first)}] if first else []
        return head + self._written

    def note(self, text: str) -> None:
        """Something the program tells the model at this point."""
        if not text.strip():
            return
        if self._profile.mid_system == "inline":
            self._close_user()
            self._written.append({"role": self._system_role, "content": replace_surrogates(text)})
        else:
            self._waiting.append(text)

    def gap(self, text: str) -> None:
        """Something was left out here."""
        self._gap = text

    def words(self, text: str) -> None:
        """Something the user said."""
        if self._gap and self._last_role == "user":
            self._assistant_text(self._gap)
        self._gap = ""
        if self._last_role == "tool" and self._profile.bridge_tool_user:
            self._assistant_text(BRIDGE)
        if self._profile.mid_system == "fold_first":
            self._folded += self._waiting
            self._waiting.clear()
        draft = self._open_user(merge=self._profile.merge_users)
        draft.notes += self._waiting
        self._waiting.clear()
        draft.words.append(text)

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
            self._written.append({"role": "user", "content": self._user.content()})
            self._user = None

    def _assistant_text(self, text: str, response: Response | None = None) -> None:
        self._close_user()
        last = self._written[-1] if self._written else None
        if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
            last["content"] += "\n\n" + replace_surrogates(text)
        else:
            self._written.append({"role": "assistant", "content": replace_surrogates(text), **self._echo(response)})
        self._last_role = "assistant"

    def _calls(self, response: Response, records: list[CallRecord], text: str) -> None:
        self._close_user()
        content = replace_surrogates(text)
        last = self._written[-1] if self._written else None
        if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
            content = "\n\n".join(part for part in (last["content"], content) if part)
            self._written.pop()
        message: dict[str, Any] = {"role": "assistant"}
        if content or self._profile.empty_content == "empty":
            message["content"] = content
        elif self._profile.empty_content == "null":
            message["content"] = None
        message |= self._echo(response)
        message["tool_calls"] = [self._call(record, response) for record in records]
        self._written.append(message)
        self._written += [self._result(record) for record in records]
        self._last_role = "tool"

    def _call(self, record: CallRecord, response: Response) -> dict[str, Any]:
        function = {"name": wire_name(record.call.name), "arguments": arguments_text(record.call.arguments)}
        extras = record.call.extras if self._profile.call_extras_echo and self._same_model(response) else {}
        return {**extras, "id": record.wire_id, "type": "function", "function": function}

    def _result(self, record: CallRecord) -> dict[str, Any]:
        message = {
            "role": "tool",
            "tool_call_id": record.wire_id,
            "content": replace_surrogates(record.text(self._pruned)),
        }
        if self._profile.tool_name_on_result:
            message["name"] = wire_name(record.call.name)
        return message

    def _same_model(self, response: Response) -> bool:
        return response.message.endpoint == self._endpoint and response.message.model == self._model

    def _echo(self, response: Response | None) -> dict[str, Any]:
        """Reasoning as the endpoint wants it back: opaque, so only to the endpoint and model that made it."""
        if response is None or self._profile.reasoning_echo == "never":
            return {}
        message = response.message
        same = self._same_model(response)
        echoed = {key: value for key, value in message.extras.items() if key not in _OWN_FIELDS} if same else {}
        if self._profile.reasoning_echo == "required_on_calls":
            if response.records:
                echoed["reasoning_content"] = replace_surrogates(message.reasoning) if same else ""
        elif same and message.reasoning and not echoed:
            echoed["reasoning_content"] = replace_surrogates(message.reasoning)
        return echoed


_OWN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
