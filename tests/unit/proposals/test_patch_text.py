"""Reading patches: bodies count, headers hint, nothing is lost."""

import re
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.copies import replace
from app.proposals.patch.diff_header_names import (
    parse_header_name,
    quote_git_path,
    split_git_header_names,
    strip_path_prefixes,
    unquote_git_path,
)
from app.proposals.patch.parsed_patch import FilePatch
from app.proposals.patch.patching import MAX_CHARACTERS, check_all_changes_parsed, parse_patch_text
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import EditRefused, MalformedPatch, UnsupportedPatch

PLAIN = """\
--- a/app.py
+++ b/app.py
@@ -1,4 +1,4 @@ import os
 import os

-x = 1
+x = 2
 y = 1
@@ -10,2 +10,3 @@
 a
+b
 c
"""


def bodies(files: list[FilePatch]) -> list[list[str]]:
    return [[line.operation.value + line.text for line in hunk.lines] for file in files for hunk in file.hunks]


EXPECTED = [[" import os", " ", "-x = 1", "+x = 2", " y = 1"], [" a", "+b", " c"]]


def test_a_plain_diff() -> None:
    (file,) = parse_patch_text(PLAIN)
    assert (file.path, file.op, file.added, file.removed) == ("app.py", FileOperation.EDIT, 2, 1)
    assert bodies([file]) == EXPECTED
    assert [hunk.old_start for hunk in file.hunks] == [1, 10]
    assert {line.ending for hunk in file.hunks for line in hunk.lines} == {"\n"}


STAMP = "2024-02-03 04:05:06.700000000 +0100"
LIST = "\n- it sets **x**\n+ and b\n- `c` stays\n"
QUOTED = "The header was\n--- x\n+++ y\nand is right now.\n"


@pytest.mark.parametrize(
    "text",
    [
        re.sub("@@.*@@.*", "@@", PLAIN),
        re.sub("@@.*@@.*", "@@ ... @@", PLAIN),
        re.sub("@@.*@@.*", "@@ -x,y +x,y @@", PLAIN),
        PLAIN.replace("-10,2 +10,3", "-10 +10"),
        f"Here it is:\n\n```diff\n{PLAIN}```\nThat is all, - really.\n",
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN.removesuffix("\n"),
        PLAIN + "\n\n",
        PLAIN + "-- \n2.39.5\n\n",
        "Subject: x\n\n- a list\n+ of things\n---\n app.py | 3 ++-\n\n" + PLAIN,
        "*** \n*** Note: this comes from elsewhere ***\n- one\n+ two\n\n***************\n" + PLAIN,
        PLAIN + LIST,
        f"{PLAIN}\nWhat it does:\n{LIST}",
        f"```diff\n{PLAIN}```\n{LIST}---\n",
        QUOTED + PLAIN,
        f"{PLAIN}\n{QUOTED}",
        f"```diff\n{PLAIN}```\n{QUOTED}",
        f"{PLAIN}-- \n2.39.5\n\nFrom 0123456789abcdef Mon Sep 17 00:00:00 2001\nSubject: two\n{LIST}{QUOTED}---\n",
    ],
)
def test_sloppy_headers_and_text_around_a_patch_change_nothing(text: str) -> None:
    assert bodies(parse_patch_text(text)) == EXPECTED


def test_possible_change_is_never_read_as_surrounding_text() -> None:
    for text in (
        PLAIN + "\n-x = 3\n",
        f"{PLAIN}\nAnd then\n- a list\n-x = 3\n",
        f"```diff\n{PLAIN}```\n-x = 3\n",
        PLAIN.replace(" y = 1\n", "```\n-x = 3\n").replace("-1,4 +1,4", "-1,5 +1,4"),
    ):
        with suppress(MalformedPatch):
            assert sum(file.removed for file in parse_patch_text(text)) == PLAIN.count("\n-") + 1


def test_a_line_without_mark_or_a_list_after_a_patch_leaves_a_doubt() -> None:
    (file,) = parse_patch_text(PLAIN.replace("+x = 2\n y = 1\n", " y = 1\n+x = \n2\n"))
    assert [hunk.doubt for hunk in file.hunks] == ["line 9 of the patch, which follows it, has no mark", ""]
    (file,) = parse_patch_text(PLAIN + LIST)
    assert [bool(hunk.doubt) for hunk in file.hunks] == [False, True]


