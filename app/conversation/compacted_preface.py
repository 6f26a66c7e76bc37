"""What stands at the beginning of a history whose older part was compacted."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.conversation.events import Compacted
from app.conversation.pending import PendingProposal

OMITTED = "(earlier work left out here)"


@dataclass(frozen=True, slots=True)
class KeptWords:
    """Something the user said in the part that was cut; kept as it was."""

    text: str
    lead: str = OMITTED
    """What stands between it and the words before it, as the model's turn."""

    @staticmethod
    def newest(words: Sequence["KeptWords"], characters: int) -> list["KeptWords"]:
        """The newest ones that fit, in order; the very last one always, whole."""
        kept: list[KeptWords] = []
        room = characters
        for said in reversed(words):
            room -= len(said.text)
            if kept and room < 0:
                break
            kept.append(said)
        kept.reverse()
        return kept


def preface(compacted: Compacted, pending: Sequence[PendingProposal], words_follow: bool) -> str:
    """The system message that stands for the part that was cut."""
    if compacted.summary.strip():
        lines = [
            "The older part of this conversation is represented by this summary; its messages are no longer shown.",
            "",
            compacted.summary.strip(),
        ]
    else:
        lines = [
            "The older part of this conversation was left out to make room; nothing stands for it. "
            "Read files again instead of relying on what you may have seen."
        ]
    if pending:
        lines += ["", "At that point these proposals awaited the user's decision:"]
        lines += [f"- {proposal.line()}" for proposal in pending]
    if words_follow:
        lines += ["", "What the user wrote in that part follows in the user's own words, oldest first."]
    return "\n".join(lines)
