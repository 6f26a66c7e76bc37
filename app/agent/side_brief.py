"""What the program tells the model about a side question: what this is, and the hunk that it is about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.conversation.decision_words import file_list
from app.conversation.side_events import Exchange, SideQuestion
from app.proposals.excerpt import clipped, hunk_text, surroundings
from app.proposals.models import FileDiff, Hunk, Proposal, ProposalState

_INSTRUCTION = (
    "Side question. Aside from the conversation above, the user asks you something about a change, in the message "
    "that is to be answered now. Answer it in words, in a few sentences of Markdown, from what stands above and "
    "below. Do not call tools: none can run. Nothing that is said here decides or changes anything; do not propose "
    "another edit. Where you do not know, say so, and name what one would have to look at. Afterwards the "
    "conversation goes on as if this had not been asked."
)
_FILES_NAMED = 20
_SIZES = ((400, 16_000), (80, 8_000), (20, 3_000), (5, 1_000), (0, 600))
"""Lines of surroundings to each side, and characters of them and of the hunk, from the widest brief to the least."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a side question is about, as it is now."""

    proposal: Proposal
    diff: FileDiff
    hunk: Hunk | None
    """None for the file as a whole, or where the hunk is no more."""

    @property
    def hunks(self) -> int:
        """How many the proposal has."""
        return sum(len(change.hunks) for change in self.proposal.files)


def briefs(subject: Subject, question: SideQuestion, earlier: Sequence[Exchange]) -> Iterator[str]:
    """The brief for a question, from the widest to one that fits nearly anywhere."""
    for lines, characters in _SIZES:
        parts = [_INSTRUCTION, _change(subject), _hunk(subject, question, characters)]
        picked = [*((one.question.picked, one.question.text) for one in earlier), (question.picked, question.text)]
        parts += [
            f"For “{clipped(' '.join(text.split()), 200)}” the user picked these lines:\n{_fenced(rows, characters)}"
            for rows, text in picked
            if rows
        ]
        if lines and (around := surroundings(subject.diff, subject.hunk, lines, characters)):
            state = "with the proposal in it" if subject.diff.new else "which the proposal deletes"
            around = _fenced(around, characters * 2)
            parts.append(f"{subject.diff.change.path}, {state}, with its line numbers:\n{around}")
        yield "\n\n".join(parts)


def _change(subject: Subject) -> str:
    proposal = subject.proposal
    stats = [file.stat for file in proposal.files]
    more = f" and {len(stats) - _FILES_NAMED} more files" if len(stats) > _FILES_NAMED else ""
    return (
        f"It is about proposal {proposal.id} ({proposal.origin.words}): {proposal.summary or 'no summary'}. "
        f"{_standing(proposal)} Its files: {file_list(stats[:_FILES_NAMED])}{more}."
    )


def _standing(proposal: Proposal) -> str:
    match proposal.state:
        case _ if proposal.state.waiting and proposal.on_disk:
            return "It is on disk already and awaits the user's decision."
        case ProposalState.PARTLY_APPROVED:
            return "A part of it is written to disk; the rest awaits the user's decision."
        case _ if proposal.state.waiting:
            return "It is staged and awaits the user's decision; nothing of it is on disk."
        case ProposalState.APPLIED:
            return "The user has approved it, and it is on disk."
        case _:
            return f"It is {proposal.state.replace('_', ' ')}; it is not on disk."


def _hunk(subject: Subject, question: SideQuestion, characters: int) -> str:
    change = subject.diff.change
    if subject.hunk is None and question.hunk:
        return f"The question is about a hunk in {change.path} that was cut or edited since: it is no more as it was."
    if subject.hunk is None:
        return f"The question is about {change.path} as a whole ({change.op})."
    number, line = subject.hunk.number, subject.hunk.new_start + 1
    lines = _fenced(hunk_text(subject.diff, subject.hunk, characters), 2 * characters)
    return f"The question is about hunk {number} of {subject.hunks}, in {change.path} from line {line} on:\n{lines}"


def _fenced(text: str, characters: int) -> str:
    """As a code block that nothing in it can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{clipped(text, characters)}\n{fence}"
