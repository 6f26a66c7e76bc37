"""Diffs that go out: git apply, patch and unidiff take them, and the scanner reads them back."""

import contextlib
import io
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from app.proposals.decide.patch_export import (
    MAX_CHECKED_PATCH_CHARACTERS,
    FileToDiff,
    check_patch_roundtrip,
    has_hunks,
    render_diff,
)
from app.proposals.patch.hunk_placement import apply_file_patch
from app.proposals.patch.patching import parse_patch_text
from app.proposals.text.document import Document, decode_surrogateescape
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import EditRefused, UnexportablePatch
from tests.unit.proposals.bench import tree

TEXTS = [b"a", b"b", b"", b"c\r", b"d\x0c e", "u\u2028v".encode(), b"\xe9t\xe9", b" sp", b"lone\rcr"]
MARKS = [
    b"-- x",
    b"++ y",
    b"@@ -1 +1 @@",
    b"--- a/f",
    b"+++ b/f",
    b"diff --git a/x b/x",
    b"-",
    b"+",
    b"\\ No newline",
]
LINES = [line + b"\n" for line in (*TEXTS, *MARKS)]
PATHS = ["f.txt", "a/f.txt", "b/b", "dir with space/g h.py", "é.py", 'q"uote.py', "tab\there", "x b/y.py", "back\\sl"]


@dataclass
class Case:
    """A change of one file."""

    path: str
    new_path: str
    old: bytes | None
    new: bytes | None

    @property
    def file(self) -> FileToDiff:
        return FileToDiff(self.new_path, self.old, self.new, old_path=self.path if self.new_path != self.path else "")


@st.composite
def contents(draw: st.DrawFn) -> tuple[bytes, bytes]:
    line = st.sampled_from(LINES)
    old = draw(st.lists(line, max_size=25))
    new = list(old)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(line, max_size=3))
    ends = draw(st.tuples(st.booleans(), st.booleans()))
    both = [b"".join(lines).removesuffix(b"\n" if cut else b"") for lines, cut in zip((old, new), ends, strict=True)]
    return both[0], both[1]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    old, new = draw(contents())
    path = draw(st.sampled_from(PATHS))
    kind = draw(st.sampled_from(["edit", "edit", "edit", "create", "delete", "rename"]))
    return Case(
        path,
        f"moved/{path}" if kind == "rename" else path,
        None if kind == "create" else old,
        None if kind == "delete" else new,
    )


def lay_out(folder: Path, case: Case) -> None:
    if case.old is not None:
        file = folder / case.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(case.old)


def found(folder: Path, case: Case) -> bytes | None:
    file = folder / case.new_path
    return file.read_bytes() if file.is_file() else None


