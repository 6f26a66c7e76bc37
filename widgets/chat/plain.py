"""A plain text that may still be growing, as lines for a width; whole lines of it are laid out once.

Kept apart: what `MarkdownDocument` is to Markdown, this is to a text without any.
"""

from widgets.chat.lines import Face, Line, visible, wrap_text


class PlainDocument:
    """Text in, rows out, below a row that heads them."""

    def __init__(self, width: int, face: Face) -> None:
        """Empty, `width` cells wide."""
        self.width = width
        self._face = face
        self._settled = ""
        """The whole lines of the text whose rows stay, their line ends included."""
        self._rows = 0
        """How many of the rows are theirs, the head included."""
        self.lines: list[Line] = []

    def show(self, head: Line, text: str) -> None:
        """Show this text: at little cost if it is what is shown with more behind it."""
        if not text.startswith(self._settled):
            self._settled, self._rows = "", 0
        rows = self.lines[1 : self._rows]
        whole = text.rfind("\n") + 1
        if whole > len(self._settled):
            rows += wrap_text(visible(text[len(self._settled) : whole])[:-1], self._face, self.width)
            self._settled = text[:whole]
        self._rows = 1 + len(rows)
        self.lines = [head, *rows, *wrap_text(visible(text[whole:]), self._face, self.width)]

    def advance(self, deadline: float | None = None) -> bool:
        """Everything is laid out already."""
        return True
