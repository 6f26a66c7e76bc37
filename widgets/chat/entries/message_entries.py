"""Entries of messages from the user, the model and signoff."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from app.conversation.events import InterventionKind
from app.conversation.token_totals import TokenTotals
from app.images.image import Image
from app.text.quantities import format_count
from widgets.chat.entries.entry_base import (
    USER_BAR,
    EntryGutterMarks,
    FoldedEntry,
    GrowingTextRows,
    TranscriptEntry,
    image_line,
)
from widgets.chat.markdown.markdown_document import MarkdownDocument, markdown_lines
from widgets.chat.markdown.styled_lines import (
    BLANK_LINE,
    MUTED_STYLE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    format_seconds,
    hidden_lines_note,
    make_safe_text,
    shorten_to_one_line,
    wrap_spans,
    wrap_text,
)
from widgets.common.figures import format_dollars, format_tokens


class GrowingPlainTextRows:
    """Laid-out rows of a plain text that grows, below a heading row."""

    def __init__(self, width: int, style: TextStyle) -> None:
        self.width = width
        self._style = style
        self._settled_text = ""
        """The complete lines of the text whose rows are final, with their line ends."""
        self._settled_row_count = 0
        """Number of final rows, with the heading."""
        self.lines: list[StyledLine] = []

    def set_text(self, heading: StyledLine, text: str) -> None:
        """Show this text; fast if it extends the shown text."""
        if not text.startswith(self._settled_text):
            self._settled_text, self._settled_row_count = "", 0
        rows = self.lines[1 : self._settled_row_count]
        complete_length = text.rfind("\n") + 1
        if complete_length > len(self._settled_text):
            new_text = text[len(self._settled_text) : complete_length]
            rows += wrap_text(make_safe_text(new_text)[:-1], self._style, self.width)
            self._settled_text = text[:complete_length]
        self._settled_row_count = 1 + len(rows)
        self.lines = [heading, *rows, *wrap_text(make_safe_text(text[complete_length:]), self._style, self.width)]

    def advance(self, deadline: float | None = None) -> bool:
        """Return True, because everything is laid out already."""
        return True


MAX_MESSAGE_ROWS = 24
"""Maximum rows of a user message; the rest is folded."""
_MIN_LONG_TEXT_CHARACTERS, _MIN_LONG_TEXT_LINES = 400, 3
"""Minimum characters or line breaks of a text that may be folded."""


class UserEntry(TranscriptEntry, frozen=True):
    """A message of the user; if it is very long, only its beginning is laid out until the user opens it."""

    text: str
    answers: bool = False
    """Whether the message answers a question."""
    images: tuple[Image, ...] = ()
    """Images sent with the message."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the rows of the text, folded if there are many, and a line for each image."""
        return [*self._text_lines(width, opened), *(image_line(image, width) for image in self.images)]

    def _text_lines(self, width: int, opened: bool) -> list[StyledLine]:
        style = TextStyle("user")
        if opened:
            return wrap_text(make_safe_text(self.text), style, width)
        # Long enough to exceed the row limit whenever more text follows.
        wrapped_length = (MAX_MESSAGE_ROWS + 2) * width
        lines = wrap_text(make_safe_text(self.text[:wrapped_length]), style, width)
        if len(lines) <= MAX_MESSAGE_ROWS + 1:
            return lines
        shown_count = MAX_MESSAGE_ROWS - 4
        return [*lines[:shown_count], _more_line(lines[shown_count:], self.text.count("\n", wrapped_length))]

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(USER_BAR, USER_BAR)

    def expected_height(self, width: int) -> int:
        row_count = max(1, self.text.count("\n") + 1 + len(self.text) // max(20, width))
        return min(MAX_MESSAGE_ROWS + 1, row_count) + len(self.images)

    @property
    def can_open(self) -> bool:
        """Return whether the message is long enough to fold."""
        return _is_long(self.text)

    @property
    def copy_text(self) -> str:
        return self.text


class CustomCommandEntry(UserEntry, frozen=True):
    """A custom command as the user typed it; it opens to show the message that it produced."""

    expansion: str = ""
    model_and_effort: str = ""
    """The model and effort of the command, if they differ from the current ones."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the typed command, and below it the message for the model or its length."""
        typed = super().rows(width, opened)
        count = self.expansion.count("\n") + 1
        label = f"{'▾' if opened else '▸'} {format_count(count, 'line')} to the model"
        head_text = " · ".join(filter(None, (label, make_safe_text(self.model_and_effort))))
        head = StyledLine(((shorten_to_one_line(head_text, width), MUTED_STYLE),), action="toggle")
        return [*typed, head, *(wrap_text(make_safe_text(self.expansion), MUTED_STYLE, width) if opened else ())]

    def expected_height(self, width: int) -> int:
        return super().expected_height(width) + 1

    @property
    def can_open(self) -> bool:
        return True

    @property
    def copy_text(self) -> str:
        """Return the message as the model gets it."""
        return self.expansion


class ModelAnswerEntry(TranscriptEntry, frozen=True):
    """An answer of the model, as Markdown."""

    text: str
    state: Literal["streaming", "complete", "interrupted", "truncated", "discarded"] = "complete"

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the rows of a discarded answer: the reason, and its beginning struck out."""
        head = StyledLine((("Discarded: the attempt failed and was repeated", MUTED_STYLE),))
        struck = wrap_text(make_safe_text(self.text.strip()), TextStyle("muted", strike=True), width)
        more = [_more_line(struck[2:])] if len(struck) > 2 and not opened else []
        return [head, *(struck if opened else struck[:2]), *more]

    def growing_rows(self, former: GrowingTextRows | None, width: int, opened: bool) -> GrowingTextRows | None:
        """Return the Markdown written so far; None for a discarded answer."""
        if self.state == "discarded":
            return None
        document = former if isinstance(former, MarkdownDocument) and former.width == width else None
        if document is None or not document.is_continued_by(self.text):
            document = MarkdownDocument(width)
        document.append_source(self.text[len(document.source) :])
        if self.state != "streaming":
            document.finish(self._note_lines)
        return document

    @property
    def _note_lines(self) -> list[StyledLine]:
        """Return the lines below an incomplete answer."""
        note = {"interrupted": "interrupted", "truncated": "cut off before it was finished"}.get(self.state)
        return [StyledLine(((f"⊘ {note}", TextStyle("warning")),), 2)] if note else []

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(
            ("⊘ ", MUTED_STYLE) if self.state == "discarded" else ("● ", TextStyle("answer-mark"))
        )

    def expected_height(self, width: int) -> int:
        return max(1, self.text.count("\n") + 1 + len(self.text) // (2 * max(20, width)))

    @property
    def can_open(self) -> bool:
        """Return whether the answer is discarded and long enough to fold."""
        return self.state == "discarded" and _is_long(self.text)

    @property
    def copy_text(self) -> str:
        return self.text


class ReasoningEntry(FoldedEntry, frozen=True):
    """The model's reasoning before its answer; folded to one line."""

    text: str
    streaming: bool = False

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return one row with the beginning of the reasoning, or with its newest text while it is streamed."""
        label = "Thinking  " if self.streaming else "Thought  "
        text = make_safe_text(self.text[-800:] if self.streaming else self.text.lstrip()[:800]).strip()
        shown = text[-400:].rsplit("\n", 1)[-1] if self.streaming else text[:400].split("\n", 1)[0]
        preview = shorten_to_one_line(shown.replace("**", ""), width - len(label))
        return [StyledLine(((label, MUTED_STYLE), (preview, TextStyle("muted", italic=True))), action="toggle")]

    def growing_rows(self, former: GrowingTextRows | None, width: int, opened: bool) -> GrowingTextRows | None:
        """Return the rows of the whole reasoning; None if the entry is folded."""
        if not opened:
            return None
        document = former if isinstance(former, GrowingPlainTextRows) and former.width == width else None
        document = document or GrowingPlainTextRows(width, TextStyle("muted", italic=True))
        head = StyledLine((("Thinking" if self.streaming else "Thought", MUTED_STYLE),), action="toggle")
        document.set_text(head, self.text.strip())
        return document

    @property
    def copy_text(self) -> str:
        return self.text


class QuestionEntry(TranscriptEntry, frozen=True):
    """A question of the model to the user, with its options, and the answer once there is one."""

    call: str
    text: str
    options: tuple[str, ...] = ()
    answer: str | None = None

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the question, with its options once it is answered."""
        lines = markdown_lines(self.text, width) or [BLANK_LINE]
        if self.answer is None:
            return lines
        if len(lines) > 1 and self.options:
            lines.append(BLANK_LINE)
        for number, option in enumerate(self.options, 1):
            chosen = option == self.answer
            mark: Span = (f"{number}. ", TextStyle("success", bold=True) if chosen else MUTED_STYLE)
            style = TextStyle("success") if chosen else MUTED_STYLE
            indent: Span = (" " * len(mark[0]), TEXT_STYLE)
            lines.extend(wrap_spans([(make_safe_text(option), style)], width, (mark,), (indent,)))
        return lines

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(("? ", TextStyle("user-mark", bold=True)))

    def expected_height(self, width: int) -> int:
        return 1 + len(self.options)

    @property
    def copy_text(self) -> str:
        return self.text


def _is_long(text: str) -> bool:
    return len(text) > _MIN_LONG_TEXT_CHARACTERS or text.count("\n") > _MIN_LONG_TEXT_LINES


def _more_line(rows: Sequence[StyledLine], unlaid_lines: int = 0) -> StyledLine:
    return StyledLine(((hidden_lines_note(rows, unlaid_lines), MUTED_STYLE),), 0, None, action="toggle")


_NO_TOKENS = TokenTotals()


class ProgramMessageToModelEntry(FoldedEntry, frozen=True):
    """A message of signoff to the model; folded to one line."""

    is_compact: ClassVar[bool] = True
    triangle: ClassVar[TextStyle] = TextStyle("program-mark")

    kind: InterventionKind
    text: str
    sender_and_receiver: str
    """The sender and the receiver."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the sender and receiver with the text, shortened unless the entry is open."""
        head: Span = (f"{self.sender_and_receiver}  ", TextStyle("program-mark"))
        text = make_safe_text(self.text)
        if opened:
            return [StyledLine((head,), action="toggle"), *wrap_text(text, TextStyle("program"), width)]
        shown: Span = (shorten_to_one_line(text, width - cell_width(head[0])), TextStyle("program"))
        return [StyledLine((head, shown), action="toggle")]

    @property
    def copy_text(self) -> str:
        return self.text


class NoticeToUserEntry(TranscriptEntry, frozen=True):
    """A message of signoff to the user."""

    is_compact: ClassVar[bool] = True

    text: str
    level: Literal["info", "warning", "error"] = "info"

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        style = MUTED_STYLE if self.level == "info" else TextStyle(self.level)
        return wrap_text(make_safe_text(self.text), style, width)

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(("· ", MUTED_STYLE) if self.level == "info" else ("! ", TextStyle(self.level)))

    @property
    def copy_text(self) -> str:
        return self.text


class TurnEndEntry(TranscriptEntry, frozen=True):
    """The end of a turn: its outcome and its usage."""

    stopped: str
    """As in `TurnEnded`; or `interrupted` if the answer above shows that it was."""
    message: str = ""
    duration: float = 0.0
    calls: int = 0
    spent: TokenTotals = _NO_TOKENS
    """Tokens and cost of its requests."""

    @property
    def facts(self) -> list[str]:
        """Return duration, calls, tokens and cost, as far as known."""
        calls = format_count(self.calls, "tool call") if self.calls else ""
        figures = (format_seconds(self.duration), calls, format_tokens(self.spent), format_dollars(self.spent))
        return list(filter(None, figures))

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the outcome, how to continue, and the facts, as far as needed."""
        message = make_safe_text(self.message)
        if self.stopped == "failed":
            message_lines = wrap_text(message or "The request failed.", TextStyle("error"), width)
            return [*message_lines, *wrap_text("/continue sends it again", MUTED_STYLE, width)]
        lines = wrap_text(message, TextStyle("warning"), width) if message else []
        parts, style = self.facts, MUTED_STYLE
        if self.stopped in ("aborted", "interrupted") or (message and self.stopped == "answer"):
            parts.insert(0, "/continue goes on")
        if self.stopped == "aborted":
            parts.insert(0, "interrupted")
            style = TextStyle("warning")
        if parts:
            lines.append(StyledLine(((shorten_to_one_line(" · ".join(parts), width), style),)))
        return lines

    def marks(self, opened: bool) -> EntryGutterMarks:
        return EntryGutterMarks(("✗ ", TextStyle("error"))) if self.stopped == "failed" else EntryGutterMarks()

    @property
    def copy_text(self) -> str:
        return self.message


class CompactionEntry(FoldedEntry, frozen=True):
    """A compaction: older messages were shortened for the model; the transcript keeps them."""

    summary: str
    before: int = 0
    after: int = 0

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return one line; if opened, also the summary."""
        text = f"Older messages were {'summarised' if self.summary else 'cut'} for the model"
        if self.before and self.after:
            text += f" · {self.before:,} → {self.after:,} tokens"
        head = StyledLine(((shorten_to_one_line(text, width), MUTED_STYLE),), action="toggle")
        return [head, *markdown_lines(self.summary, width)] if opened else [head]

    @property
    def copy_text(self) -> str:
        return self.summary
