"""What stands at the beginning of a history whose older part was compacted."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.conversation.pending import PendingProposal
from app.images.image import Image, names_of
from app.todos import Todo

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


def preface(
    summary: str,
    truncated: bool,
    pending: Sequence[PendingProposal],
    todos: Sequence[Todo],
    words_follow: bool,
    images: Sequence[Image] = (),
) -> str:
    """The system message that stands for the part that was cut.

    Args:
        summary: of that part, or of its beginning; may be empty.
        truncated: the end of that part is not in the summary.
        pending: proposals that awaited a decision at the cut.
        todos: the to-do list at the cut.
        words_follow: the user's own messages from that part follow.
        images: that the user attached in that part.
    """
    lines: list[str] = []
    if summary:
        lines += [
            "The older part of this conversation is represented by this summary; its messages are no longer shown.",
            "",
            summary,
            "",
        ]
    if truncated:
        where = "What came between the summary and here" if summary else "The older part of this conversation"
        lines += [
            f"{where} was left out to make room; nothing stands for it. "
            "Read files again instead of relying on what you may have seen.",
            "",
        ]
    if pending:
        lines += ["At that point these proposals awaited the user's decision:"]
        lines += [f"- {proposal.line()}" for proposal in pending]
        lines += [""]
    if todos:
        lines += ["Your to-do list at that point:"]
        lines += [f"- {todo.status}: {todo.content}" for todo in todos]
        lines += [""]
    if images:
        lines += [
            f"Images that the user attached in that part are left out: {names_of(images)}. "
            "If you need to see one, ask the user to attach it again.",
            "",
        ]
    if words_follow:
        lines += ["What the user wrote in that part follows in the user's own words, oldest first."]
    return "\n".join(lines).strip()