def test_a_text_that_ends_before_its_last_hunk_or_end_patch_is_cut_off_unless_complete() -> None:
    for cut in ("@@ -10,2 +10", "@@ -10,2 +10,3 @@\n", "@@ -10,2 +10,3 @@\n a\n+", "@@"):
        with pytest.raises(MalformedPatch, match=r"ends before this hunk does|without lines"):
            parse_patch_text(PLAIN[: PLAIN.index("@@ -10")] + cut, is_complete=False)
    text = "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b"
    assert bodies(parse_patch_text(text)) == [["-a", "+b"]]
    with pytest.raises(MalformedPatch, match="is incomplete"):
        parse_patch_text(text, is_complete=False)
    assert bodies(parse_patch_text(f"```\n{text}\n```\n", is_complete=False)) == [["-a", "+b"]]


def test_a_file_without_data_is_left_out_by_name() -> None:
    for header in ("diff --git a/logo.png b/logo.png\nindex 1111111..2222222 100644\n", ""):
        left_out, file = parse_patch_text(f"{header}Binary files a/logo.png and b/logo.png differ\n{PLAIN}")
        assert (left_out.path, left_out.hunks) == ("logo.png", ())
        assert "binary" in left_out.left_out
        assert bodies([file]) == EXPECTED


GIT = "diff --git a/x b/x\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (GIT + "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "names different files"),
        (GIT + "new file mode 100644\n--- /dev/null\n+++ b /x\n@@ -0,0 +1 @@\n+b\n", "names different files"),
        ("--- a/x\n+++ b/y\n@@ -0,0 +1 @@\n+b\n", r"names different files \(x, y\)"),
        ("--- a/x\n+++ b/x\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", r"second `\+\+\+` line"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -5,2 +5,3 @@\n c\n d\n@@ -9 +9 @@\n-e\n+f\n", "without a change"),
        (GIT + "index 1111111..2222222 100644\n", "there is no change"),
        (GIT + "new file mode 10064", "is not a file mode"),
        (GIT + "new file mode 100644\nindex 0000000..2222222\n", "there is no change"),
        ("diff --git a/x b/yard\nsimilarity index 100%\nrename from x\nrename to ya", "from where to where"),
        ("diff --git a/x b/yard\nsimilarity index 100%\nrename from x\n", "from where to where"),
        ("--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n", "names no file"),
        ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+b\n", "names no file"),
    ],
)
def test_a_damaged_header_is_refused(text: str, match: str) -> None:
    with pytest.raises(MalformedPatch, match=match):
        parse_patch_text(text)


def test_colour_codes_and_a_missing_context_space_are_explained() -> None:
    coloured = "".join(f"\x1b[1m{line}\x1b[m\n" for line in PLAIN.splitlines())
    with pytest.raises(MalformedPatch, match="--no-color"):
        parse_patch_text(coloured)
    text = PLAIN.replace(" y = 1\n", "y = 1\n+z = 1\n")
    with pytest.raises(MalformedPatch, match=r"Line 9: .* follows line 8, which has no mark"):
        parse_patch_text(text)


def test_a_number_of_5000_digits() -> None:
    for begin in ("--- a/x\n+++ b/x\n", "*** Begin Patch\n*** Update File: x\n"):
        for header in ("@@ -{n},2 +1,2 @@", "@@ -1,2 +1,{n} @@"):
            with pytest.raises(MalformedPatch, match="states more lines than any file has"):
                parse_patch_text(f"{begin}{header.format(n='9' * 5000)}\n-a\n+b\n")


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4))
def test_no_count_loses_a_change(counts: list[int]) -> None:
    old, new, old_again, new_again = counts
    text = PLAIN.replace("-1,4 +1,4", f"-1,{old} +1,{new}").replace("-10,2 +10,3", f"-10,{old_again} +10,{new_again}")
    assert bodies(parse_patch_text(text)) == EXPECTED


@given(
    st.lists(
        st.sampled_from(
            ["+a", "-b", " c", "", "@@", "@@ -1 +1 @@", "--- a/x", "+++ b/x", "prose", "```", "\\ No", "-- "]
        ),
        max_size=14,
    )
)
def test_every_change_mark_comes_out_or_the_patch_is_refused(lines: list[str]) -> None:
    """Unless a line says that prose follows, what begins with a mark is a change or a header."""
    text = "\n".join(["--- a/x", "+++ b/x", "@@", " first", *lines, ""])
    try:
        files = parse_patch_text(text)
    except EditRefused:
        return
    if any(line in ("```", "-- ") for line in lines):
        return
    headers = sum(first == "--- a/x" and second == "+++ b/x" for first, second in pairwise(lines))
    marks = sum(line[:1] in ("+", "-") for line in lines) - 2 * headers
    assert sum(file.added + file.removed for file in files) >= marks


