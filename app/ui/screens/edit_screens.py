"""Editors for a proposal before approval: for the text of a file, and for the conflicts of a stale proposal."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on, work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.proposals.decide.conflicts import ConflictChoice, FileConflict, UnsavedEdit
from app.proposals.values.models import FileVersion
from app.runtime.user_editor import EditorFailed
from app.text.deceiving_text import find_deceptive_characters
from app.text.quantities import format_count
from app.ui.screens.dialog import ConfirmScreen, Dialog, DialogKey, safe_content
from widgets.common.key_hints import KeyHint, WrappedKeyHints
from widgets.diff.code_editor import CodeEditor, ConflictEditor

if TYPE_CHECKING:
    from app.ui.terminal.external_editor import ExternalEditor


class EditProposedFileScreen(Dialog[bool]):
    """Editor of one file of a proposal; the result is True if a changed text was saved into the proposal.

    Args:
        save: Saves the new text in the proposal; raises ProposalError or StorageError.
        line: Line of the cursor at the start, from 0.
    """

    KEYS: ClassVar[tuple[DialogKey, ...]] = (
        DialogKey("ctrl+s", "save into the proposal, not to disk", "save", priority=True),
        DialogKey("ctrl+g", "your editor", "external", priority=True),
        DialogKey("escape", "leave", "leave", priority=True),
    )
    DEFAULT_CSS = """
    EditProposedFileScreen {
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
        editor: "ExternalEditor",
        *,
        line: int = 0,
        vim: bool = False,
    ) -> None:
        super().__init__(classes="-large")
        self._proposal_id = proposal_id
        self._path = path
        self._proposed_text = text
        self._save = save
        self._editor = editor
        self._start_line = line
        self._vim = vim

    def frame_title(self) -> str:
        return f"Edit {self._proposal_id} · {self._path}"

    def compose_body(self) -> Iterable[Widget]:
        deceptive_characters = find_deceptive_characters(self._proposed_text)
        if deceptive_characters:
            yield Static(
                safe_content(f"This text holds {deceptive_characters}."), id="edit-warning", classes="text warning"
            )
        yield self.make_editor()

    def make_editor(self) -> CodeEditor:
        """Return the editor with the text."""
        return CodeEditor(self._proposed_text, self._path)

    def on_mount(self) -> None:
        editor = self.query_one(CodeEditor)
        editor.focus()
        editor.move_cursor((min(self._start_line, editor.document.line_count - 1), 0), center=True)
        if self._vim:
            editor.use_vim(lambda mode: self._show_position())
        self._show_position()

    @on(CodeEditor.Changed)
    @on(CodeEditor.SelectionChanged)
    def _show_position(self) -> None:
        """Show the cursor's position, and whether there are unsaved changes."""
        mode = self.query_one(CodeEditor).mode
        self.show_status(f"{f'{mode} · ' if mode else ''}{self.status_text()}")

    def status_text(self) -> str:
        """Return the text at the bottom of the frame, without Vim's mode."""
        row, column = self.query_one(CodeEditor).cursor_location
        return f"{'changed, not saved · ' if self.has_changes else ''}line {row + 1}, column {column + 1}"

    @property
    def has_changes(self) -> bool:
        """Return whether the text differs from the proposed one."""
        return self.query_one(CodeEditor).source != self._proposed_text

    @work(group="save", exclusive=True, exit_on_error=False, description="save an edit")
    async def action_save(self) -> None:
        """Save the text in the proposal and close; stay open on an error."""
        from app.proposals.values.proposal_errors import ProposalError
        from app.storage import StorageError

        try:
            result = await self.save_changes()
        except (ProposalError, StorageError) as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if result is not None:
            self.dismiss(result)

    async def save_changes(self) -> bool | None:
        """Save the text if it has changed; return the result of the screen, or None if it stays open."""
        if not self.has_changes:
            return False
        await self._save(self.query_one(CodeEditor).source)
        return True

    @work(group="external", exclusive=True, exit_on_error=False, description="external editor")
    async def action_external(self) -> None:
        """Open the text in the user's editor."""
        await self.edit_externally()

    async def edit_externally(self) -> None:
        """Let the user edit the text in their editor, and show the result."""
        code_editor = self.query_one(CodeEditor)
        try:
            text = await self._editor.edit(code_editor.source, name=self._path)
        except EditorFailed as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if text != code_editor.source:
            code_editor.replace_source(text)

    def action_leave(self) -> None:
        """Close, after a question if changes would be lost; Vim handles Escape first."""
        if self.query_one(CodeEditor).handle_escape():
            return
        if not self.has_changes:
            self.dismiss(False)
            return

        def close_if_confirmed(yes: bool | None) -> None:
            if yes:
                self.dismiss(False)

        question = f"Your changes to {self._path} would be lost; the proposal stays as it was."
        self.app.push_screen(
            ConfirmScreen("Leave without saving?", question, "drop my changes", "go on editing"), close_if_confirmed
        )


