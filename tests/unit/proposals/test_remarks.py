"""What is said of a file before it is decided on, and of what an edit or a patch came to."""

from collections.abc import Callable

import pytest

from app.proposals.overlay.file_changes import count_lines, file_operation
from app.proposals.overlay.overlay import Contents
from app.proposals.text.file_warnings import file_cautions, mode_words
from app.proposals.values.decision_results import binary_note
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import EditRefused, shorten_bytes
from app.sandbox.captured_changes import LINK_MODE, Leaf, PathChange
from tests.unit.proposals.bench import Bench
from tests.unit.proposals.memory_store import MemoryStore

Make = Callable[..., Bench]
FILE, PROGRAM = Leaf(b"text\n", 0o644), Leaf(b"text\n", 0o755)
LINK, OTHER_LINK = Leaf(b"there", LINK_MODE), Leaf(b"elsewhere", LINK_MODE)


@pytest.mark.parametrize(
    ("before", "after", "mode", "cautions"),
    [
        (None, LINK, "symbolic link", ["It is a symbolic link."]),
        (LINK, OTHER_LINK, "symbolic link", []),
        (FILE, LINK, "symbolic link", ["The file becomes a symbolic link."]),
        (LINK, FILE, "symbolic link", ["The symbolic link becomes a file."]),
        (FILE, PROGRAM, "mode 644 → 755", ["Mode changes from 644 to 755, which lets it be executed."]),
        (None, PROGRAM, "mode 755", ["The new file can be executed: its mode is 755."]),
        (None, FILE, "", []),
        (FILE, None, "", ["The file is deleted."]),
    ],
)
def test_what_becomes_of_the_mode_and_of_links(
    bench: Make, before: Leaf | None, after: Leaf | None, mode: str, cautions: list[str]
) -> None:
    site = bench({})
    if before == FILE:
        site.put(a=FILE.data)
    elif before:
        (site.root / "a").symlink_to(before.data.decode())
    draft = site.service.draft("session")
    draft.take_changes([PathChange("a", before, after)])
    (change,) = site.service.stage(draft, "Change").files
    assert (mode_words(change), list(file_cautions(change))) == (mode, cautions)


def test_another_content_is_an_edit_whatever_the_mode() -> None:
    contents = Contents(MemoryStore())
    text, binary, program = contents.add(b"a\n", 0o644), contents.add(b"\0\n", 0o644), contents.add(b"b\n", 0o755)
    assert file_operation("", text, program) is FileOperation.EDIT
    assert file_operation("", text, text.model_copy(update={"mode": 0o755})) is FileOperation.MODE
    assert count_lines(contents, text, program) == (1, 1)
    assert count_lines(contents, text, binary) == count_lines(contents, binary, None) == (0, 0)


def test_what_a_patch_left_out_is_named_if_it_left_out_anything() -> None:
    assert binary_note(()) == ""
    assert binary_note(("a", "b")) == ", without a, b (binary)"
    assert binary_note(("a", "b", "c", "d", "e")) == ", without a, b, c and 2 more (binary)"


def test_a_refusal_is_cut_only_where_it_is_too_long() -> None:
    assert EditRefused("No.", "Try again.").message == "No. Try again."
    assert shorten_bytes("é" * 10, 20) == "é" * 10
    assert shorten_bytes("é" * 10, 19) == "é" * 6 + "\n[cut]"