def test_bodies_count_and_headers_hint() -> None:
    assert bodies(parse_patch_text("--- a/x\n+++ b/x\n-a\n+b\n")) == [["-a", "+b"]]
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,3 @@\n a\n--- old\n+++ new\n b\n@@ -9 +9 @@\n-x\n+y\n"
    (file,) = parse_patch_text(text)
    assert bodies([file]) == [[" a", "--- old", "+++ new", " b"], ["-x", "+y"]]
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n"
    assert [file.path for file in parse_patch_text(text)] == ["x", "y"]


def test_git_header_lines() -> None:
    text = (
        "diff --git a/old name.py b/new/b/name.py\nsimilarity index 90%\nrename from old name.py\n"
        "rename to new/b/name.py\nold mode 100644\nnew mode 100755\n"
        "diff --git a/empty b/empty\nnew file mode 100755\nindex 0000000..e69de29\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\nindex 257cc56..0000000\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-foo\n"
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "diff --git a/x y b/z w\nsimilarity index 100%\nrename from x y\nrename to z w\n"
    )
    renamed, empty, gone, run, spaces = parse_patch_text(text)
    assert (renamed.op, renamed.old_path, renamed.path) == (FileOperation.RENAME, "old name.py", "new/b/name.py")
    assert (renamed.old_mode, renamed.new_mode) == (0o644, 0o755)
    assert (empty.op, empty.path, empty.new_mode, empty.hunks) == (FileOperation.CREATE, "empty", 0o755, ())
    assert (gone.op, gone.path, gone.old_blob) == (FileOperation.DELETE, "gone", "257cc56")
    assert (run.op, run.path, run.new_mode) == (FileOperation.MODE, "run", 0o755)
    assert (spaces.op, spaces.old_path, spaces.path) == (FileOperation.RENAME, "x y", "z w")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,2 @@@\n++a\n", "combined"),
        ("diff --git a/x b/x\nindex 1111111..2222222 100644\nBinary files a/x and b/x differ\n", "binary"),
        ("diff --git a/x b/x\nindex 1111111..2222222\nGIT binary patch\nliteral 1\nIcmZ\n", "x is binary"),
        (
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n",
            "x is a symbolic link",
        ),
        (
            "diff --git a/x b/x\nindex 1111111..2222222 160000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "x is a submodule",
        ),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies"),
        ("*** a\n--- b\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n", "context diff"),
    ],
)
def test_unsupported_patch_is_named(text: str, match: str) -> None:
    with pytest.raises(UnsupportedPatch, match=match):
        parse_patch_text(text)


def test_text_without_a_patch_or_of_more_than_is_read_is_refused() -> None:
    for text in ("", "hello\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a/x\n+++ b/x\n", "diff --git a/x b/x\n"):
        with pytest.raises(MalformedPatch):
            parse_patch_text(text)
    with pytest.raises(UnsupportedPatch, match="67,108,865 characters"):
        parse_patch_text("x" * (MAX_CHARACTERS + 1))


BEGIN = """\
*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@ class Store:
@@     def load(self):
     data = 1
-    return data

+    return data + 1
*** End of File
*** Add File: new/file.txt
+one
+
+-two
*** Delete File: old.txt
*** End Patch
"""


@pytest.mark.parametrize(
    "text",
    [
        BEGIN,
        BEGIN.replace("*** Begin Patch\n", "").replace("*** End Patch\n", ""),
        f"apply_patch <<'EOF'\n{BEGIN}EOF\n",
        f"```\n{BEGIN}```\n",
        BEGIN.replace("\n", "\r\n"),
        re.sub(r"(?m)^\*\*\* (?!End of File|Move)", "  *** ", BEGIN),
        re.sub(r"(?m)^\*\*\* (Begin|End) Patch", r" *** \1 Patch ", BEGIN),
        f"{BEGIN}\n- what it does\n- and why\n",
    ],
)
def test_begin_patch(text: str) -> None:
    update, added, deleted = parse_patch_text(text)
    assert (update.op, update.old_path, update.path) == (FileOperation.RENAME, "src/app.py", "src/main.py")
    (hunk,) = update.hunks
    assert hunk.section_headings == ("class Store:", "    def load(self):")
    assert hunk.at_end
    assert bodies([update]) == [["     data = 1", "-    return data", " ", "+    return data + 1"]]
    assert all(line.ending is None for line in hunk.lines)
    assert (added.op, bodies([added])) == (FileOperation.CREATE, [["+one", "+", "+-two"]])
    assert (deleted.op, deleted.path) == (FileOperation.DELETE, "old.txt")


