"""What is said of a proposal elsewhere: its files in numbers, and what became of its hunks."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class FileStat(Value):
    """One file of a proposal, in numbers."""

    path: str
    op: str
    added: int
    removed: int


class HunkFact(Value):
    """What became of one hunk, in terms that the model can act on."""

    path: str
    hunk: str
    header: str
    """`@@ -3,4 +3,6 @@`."""
    landed: bool
    reason: str = ""
    excerpt: str = ""
    """For a partial decision: the file's text around the place as it is now, numbered."""
