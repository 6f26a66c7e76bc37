"""Edits the proposed text of a file before approval, full-screen or in the user's editor."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.text.deceiving_text import find_deceptive
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import AskScreen, Dialog
from app.ui.terminal.external_editor import EditorFailed
from widgets.common.key_hints import KeyHint
from widgets.diff.code_editor import CodeEditor

if TYPE_CHECKING:
    from app.proposals.values.models import FileDiff


class EditorAccess(Protocol):
    """Opens the user's own editor."""

    async def edit(self, text: str, *, name: str = "message.md") -> str:
        """Let the user edit a text; return it as saved."""
        ...


def proposed_text(diff: "FileDiff", *, before: bool = False) -> str:
    """Return the text that an approval would write; with `before`, the text that it replaces."""
    lines, ends = (diff.old, diff.old_final_newline) if before else (diff.new, diff.new_final_newline)
    return "\n".join(lines) + ("\n" if lines and ends else "")


class EditScreen(Dialog[bool]):
    """Editor of a proposed text; the result is True if a changed text was saved into the proposal.

    Args:
        proposal_id: The proposal.
        path: The file in it.
        text: What it would write now.
        save: Puts another text in its place; raises ProposalError or StorageError.
        editor: The user's own.
        line: Where the cursor begins, from 0.
        vim: Whether the user wants vim's keys.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", priority=True),
        Binding("ctrl+g", "external", "Editor", priority=True),
        Binding("escape", "leave", "Leave", priority=True),
    ]

    DEFAULT_CSS = """
    EditScreen {
        CodeEditor { height: 1fr; }
        #edit-warning { margin-bottom: 1; }
    }
    """

    def __init__(
        self,
        proposal_id: str,
        path: str,
        text: str,
        save: Callable[[str], Awaitable[None]],
        editor: EditorAccess,
        *,
        line: int = 0,
        vim: bool = False,
    ) -> None:
        super().__init__(classes="-large")
        self._proposal_id = proposal_id
        self._path = path
        self._text = text
        self._save = save
        self._editor = editor
        self._line = line
        self._vim = vim

    def heading(self) -> str:
        """Which file of which proposal."""
        return f"Edit {self._proposal_id} · {self._path}"

    def key_hints(self) -> Sequence[KeyHint]:
        """Return the hints; saving goes into the proposal, not to disk."""
        return (
            KeyHint("ctrl+s", f"save into {self._proposal_id}, not to disk"),
            KeyHint("ctrl+g", "your editor"),
            KeyHint("escape", "leave"),
        )

    def body(self) -> Iterable[Widget]:
        """A warning where the eye would miss something, and the text."""
        found = find_deceptive(self._text)
        if found:
            yield Static(
                Content(escape_unsafe(f"This text holds {found}.", keep="")),
                id="edit-warning",
                classes="text warning",
            )
        yield self.make_editor()

    def make_editor(self) -> CodeEditor:
        """The editor with the text."""
        return CodeEditor(self._text, self._path)

    def on_mount(self) -> None:
        """The cursor goes to the line that the user was looking at."""
        editor = self.query_one(CodeEditor)
        editor.focus()
        editor.move_cursor((min(self._line, editor.document.line_count - 1), 0), center=True)
        if self._vim:
            editor.use_vim(lambda mode: self._tell_place())
        self._tell_place()

    @on(CodeEditor.Changed)
    @on(CodeEditor.SelectionChanged)
    def _tell_place(self) -> None:
        """Show the cursor's position, and whether there is anything to save."""
        mode = self.query_one(CodeEditor).mode
        self.say(f"{f'{mode} · ' if mode else ''}{self.place_words()}")

    def place_words(self) -> str:
        """The words for the frame, after the mode of vim's keys."""
        row, column = self.query_one(CodeEditor).cursor_location
        return f"{'changed, not saved · ' if self.changed else ''}line {row + 1}, column {column + 1}"

    @property
    def changed(self) -> bool:
        """Whether the text is another than the proposed one."""
        return self.query_one(CodeEditor).source != self._text

    @work(group="save", exclusive=True, exit_on_error=False, description="save an edit")
    async def action_save(self) -> None:
        """Put the text into the proposal."""
        from app.proposals.values.proposal_errors import ProposalError
        from app.storage.storage_errors import StorageError

        if not self.changed:
            self.dismiss(False)
            return
        try:
            await self._save(self.query_one(CodeEditor).source)
        except (ProposalError, StorageError) as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self.dismiss(True)

    @work(group="external", exclusive=True, exit_on_error=False, description="external editor")
    async def action_external(self) -> None:
        """Go on in the user's own editor."""
        await self.edit_outside()

    async def edit_outside(self) -> None:
        """Edit the text in the user's own editor, and take the result."""
        area = self.query_one(CodeEditor)
        try:
            text = await self._editor.edit(area.source, name=self._path)
        except EditorFailed as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if text != area.source:
            area.source = text

    def action_leave(self) -> None:
        """Leave; ask if something would be lost. Where vim's keys have a use for Escape, that comes first."""
        if self.query_one(CodeEditor).take_escape():
            return
        if not self.changed:
            self.dismiss(False)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.dismiss(False)

        question = f"Your changes to {self._path} would be lost; the proposal stays as it was."
        self.app.push_screen(
            AskScreen("Leave without saving?", question, "drop my changes", "go on editing"), answered
        )