def run(command: list[str], folder: Path, text: bytes) -> None:
    result = subprocess.run(command, cwd=folder, input=text, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr + result.stdout


relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(case=cases())
@pytest.mark.parametrize(
    "command", [["git", "apply", "--whitespace=nowarn"], ["patch", "-p1", "-s", "--binary"]], ids=lambda c: c[0]
)
def test_other_tools_apply_it_too(tmp_path_factory: pytest.TempPathFactory, command: list[str], case: Case) -> None:
    text = render_diff([case.file])
    folder = tmp_path_factory.mktemp("tree")
    lay_out(folder, case)
    if not text:
        assert case.old == case.new
        return
    if command[0] == "patch" and b"\n@@ " not in text and " " in case.path:
        # GNU patch splits the one line that names such a file at its spaces.
        return
    run(command, folder, text)
    assert found(folder, case) == case.new


@given(cases())
def test_the_scanner_reads_it_back_and_refuses_or_finds_it_without_gits_ids(case: Case) -> None:
    text = render_diff([case.file])
    if not text:
        return
    (file,) = parse_patch_text(text)
    assert (file.path, file.old_path) == (case.new_path, case.file.old_path)
    assert (file.op is FileOperation.CREATE, file.op is FileOperation.DELETE) == (case.old is None, case.new is None)
    assert apply_file_patch(Document(case.old or b""), file)[0] == (case.new or b"")
    held = PatchSet(io.StringIO(decode_surrogateescape(text), newline="\n"))
    assert len(held) == 1
    assert (held.added, held.removed) == (file.added, file.removed)
    # Without the ids the text alone finds the place, and what is not unique is refused or decided by the line number.
    without_ids = re.sub(rb"(?m)^index .*\n", b"", text)
    with contextlib.suppress(EditRefused):
        assert apply_file_patch(Document(case.old or b""), parse_patch_text(without_ids)[0])[0] == (case.new or b"")


@relaxed
@given(pair=contents())
def test_diffs_of_git_are_applied_alike(tmp_path_factory: pytest.TempPathFactory, pair: tuple[bytes, bytes]) -> None:
    folder = tmp_path_factory.mktemp("tree")
    (folder / "old").write_bytes(pair[0])
    (folder / "new").write_bytes(pair[1])
    for context in ("-U3", "-U0"):
        made = subprocess.run(
            ["git", "diff", "--no-index", "--text", context, "old", "new"],
            cwd=folder,
            capture_output=True,
            check=False,
        ).stdout
        if not made:
            continue
        result, _ = apply_file_patch(Document(pair[0]), parse_patch_text(made)[0])
        assert result == pair[1]


def test_a_change_set_of_several_files(tmp_path: Path) -> None:
    for name, data in (("a", b"one\n"), ("gone", b"x\n"), ("run", b"#!\n"), ("moved", b"same\n")):
        (tmp_path / name).write_bytes(data)
    text = render_diff(
        [
            FileToDiff("a", b"one\n", b"two\n"),
            FileToDiff("new", None, b"n", new_mode=0o755),
            FileToDiff("empty", None, b""),
            FileToDiff("gone", b"x\n", None),
            FileToDiff("run", b"#!\n", b"#!\n", new_mode=0o755),
            FileToDiff("to/moved", b"same\n", b"same\n", old_path="moved"),
            FileToDiff("same", b"s\n", b"s\n"),
        ]
    )
    run(["git", "apply", "--check"], tmp_path, text)
    run(["git", "apply"], tmp_path, text)
    expected = {"a": b"two\n", "empty": b"", "new": b"n", "run": b"#!\n", "to/moved": b"same\n"}
    assert {path: data for path, (data, _) in tree(tmp_path).items()} == expected
    assert [path for path, (_, mode) in tree(tmp_path).items() if mode & 0o100] == ["new", "run"]
    operations = [f"{file.path} {file.op}" for file in parse_patch_text(text)]
    assert operations == ["a edit", "new create", "empty create", "gone delete", "run mode", "to/moved rename"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\0" + bytes(range(256)), b"\0\1" + b"x" * 200),
        (None, b"\0new"),
        (b"\0gone", None),
        (b"\xff\xfea\0\n\0", b"\xff\xfeb\0\n\0"),
        (b"text\n", b"te\0xt\n"),
    ],
)
def test_binary_content_is_a_patch_for_git(tmp_path: Path, old: bytes | None, new: bytes | None) -> None:
    case = Case("f", "f", old, new)
    lay_out(tmp_path, case)
    text = render_diff([case.file])
    run(["git", "apply", "--check"], tmp_path, text)
    run(["git", "apply"], tmp_path, text)
    assert found(tmp_path, case) == new


def test_hundreds_of_hunks_come_back() -> None:
    old = [b"line %d\n" % number for number in range(4_000)]
    new = [line.upper() if number % 8 == 0 else line for number, line in enumerate(old)]
    text = render_diff([FileToDiff("f", b"".join(old), b"".join(new))])
    (file,) = parse_patch_text(text)
    assert len(file.hunks) == 500
    result, matches = apply_file_patch(Document(b"".join(old)), file)
    assert result == b"".join(new)
    assert all(match.rung.is_exact for match in matches)


@given(cases(), st.data())
def test_the_round_trip_check_accepts_only_the_exact_patch(case: Case, data: st.DataObject) -> None:
    text = decode_surrogateescape(render_diff([case.file]))
    check_patch_roundtrip(text, [case.file])
    if not has_hunks(case.file):
        return
    lines = text.splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line.startswith("@@ -"))
    at = data.draw(st.integers(first + 1, len(lines) - 1))
    if lines[at][0] not in "+-":
        return
    lines[at] = lines[at][0] + "forged" + lines[at][1:]
    with pytest.raises(UnexportablePatch):
        check_patch_roundtrip("".join(lines), [case.file])


def test_a_patch_with_another_meaning_is_not_exported_unless_it_is_huge() -> None:
    for text in (
        "",
        "--- a/f\n+++ b/f\n@@ -1,3 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n",
        "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-a\n+b\n",
    ):
        with pytest.raises(UnexportablePatch):
            check_patch_roundtrip(text, [FileToDiff("f", b"a\n", b"b\n")])
    check_patch_roundtrip("x" * (MAX_CHECKED_PATCH_CHARACTERS + 1), [FileToDiff("f", b"a\n", b"b\n")])
