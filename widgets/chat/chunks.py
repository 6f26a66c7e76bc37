"""Pieces of a Markdown text that can be laid out by themselves, and how large they get.

Kept apart: who cuts the text and who lays it out agree on these.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["block", "heading", "rule", "rest", "item", "item_rest", "quote", "fence", "table"]

LONGEST_PARAGRAPH = 4096
"""Characters after which a paragraph or a list item goes on in another chunk, and a line of anything else in another
line."""
LARGEST_PIECE = 2 * LONGEST_PARAGRAPH
"""Characters of code, of a table or of a quotation after which it goes on in another chunk, however few its lines."""
LONGEST_FENCE = 64
"""Lines of code in one chunk; cut earlier at an empty line if there is one after `SHORTEST_FENCE`."""
SHORTEST_FENCE = 40
LONGEST_TABLE = 24
"""Rows of a table in its first chunk, which decides the widths of the columns."""
MORE_OF_TABLE = 8
"""Rows in each of its later chunks: those that are open are laid out for each picture."""
LONGEST_QUOTE = 40
"""Lines of a quotation after which an empty quoted line cuts it; three times as many, and any line does."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of Markdown that can be rendered by itself."""

    kind: Kind
    """`rest` goes on with the paragraph before it, `item_rest` with the list item before it."""
    text: str
    spaced: bool = False
    """An empty line came before it."""
    begins: bool = True
    """It is the first piece of its block."""
    number: int | None = None
    """For an item of an ordered list, its number."""
    info: str = ""
    """For a fence, what stands after the opening marks."""
    header: str = ""
    """For a table, its first two lines."""
    joined: tuple[int, ...] = ()
    """For a fence, which of its lines go on with the line before: that was too long."""
