"""The editor of conflicts: what its keys leave is the text that the choices amount to."""

from random import Random

from textual.app import App, ComposeResult

from app.proposals.decide.conflicts import ConflictChoice, ConflictMarkerLabels, ConflictRegion, FileConflict
from tests.examples import scale_examples
from widgets.diff.code_editor import ConflictEditor

SIDES = list(ConflictChoice)


def some_conflict(random: Random) -> FileConflict:
    """A few regions, some of them empty on a side, with lines around them or none, and odd characters."""

    def lines(least: int = 0) -> tuple[str, ...]:
        return tuple(random.choice(["x", "", "a\fb", "\tc", "=======", "é"]) for _ in range(random.randint(least, 2)))

    parts: list[tuple[str, ...] | ConflictRegion] = []
    for _ in range(random.randint(1, 3)):
        parts += [lines(1)] * random.randint(0, 1)
        parts.append(ConflictRegion(1, lines(), lines(), lines()))
    parts += [lines(1)] * random.randint(0, 1)
    labels = ConflictMarkerLabels("on disk now", "before", "proposed in P1")
    return FileConflict("P1", "a.py", "", None, "", tuple(parts), random.random() < 0.4, False, labels, 0)


class EditorApp(App[None]):
    def __init__(self, conflict: FileConflict) -> None:
        super().__init__()
        self.conflict = conflict

    def compose(self) -> ComposeResult:
        yield ConflictEditor(self.conflict)


async def test_conflict_choices_give_the_expected_text_and_can_be_undone() -> None:
    app = EditorApp(some_conflict(Random(0)))
    async with app.run_test(size=(60, 20)) as pilot:
        editor = app.query_one(ConflictEditor)
        for seed in range(scale_examples(200)):
            random = Random(seed)
            conflict = some_conflict(random)
            editor.show_conflict(conflict)
            editor.move_cursor((0, 0))
            assert editor.source == conflict.text_with_choices(), seed
            choices = [random.choice(SIDES) for _ in conflict.regions]
            for done, side in enumerate(choices, 1):
                assert editor.resolve_current_conflict(side)
                left: list[ConflictChoice | None] = [None] * (len(choices) - done)
                assert len(editor.blocks) == len(left), seed
                found, wanted = editor.source, conflict.text_with_choices([*choices[:done], *left])
                # Where no newline ends the file, an empty last line may need one of its own.
                assert found == wanted or (not conflict.final_newline and f"{found}\n" == wanted), seed
            assert not editor.resolve_current_conflict(ConflictChoice.DISK)
            await pilot.pause()
            for _ in choices:
                editor.undo()
            assert editor.source == conflict.text_with_choices(), seed
            # A text from the user's editor is taken back in one step, with the same odd characters.
            for rewritten in ("", "a\fb\n", "one\rtwo\x85"):
                editor.replace_source(rewritten)
                assert editor.source == rewritten, seed
                editor.undo()
                assert editor.source == conflict.text_with_choices(), seed