Resolution = str | ConflictChoice
"""The whole text of a file, or the chosen side if one side is taken as a whole."""


class ConflictScreen(EditProposedFileScreen):
    """Editor of conflicts; the result is True if a resolution was saved into the proposal.

    Args:
        save: Saves the resolution, given the disk version that the user saw; raises ChangedSinceShown if the file has
            changed since, other ProposalErrors or StorageError.
        reload: Returns the present conflict, with the user's text merged in if it is given.
        unsaved: The user's text, if the conflict is with that.
    """

    KEYS = (
        DialogKey("p", "proposed", "choose('proposed')"),
        DialogKey("d", "on disk", "choose('disk')"),
        DialogKey("b", "both", "choose('both')"),
        DialogKey("e", "edit by hand", "type"),
        DialogKey("left_square_bracket,right_square_bracket", "conflict", "step(-1)|step(1)"),
        DialogKey("u", "undo", "take_back"),
        DialogKey("ctrl+s", "save into the proposal"),
        DialogKey("ctrl+g", "your editor"),
        DialogKey("escape", "leave"),
    )
    DEFAULT_CSS = """
    ConflictScreen {
        #resolve-why { color: $text-warning; }
        &.-tall #resolve-why { margin-bottom: 1; }
        &.-short WrappedKeyHints { margin-top: 0; }
        &.-short ConflictEditor { scrollbar-size-horizontal: 0; }
    }
    """

    def __init__(
        self,
        conflict: FileConflict,
        save: Callable[[Resolution, FileVersion | None], Awaitable[None]],
        reload: Callable[[UnsavedEdit | None], Awaitable[FileConflict]],
        editor: "ExternalEditor",
        *,
        unsaved: UnsavedEdit | None = None,
        vim: bool = False,
    ) -> None:

        def save_resolution(resolution: Resolution) -> Awaitable[None]:
            return save(resolution, self._conflict.disk)

        text = conflict.text_with_choices()
        super().__init__(conflict.proposal, conflict.path, text, save_resolution, editor, vim=vim)
        self._conflict = conflict
        self._reload = reload
        self._unsaved_text = unsaved
        self._chosen_side: ConflictChoice | None = None
        """The chosen side, if one side is taken as a whole."""

    @property
    def _conflict_editor(self) -> ConflictEditor:
        return cast(ConflictEditor, self.query_one(CodeEditor))

    @property
    def _is_typing(self) -> bool:
        """Return whether keys type into the text."""
        return not self._conflict_editor.read_only

    def frame_title(self) -> str:
        return f"Resolve {self._proposal_id} · {self._path}"

    def key_hints(self) -> Sequence[KeyHint]:
        return self._mode_hints(is_typing=False)

    def compose_body(self) -> Iterable[Widget]:
        yield Static(self._conflict_reason(), id="resolve-why", classes="text")
        yield from super().compose_body()

    def make_editor(self) -> CodeEditor:
        """Return the editor with the conflicts."""
        return ConflictEditor(self._conflict)

    def on_mount(self) -> None:
        self.call_after_refresh(self._show_first_conflict)

    @property
    def has_changes(self) -> bool:
        """Return whether the user has chosen a side or edited the text."""
        return self._chosen_side is not None or self._unsaved_text is not None or super().has_changes

    def status_text(self) -> str:
        """Return how many conflicts are open, or which side was taken."""
        if self._conflict.whole:
            labels = self._conflict.labels
            side_labels = {ConflictChoice.DISK: labels.disk, ConflictChoice.PROPOSED: labels.proposed}
            return f"taken: {side_labels[self._chosen_side]}" if self._chosen_side else "one side is taken as a whole"
        blocks, current_block = self._conflict_editor.blocks, self._conflict_editor.current_block
        if current_block is None:
            state_text = "no conflict left, not saved yet"
        elif len(blocks) == 1:
            state_text = "1 conflict open"
        else:
            state_text = f"conflict {blocks.index(current_block) + 1} of {len(blocks)} open"
        return f"editing by hand · {state_text}" if self._is_typing else state_text

    def action_choose(self, name: str) -> None:
        """Take a side for the conflict at the cursor, or for the whole file."""
        self._show_notice()
        side = ConflictChoice(name)
        if not self._conflict.whole:
            if not self._conflict_editor.resolve_current_conflict(side):
                self.show_status("no conflict left")
            return
        if side is ConflictChoice.BOTH:
            self.show_status("not both: one side is taken as a whole")
            return
        self._chosen_side = side
        (region,) = self._conflict.regions
        self._conflict_editor.source = "\n".join(region.lines(side))
        self._show_position()

    def action_take_back(self) -> None:
        """Undo the last choice or edit."""
        self._show_notice()
        if self._conflict.whole:
            self._chosen_side = None
            self._conflict_editor.source = self._conflict.text_with_choices()
        else:
            self._conflict_editor.undo()
        self._show_position()

    def action_step(self, by: int) -> None:
        self._show_notice()
        self._conflict_editor.go_to_conflict(by)

    def action_type(self) -> None:
        """Let keys type into the text."""
        if self._conflict.whole:
            self.show_status("take one side; once saved, it can be edited")
            return
        self._show_notice()
        self._set_typing(is_typing=True)

    def action_leave(self) -> None:
        """Return from typing to choosing; from choosing close the screen, after a question if work would be lost."""
        if self._is_typing and not self._conflict_editor.handle_escape():
            self._set_typing(is_typing=False)
        elif not self._is_typing:
            super().action_leave()

    @work(group="external", exclusive=True, exit_on_error=False, description="external editor")
    async def action_external(self) -> None:
        """Open the text with conflict markers in the user's editor."""
        if self._conflict.whole:
            self.show_status("take one side; once saved, it can be edited")
        else:
            await self.edit_externally()

    async def save_changes(self) -> bool | None:
        """Save the resolution; if the file has changed on disk meanwhile, show the new conflict."""
        from app.proposals.values.proposal_errors import ChangedSinceShown

        resolution = self._find_resolution()
        if resolution is None:
            return None
        try:
            await self._save(resolution)
        except ChangedSinceShown as error:
            await self._show_new_conflict(str(error))
            return None
        return True

    def _find_resolution(self) -> Resolution | None:
        """Return the user's resolution; None, with a message, if it is not complete."""
        if self._conflict.whole:
            if self._chosen_side is None:
                self._show_notice("Not saved: take one side first.")
            if self._chosen_side is ConflictChoice.PROPOSED and self._unsaved_text is not None:
                return self._unsaved_text.text
            return self._chosen_side
        text = self._conflict_editor.source
        if blocks := self._conflict_editor.blocks:
            self._conflict_editor.show_block(blocks[0])
            self._show_notice(f"Not saved: {format_count(len(blocks), 'conflict')} still open.")
            return None
        if (line := self._conflict.find_stray_marker(text)) >= 0:
            self._conflict_editor.move_cursor((line, 0), center=True)
            self._show_notice(f"Not saved: line {line + 1} is still a conflict marker.")
            return None
        return text

    async def _show_new_conflict(self, why: str) -> None:
        """Show the conflict with the file's new content; the user's text is merged in."""
        unsaved = self._unsaved_text
        if not self._conflict.whole:
            unsaved = UnsavedEdit(self._conflict_editor.source, self._conflict.disk_text)
        conflict = await self._reload(unsaved)
        self._conflict, self._unsaved_text, self._chosen_side = conflict, unsaved, None
        self._proposed_text = conflict.text_with_choices()
        self._set_typing(is_typing=False)
        self._conflict_editor.show_conflict(conflict)
        self._show_first_conflict()
        if not unsaved:
            advice = "Choose again."
        elif conflict.regions:
            advice = f"Your text is kept; {format_count(len(conflict.regions), 'new conflict')}."
        else:
            advice = "Your text is kept and fits: look at it, then save again."
        self._show_notice(f"{why} {advice}")

    def _show_first_conflict(self) -> None:
        self._conflict_editor.show_block(next(iter(self._conflict_editor.blocks), None))
        self._show_position()

    def _set_typing(self, *, is_typing: bool) -> None:
        self._conflict_editor.read_only = not is_typing
        self._conflict_editor.highlight_cursor_line = is_typing
        hints = self.query_one(WrappedKeyHints)
        hints.hints = tuple(self._mode_hints(is_typing=is_typing))
        hints.refresh(layout=True)
        self._show_position()

    def _show_notice(self, text: str = "") -> None:
        """Show a notice in place of the reason for the conflict; if empty, show the reason."""
        self.query_one("#resolve-why", Static).update(safe_content(text) if text else self._conflict_reason())

    def _conflict_reason(self) -> Content:
        conflict = self._conflict
        reason, regions = conflict.reason, len(conflict.regions)
        if regions and not conflict.whole:
            reason = f"Changed in {format_count(regions, 'place')} that {self._proposal_id} changes too"
        other_files = f"; {format_count(conflict.others, 'more file')}" if conflict.others else ""
        return safe_content(f"{reason}{other_files}")

    def _mode_hints(self, *, is_typing: bool) -> Sequence[KeyHint]:
        if is_typing:
            return [*self.hints_of("ctrl+s"), KeyHint("escape", "back to choosing")]
        if self._conflict.whole:
            return self.hints_of("p", "d", "u", "ctrl+s", "escape")
        return [key.hint for key in self.KEYS]