def test_malformed_begin_patch() -> None:
    for text in (
        BEGIN.replace("     data = 1", "data = 1"),
        BEGIN.replace("+one", "one"),
        "*** Begin Patch\n*** Update File: x\n*** End Patch\n",
        "*** Begin Patch\n*** End Patch\n",
    ):
        with pytest.raises(MalformedPatch):
            parse_patch_text(text)
    with pytest.raises(MalformedPatch, match=r"Line 3: the change '-line' belongs to no file"):
        parse_patch_text("*** Begin Patch\n*** Delete File: old.txt\n-line\n*** End Patch\n")


def test_a_context_line_that_looks_like_a_marker_is_kept() -> None:
    body = "@@\n *** Update File: a\n@@\n-x\n+y\n *** End Patch\n-z\n"
    (file,) = parse_patch_text(f"*** Begin Patch\n*** Update File: doc.md\n{body}*** End Patch\n")
    assert bodies([file]) == [["-x", "+y", " *** End Patch", "-z"]]


def recursive(old: str, new: str, *, old_stamp: str = STAMP, new_stamp: str = STAMP, gap: str = "\t") -> str:
    return f"diff -ruN {old} {new}\n--- {old}{gap}{old_stamp}\n+++ {new}{gap}{new_stamp}\n"


def test_a_single_created_or_deleted_file_is_named_without_the_prefix() -> None:
    for prefixes in ("a/ b/", "b/ a/", "i/ w/", "w/ i/", "c/ i/", "old/ new/", " "):
        old, new = (prefix + "a/x" for prefix in prefixes.split(" "))
        header = f"diff --git {old} {new}\n"
        (made,) = parse_patch_text(header + f"new file mode 100644\n--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+b\n")
        (gone,) = parse_patch_text(
            header + f"deleted file mode 100644\n--- {old}\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
        )
        assert (made.op, gone.op) == (FileOperation.CREATE, FileOperation.DELETE)
        assert made.path == gone.path == "a/x"


def test_the_other_sides_prefix_and_other_names_are_no_folders() -> None:
    made = "--- /dev/null\n+++ a/b/x\n@@ -0,0 +1 @@\n+b\n"
    assert [file.path for file in parse_patch_text(PLAIN + made)] == ["app.py", "b/x"]
    assert [file.path for file in parse_patch_text(made)] == ["a/b/x"]
    (moved, created) = parse_patch_text(
        "--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ y/z\n@@ -0,0 +1 @@\n+c\n"
    )
    assert (moved.path, created.path) == ("y", "y/z")


@pytest.mark.parametrize("gap", ["\t", "  "])
@pytest.mark.parametrize(
    "epoch", ["1970-01-01 00:00:00.000000000 +0000", "1969-12-31 19:00:00 -0500", "1970-01-01 05:30:00 +05:30"]
)
def test_recursive_diff_of_two_folders_is_read(gap: str, epoch: str) -> None:
    files = parse_patch_text(
        recursive("linux-1/f g.c", "linux-2/f g.c", gap=gap)
        + "@@ -1 +1 @@\n-a\n+b\n"
        + recursive("linux-1/new.c", "linux-2/new.c", old_stamp=epoch, gap=gap)
        + "@@ -0,0 +1 @@\n+b\n"
        + recursive("linux-1/gone.c", "linux-2/gone.c", new_stamp=epoch, gap=gap)
        + "@@ -1 +0,0 @@\n-a\n"
        + "--- /dev/null\n+++ linux-2/more.c\n@@ -0,0 +1 @@\n+b\n"
        + recursive("linux-1/old.c", "linux-2/old.c", old_stamp=epoch, new_stamp=epoch, gap=gap)
        + "@@ -1 +1 @@\n-a\n+b\n"
    )
    assert [(file.op, file.path) for file in files] == [
        (FileOperation.EDIT, "f g.c"),
        (FileOperation.CREATE, "new.c"),
        (FileOperation.DELETE, "gone.c"),
        (FileOperation.CREATE, "more.c"),
        (FileOperation.EDIT, "old.c"),
    ]


def test_a_file_that_is_emptied_stays() -> None:
    epoch = "1970-01-01 00:00:0"
    for stamp in (f"{epoch}0 +0100", f"{epoch}1 +0000", "2024-01-01 00:00:00 +0000", "(revision 3)"):
        text = recursive("old/x", "new/x", new_stamp=stamp) + "@@ -1 +0,0 @@\n-a\n"
        assert [(file.op, file.path) for file in parse_patch_text(text)] == [(FileOperation.EDIT, "x")]


