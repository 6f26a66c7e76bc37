"""What the user has begun on a proposal and not decided yet; it outlives a restart."""

from dataclasses import dataclass

from app.proposals.facts import LineComment
from widgets.diff.rows import Side


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment on a line, by path, so that it survives a new diff."""

    path: str
    side: Side
    line: int
    """From 0."""
    text: str
    quote: str = ""
    """The lines around it as they were shown when it was written."""
    draft: bool = False
    """Whether it is still being written, or was put aside."""

    @property
    def place(self) -> tuple[str, Side, int]:
        """Where it stands."""
        return self.path, self.side, self.line

    @property
    def comment(self) -> LineComment:
        """The remark as the model gets it."""
        return LineComment(path=self.path, line=self.line + 1, side=self.side, quote=self.quote, text=self.text)

    @classmethod
    def of(cls, comment: LineComment) -> "Remark":
        """The remark that a comment was."""
        return cls(comment.path, comment.side, comment.line - 1, comment.text, comment.quote)


@dataclass(frozen=True, slots=True)
class Notes:
    """The user's unfinished work on one proposal."""

    draft: str = ""
    """Feedback begun and not sent."""
    remarks: tuple[Remark, ...] = ()
    left_out: tuple[str, ...] = ()
    """Ids of the hunks that an approval would leave out."""
    answered: tuple[str, ...] = ()
    """Keys of the comments sent with its denial that were ticked off."""

    def __bool__(self) -> bool:
        return self != _NONE


_NONE = Notes()


@dataclass(frozen=True, slots=True)
class Words:
    """What the user says with a decision."""

    feedback: str = ""
    comments: tuple[LineComment, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.feedback.strip() or self.comments)

    @property
    def text(self) -> str:
        """All of it, to be put where the user writes."""
        comments = [f"{comment.path}:{comment.line}  {comment.text}" for comment in self.comments]
        return "\n\n".join(filter(None, (self.feedback.strip(), *comments)))


NOTHING_SAID = Words()
