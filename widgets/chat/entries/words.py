"""What the user and the model say to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.images.image import Image
from app.text.plural import plural
from widgets.chat.entries.base import USER_BAR, Entry, FoldedEntry, Growing, Gutter
from widgets.chat.entries.images import image_line
from widgets.chat.lines import (
    BLANK,
    MUTED,
    TEXT,
    Face,
    Line,
    Span,
    left_out,
    shorten,
    visible,
    wrap,
    wrap_text,
)
from widgets.chat.markdown import MarkdownDocument, markdown_lines
from widgets.chat.plain import PlainDocument

LONGEST_MESSAGE = 24
"""Rows of a user message before the rest of it is folded."""
_LONG_TEXT, _LONG_LINES = 400, 3
"""Characters and line breaks from which on there may be more to show."""


@dataclass(frozen=True, slots=True)
class UserEntry(Entry):
    """The user's words; of very many the first are shown, and the rest is not even laid out until asked for."""

    text: str
    answers: bool = False
    """They answer a question."""
    images: tuple[Image, ...] = ()
    """What went with them."""

    def rows(self, width: int, opened: bool) -> list[Line]:
        """The words, folded if they are many, and a line for each image."""
        return [*self._words(width, opened), *(image_line(image, width) for image in self.images)]

    def _words(self, width: int, opened: bool) -> list[Line]:
        face = Face("user")
        if opened:
            return wrap_text(visible(self.text), face, width)
        # More than is ever shown, so that it has to be cut wherever the text goes on behind it.
        looked_at = (LONGEST_MESSAGE + 2) * width
        lines = wrap_text(visible(self.text[:looked_at]), face, width)
        if len(lines) <= LONGEST_MESSAGE + 1:
            return lines
        kept = LONGEST_MESSAGE - 4
        return [*lines[:kept], _more(lines[kept:], self.text.count("\n", looked_at))]

    def marks(self, opened: bool) -> Gutter:
        """The bar of all that the user writes."""
        return Gutter(USER_BAR, USER_BAR)

    def expected_height(self, width: int) -> int:
        """Not above what folding leaves."""
        words = max(1, self.text.count("\n") + 1 + len(self.text) // max(20, width))
        return min(LONGEST_MESSAGE + 1, words) + len(self.images)

    @property
    def opens(self) -> bool:
        """If they may be folded."""
        return _is_long(self.text)

    @property
    def copied(self) -> str:
        """The words."""
        return self.text


@dataclass(frozen=True, slots=True)
class CommandEntry(UserEntry):
    """A command of the user's own as it was typed; it opens to the message that it has made."""

    expansion: str = ""
    wished: str = ""
    """The model and the effort that it is for, where they are not those in use."""

    def rows(self, width: int, opened: bool) -> list[Line]:
        """What was typed, and below it what the model got, or how much of it."""
        # Named: a dataclass with slots is not the class that `super()` looks for.
        typed = UserEntry.rows(self, width, opened)
        count = self.expansion.count("\n") + 1
        label = f"{'▾' if opened else '▸'} {plural(count, 'line')} to the model"
        told = " · ".join(filter(None, (label, visible(self.wished))))
        head = Line(((shorten(told, width), MUTED),), action="toggle")
        return [*typed, head, *(wrap_text(visible(self.expansion), MUTED, width) if opened else ())]

    def expected_height(self, width: int) -> int:
        """With the line below."""
        return UserEntry.expected_height(self, width) + 1

    @property
    def opens(self) -> bool:
        """To the message."""
        return True

    @property
    def copied(self) -> str:
        """The message as the model has it."""
        return self.expansion


@dataclass(frozen=True, slots=True)
class AnswerEntry(Entry):
    """The model's words, as Markdown."""

    text: str
    state: Literal["streaming", "complete", "interrupted", "truncated", "discarded"] = "complete"

    def rows(self, width: int, opened: bool) -> list[Line]:
        """Of a discarded answer: what became of it, and its first words struck out."""
        head = Line((("Discarded: the attempt failed and was repeated", MUTED),))
        struck = wrap_text(visible(self.text.strip()), Face("muted", strike=True), width)
        more = [_more(struck[2:])] if len(struck) > 2 and not opened else []
        return [head, *(struck if opened else struck[:2]), *more]

    def growing(self, former: Growing | None, width: int, opened: bool) -> Growing | None:
        """The Markdown as far as it is written."""
        if self.state == "discarded":
            return None
        document = former
        fits = isinstance(document, MarkdownDocument) and document.width == width
        if not (fits and isinstance(document, MarkdownDocument) and document.takes(self.text)):
            document = MarkdownDocument(width, visible)
        document.append(self.text[len(document.source) :])
        if self.state != "streaming":
            document.finish(self._note)
        return document

    @property
    def _note(self) -> list[Line]:
        """What is said under an answer that did not end well."""
        match self.state:
            case "interrupted":
                note = "interrupted"
            case "truncated":
                note = "cut off before it was finished"
            case _:
                return []
        return [Line(((f"⊘ {note}", Face("warning")),), 2)]

    def marks(self, opened: bool) -> Gutter:
        """The model's point."""
        return Gutter(("⊘ ", MUTED) if self.state == "discarded" else ("● ", Face("answer-mark")))

    def expected_height(self, width: int) -> int:
        """By the lines of its source."""
        return max(1, self.text.count("\n") + 1 + len(self.text) // (2 * max(20, width)))

    @property
    def opens(self) -> bool:
        """If it was discarded and is folded."""
        return self.state == "discarded" and _is_long(self.text)

    @property
    def copied(self) -> str:
        """The Markdown."""
        return self.text


@dataclass(frozen=True, slots=True)
class ReasoningEntry(FoldedEntry):
    """What the model thought before it answered; folded to one line."""

    text: str
    streaming: bool = False

    def rows(self, width: int, opened: bool) -> list[Line]:
        """One line; while it streams, the newest of the text is what is worth a glance."""
        label = "Thinking  " if self.streaming else "Thought  "
        text = visible(self.text[-800:] if self.streaming else self.text.lstrip()[:800]).strip()
        shown = text[-400:].rsplit("\n", 1)[-1] if self.streaming else text[:400].split("\n", 1)[0]
        preview = shorten(shown.replace("**", ""), width - len(label))
        return [Line(((label, MUTED), (preview, Face("muted", italic=True))), action="toggle")]

    def growing(self, former: Growing | None, width: int, opened: bool) -> Growing | None:
        """All of it, when it is opened."""
        if not opened:
            return None
        document = former if isinstance(former, PlainDocument) and former.width == width else None
        document = document or PlainDocument(width, Face("muted", italic=True))
        head = Line((("Thinking" if self.streaming else "Thought", MUTED),), action="toggle")
        document.show(head, self.text.strip())
        return document

    @property
    def copied(self) -> str:
        """The thoughts."""
        return self.text


@dataclass(frozen=True, slots=True)
class QuestionEntry(Entry):
    """A question of the model."""

    call: str
    text: str
    options: tuple[str, ...] = ()
    answer: str | None = None

    def rows(self, width: int, opened: bool) -> list[Line]:
        """The question, and once it is answered what there was to choose from."""
        lines = markdown_lines(self.text, width, visible) or [BLANK]
        if self.answer is None:
            return lines
        if len(lines) > 1 and self.options:
            lines.append(BLANK)
        for number, option in enumerate(self.options, 1):
            chosen = option == self.answer
            mark: Span = (f"{number}. ", Face("success", bold=True) if chosen else MUTED)
            face = Face("success") if chosen else MUTED
            lines.extend(wrap([(visible(option), face)], width, (mark,), ((" " * len(mark[0]), TEXT),)))
        return lines

    def marks(self, opened: bool) -> Gutter:
        """A question mark."""
        return Gutter(("? ", Face("user-mark", bold=True)))

    def expected_height(self, width: int) -> int:
        """With its options."""
        return 1 + len(self.options)

    @property
    def copied(self) -> str:
        """The question."""
        return self.text


def _is_long(text: str) -> bool:
    return len(text) > _LONG_TEXT or text.count("\n") > _LONG_LINES


def _more(rows: Sequence[Line], further: int = 0) -> Line:
    return Line(((left_out(rows, further), MUTED),), 0, None, action="toggle")
