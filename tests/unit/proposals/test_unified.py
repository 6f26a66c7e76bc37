"""Diffs that go out: git apply, patch and unidiff take them, and the scanner reads them back."""

import io
import random
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
    PatchFile,
    check_patch_roundtrip,
    has_hunks,
    render_diff,
)
from app.proposals.patch.hunk_placement import apply_file_patch
from app.proposals.patch.patching import parse_patch_text
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document, decode_surrogateescape, split_lines
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import EditRefused, UnexportablePatch
from tests.unit.proposals.applied_changes import apply_changes

LINES = [
    *(
        b"a\n",
        b"b\n",
        b"\n",
        b"-- x\n",
        b"++ y\n",
        b"c\r\n",
        b"d\x0c e\n",
        "u\u2028v\n".encode(),
        b"\xe9t\xe9\n",
        b" sp\n",
    ),
    *(
        b"@@ -1 +1 @@\n",
        b"--- a/f\n",
        b"+++ b/f\n",
        b"diff --git a/x b/x\n",
        b"lone\rcr\n",
        b"-\n",
        b"+\n",
        b"\\ No newline\n",
    ),
]
PATHS = [
    "f.txt",
    "a/f.txt",
    "b/b",
    "dir with space/g h.py",
    "é.py",
    'q"uote.py',
    "tab\there",
    "x b/y.py",
    "back\\slash",
]


@dataclass
class Case:
    """A change of one file."""

    path: str
    new_path: str
    old: bytes | None
    new: bytes | None

    @property
    def file(self) -> PatchFile:
        return PatchFile(self.new_path, self.old, self.new, old_path=self.path if self.new_path != self.path else "")


@st.composite
def contents(draw: st.DrawFn) -> tuple[bytes, bytes]:
    line = st.sampled_from(LINES)
    old = draw(st.lists(line, max_size=25))
    new = list(old)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(line, max_size=3))
    ends = draw(st.tuples(st.booleans(), st.booleans()))
    old_data, new_data = b"".join(old), b"".join(new)
    return old_data.removesuffix(b"\n") if ends[0] else old_data, new_data.removesuffix(b"\n") if ends[
        1
    ] else new_data


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
def test_the_scanner_reads_it_back(case: Case) -> None:
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


@given(cases())
def test_without_gits_ids_it_is_the_same_or_refused(case: Case) -> None:
    """Then the place is found by the text alone, and what is not unique is refused or decided by the line number."""
    text = re.sub(rb"(?m)^index .*\n", b"", render_diff([case.file]))
    if not text:
        return
    try:
        result, _ = apply_file_patch(Document(case.old or b""), parse_patch_text(text)[0])
    except EditRefused:
        return
    assert result == (case.new or b"")


@relaxed
@given(pair=contents(), seed=st.integers(0, 10_000))
def test_any_subset_of_changes_is_applied_by_git_apply(
    tmp_path_factory: pytest.TempPathFactory, pair: tuple[bytes, bytes], seed: int
) -> None:
    old, new = pair
    old_lines, new_lines = split_lines(old), split_lines(new)
    chance = random.Random(seed)
    chosen = [change for change in diff_lines(old_lines, new_lines) if chance.random() < 0.6]
    result = b"".join(apply_changes(old_lines, new_lines, chosen))
    text = render_diff([PatchFile("f", old, result)])
    if not text:
        return
    folder = tmp_path_factory.mktemp("tree")
    (folder / "f").write_bytes(old)
    run(["git", "apply", "--whitespace=nowarn", "--unidiff-zero"], folder, text)
    assert (folder / "f").read_bytes() == result


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
    (tmp_path / "a").write_bytes(b"one\n")
    (tmp_path / "gone").write_bytes(b"x\n")
    (tmp_path / "run").write_bytes(b"#!\n")
    (tmp_path / "moved").write_bytes(b"same\n")
    text = render_diff(
        [
            PatchFile("a", b"one\n", b"two\n"),
            PatchFile("new", None, b"n", new_mode=0o755),
            PatchFile("empty", None, b""),
            PatchFile("gone", b"x\n", None),
            PatchFile("run", b"#!\n", b"#!\n", new_mode=0o755),
            PatchFile("to/moved", b"same\n", b"same\n", old_path="moved"),
            PatchFile("same", b"s\n", b"s\n"),
        ]
    )
    run(["git", "apply", "--check"], tmp_path, text)
    run(["git", "apply"], tmp_path, text)
    assert (tmp_path / "a").read_bytes() == b"two\n"
    assert (tmp_path / "new").read_bytes() == b"n"
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "to/moved").read_bytes() == b"same\n"
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "new").stat().st_mode & 0o100
    files = parse_patch_text(text)
    assert [(file.path, file.op) for file in files] == [
        ("a", FileOperation.EDIT),
        ("new", FileOperation.CREATE),
        ("empty", FileOperation.CREATE),
        ("gone", FileOperation.DELETE),
        ("run", FileOperation.MODE),
        ("to/moved", FileOperation.RENAME),
    ]


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


def test_two_thousand_hunks_come_back() -> None:
    old = [b"line %d\n" % number for number in range(16_000)]
    new = [line.upper() if number % 8 == 0 else line for number, line in enumerate(old)]
    text = render_diff([PatchFile("f", b"".join(old), b"".join(new))])
    (file,) = parse_patch_text(text)
    assert len(file.hunks) == 2_000
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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--- a/f\n+++ b/f\n@@ -1,3 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n",
        "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-a\n+b\n",
    ],
    ids=["nothing", "wrong counts", "no newline", "another line"],
)
def test_a_patch_with_another_meaning_is_not_exported(text: str) -> None:
    with pytest.raises(UnexportablePatch):
        check_patch_roundtrip(text, [PatchFile("f", b"a\n", b"b\n")])


def test_a_huge_patch_is_exported_unchecked() -> None:
    check_patch_roundtrip("x" * (MAX_CHECKED_PATCH_CHARACTERS + 1), [PatchFile("f", b"a\n", b"b\n")])