def test_folders_that_git_compared_outside_a_repository() -> None:
    text = (
        "diff --git a/one/x b/two/x\nindex 1111111..2222222 100644\n--- a/one/x\n+++ b/two/x\n@@ -1 +1 @@\n-a\n+b\n"
    )
    moved = text.replace("index", "rename from one/x\nrename to two/x\nindex")
    assert [(file.op, file.old_path, file.path) for file in parse_patch_text(text)] == [(FileOperation.EDIT, "", "x")]
    assert [(file.op, file.old_path, file.path) for file in parse_patch_text(moved)] == [
        (FileOperation.RENAME, "one/x", "two/x")
    ]


@pytest.mark.parametrize(
    ("old", "new", "header", "expected"),
    [
        ("a/x", "b/x", None, ("x", "x")),
        ("x", "x", None, ("x", "x")),
        ("a/x", "a/x", None, ("a/x", "a/x")),
        ("b/x", "b/x", "b/x b/x", ("b/x", "b/x")),
        ("a/a/x", "b/a/x", "a/a/x b/a/x", ("a/x", "a/x")),
        ("i/x", "w/x", "i/x w/x", ("x", "x")),
        ("i/x", "w/y", None, ("i/x", "w/y")),
        ("/dev/null", "b/x", None, ("/dev/null", "x")),
        ("/dev/null", "b/x", "b/x b/x", ("/dev/null", "b/x")),
        ("a/x", "/dev/null", None, ("x", "/dev/null")),
        ("c/x", "/dev/null", None, ("c/x", "/dev/null")),
        ("./x", "./x", None, ("x", "x")),
    ],
)
def test_prefixes(old: str, new: str, header: str | None, expected: tuple[str, str]) -> None:
    assert strip_path_prefixes(old, new, split_git_header_names(header) if header else None) == expected


def test_git_header_names() -> None:
    for header, expected in (
        ("a/x b/x", ("a/x", "b/x")),
        ("a/a b/c b/a b/c", ("a/a b/c", "b/a b/c")),
        (r'"a/\303\251" "b/\303\251"', ("a/é", "b/é")),
        (r'a/x "b/\t"', ("a/x", "b/\t")),
        ("a/x b/y", ("a/x", "b/y")),
        ("a/x y b/z", None),
        (r'"a/\4_1" "b/x"', None),
        (r'"a/\777" "b/x"', None),
    ):
        assert split_git_header_names(header) == expected


@given(st.binary(min_size=1, max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_quoting_is_undone(path: str) -> None:
    text = quote_git_path(path)
    assert "\n" not in text
    if text.startswith('"'):
        assert unquote_git_path(text + " rest") == (path, " rest")
    else:
        assert text == path


def test_a_lost_change_is_noticed_apart_from_the_scanner() -> None:
    files = parse_patch_text(PLAIN)
    lines = PLAIN.split("\n")
    check_all_changes_parsed(files, lines, 1)
    hunk = files[0].hunks[0]
    shortened = replace(files[0], hunks=(replace(hunk, lines=hunk.lines[:3]), files[0].hunks[1]))
    with pytest.raises(MalformedPatch, match=r"Of 2 lines that begin with `\+` only 1"):
        check_all_changes_parsed([shortened], lines, 1)


def test_a_quote_that_is_not_closed_is_a_part_of_the_name() -> None:
    assert parse_header_name('"a.txt\t2024-01-01').path == '"a.txt\t2024-01-01'


def test_a_change_may_be_the_last_of_a_text() -> None:
    update = "*** Update File: x\n@@\n-a\n"
    for text, body in (
        (f"{update}+b", ["-a", "+b"]),
        ("*** Add File: x\n+a", ["+a"]),
        (f"*** Begin Patch\n{update}+b\n *** End Patch\n", ["-a", "+b"]),
        (f"*** Begin Patch\n{update}+b\n\t*** End Patch\n", ["-a", "+b"]),
        (f"*** Begin Patch\n{update} *** End Patch\n+b\n*** End Patch\n", ["-a", " *** End Patch", "+b"]),
    ):
        assert bodies(parse_patch_text(text)) == [body]


def test_bytes_that_are_not_utf_8_are_kept() -> None:
    (file,) = parse_patch_text(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-caf\xe9\n+caf\xc3\xa9\n")
    assert bodies([file]) == [["-caf\udce9", "+café"]]
