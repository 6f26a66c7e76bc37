"""Side questions and answers of the review, by hunk: from the session's updates and from the store."""

from collections.abc import Iterable

from app.agent.updates import Recorded, SideDiscarded, SideStreamed, SideUpdate
from app.conversation.events import EventBase, SideAnswer, SideExchange, SideQuestion, ThreadAnchor, side_exchanges
from app.conversation.token_totals import TokenTotals
from widgets.chat.entries.entry_base import TranscriptEntry
from widgets.chat.entries.message_entries import AnswerEntry, UserEntry
from widgets.chat.entries.program_entries import NoticeEntry
from widgets.chat.markdown.styled_lines import seconds
from widgets.common.figures import format_dollars, format_tokens

_WAITING = "Waiting for the answer …"
_UNANSWERED = "No answer came of it. Ask again if you still want to know."


class SideThreads:
    """All known side questions with their answers."""

    def __init__(self) -> None:
        self._known: dict[str, SideExchange] = {}
        """By the question's uid, in the order in which they were asked."""
        self._streamed: dict[str, str] = {}
        """What has come of the answers that are awaited here."""

    def load(self, events: Iterable[EventBase]) -> None:
        """Add stored questions of a proposal."""
        for exchange in side_exchanges(events):
            known = self._known.get(exchange.question.uid)
            if known is None or known.answer is None:
                self._known[exchange.question.uid] = exchange

    def take(self, update: SideUpdate) -> ThreadAnchor | None:
        """Handle an update; return the place of its question, if known."""
        match update:
            case Recorded(event=SideQuestion() as question):
                self._known[question.uid] = SideExchange(question)
                self._streamed[question.uid] = ""
                return question.place
            case Recorded(event=SideAnswer() as answer):
                self._streamed.pop(answer.question, None)
                return self._answered(answer)
            case SideStreamed(question=uid, text=text) if uid in self._streamed:
                self._streamed[uid] += text
                return self._known[uid].question.place
            case SideDiscarded(question=uid, over=over) if uid in self._streamed:
                self._streamed[uid] = ""
                if over:
                    del self._streamed[uid]
                return self._known[uid].question.place
        return None

    def _answered(self, answer: SideAnswer) -> ThreadAnchor | None:
        known = self._known.get(answer.question)
        if known is None:
            return None
        self._known[answer.question] = SideExchange(known.question, answer)
        return known.question.place

    def of(self, place: ThreadAnchor) -> list[SideExchange]:
        """Return the questions at a place, oldest first."""
        return [one for one in self._known.values() if one.question.place == place]

    def awaited(self, place: ThreadAnchor) -> str:
        """The uid of the question there that is out; empty if none is."""
        return next((uid for uid in self._streamed if self._known[uid].question.place == place), "")

    def on(self, proposal: str) -> list[SideExchange]:
        """Return the questions about a proposal."""
        return [one for one in self._known.values() if one.question.proposal == proposal]

    def entries(self, place: ThreadAnchor) -> list[TranscriptEntry]:
        """A thread as it is read."""
        return [entry for one in self.of(place) for entry in self._entries(one)]

    def _entries(self, one: SideExchange) -> list[TranscriptEntry]:
        uid, answer = one.question.uid, one.answer
        entries: list[TranscriptEntry] = [UserEntry(f"asked{uid}", one.question.text)]
        if answer is None:
            if text := self._streamed.get(uid, ""):
                return [*entries, AnswerEntry(f"answer{uid}", text, "streaming")]
            return [*entries, NoticeEntry(f"note{uid}", _WAITING if uid in self._streamed else _UNANSWERED)]
        if answer.text.strip():
            state = "truncated" if answer.state == "failed" else answer.state
            entries.append(AnswerEntry(f"answer{uid}", answer.text, state))
        elif answer.state == "interrupted":
            entries.append(NoticeEntry(f"note{uid}", "You stopped it before anything came."))
        if answer.note:
            entries.append(NoticeEntry(f"note{uid}", answer.note, "warning"))
        if took := took_of(answer):
            entries.append(NoticeEntry(f"took{uid}", took))
        return entries


def took_of(answer: SideAnswer) -> str:
    """Return the cost of an answer: `1.2k in, 80 out · $0.002 · 2.1 s`; empty if unknown."""
    spent = TokenTotals().add(answer.usage)
    facts = (format_tokens(spent), format_dollars(spent), seconds(answer.duration) if answer.usage else "")
    return " · ".join(fact for fact in facts if fact)


def as_feedback(one: SideExchange) -> str:
    """Return a question and its answer as the user's words, with their authors named."""
    quoted = "\n".join(f"> {line}".rstrip() for line in one.answered.splitlines())
    subject = one.question.subject
    return f"About {subject} I asked you aside: “{one.question.text}”\nYou answered:\n\n{quoted}\n\n"
