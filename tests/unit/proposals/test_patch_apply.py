"""Placing hunks: by their text, in order, with numbers as hints."""

import hashlib

import pytest

from app.proposals.patch.hunk_placement import apply_file_patch
from app.proposals.patch.parsed_patch import matches_long_blob_id_prefix
from app.proposals.patch.patching import parse_patch_text
from app.proposals.text.document import Document
from app.proposals.values.models import EditMatch, FileOperation, MatchLevel
from app.proposals.values.proposal_errors import AlreadyApplied, AmbiguousMatch, EditRefused, MalformedPatch, NoMatch

SOURCE = """\
class A:
    def run(self):
        start()
        return 1

class B:
    def run(self):
        start()
        return 1
"""


def apply(source: str | bytes, patch: str | bytes) -> tuple[bytes, tuple[EditMatch, ...]]:
    (file,) = parse_patch_text(patch)
    return apply_file_patch(Document(source.encode() if isinstance(source, str) else source), file)


def hunk(body: str, header: str = "@@") -> str:
    return f"--- a/x\n+++ b/x\n{header}\n{body}"


def blob(data: bytes) -> str:
    """Git's id of a content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()


def test_a_hunk_is_placed_by_its_text_despite_wrong_numbers() -> None:
    data, matches = apply("a\nb\nc\nd\n", hunk(" c\n-d\n+e\n", "@@ -77,2 +78,2 @@"))
    assert data == b"a\nb\nc\ne\n"
    assert (matches[0].rung, matches[0].line) == (MatchLevel.EXACT, 3)


RETURNS = "         start()\n-        return 1\n+        return 2\n"
"""A hunk that fits in both classes."""


def test_a_number_or_the_line_above_chooses_among_equal_places() -> None:
    with pytest.raises(AmbiguousMatch, match=r"Hunk 1 of 1 for x \(line 3 of the patch\).*2 places"):
        apply(SOURCE, hunk(RETURNS))
    for number, line in ((3, 3), (8, 8), (9, 8)):
        data, matches = apply(SOURCE, hunk(RETURNS, f"@@ -{number},2 +{number},2 @@"))
        assert data.decode().split("\n")[line] == "        return 2"
        assert (matches[0].rung, matches[0].line) == (MatchLevel.LINE_HINT, line)
    data, matches = apply(SOURCE, hunk(RETURNS, "@@ class B:"))
    assert data.decode() == SOURCE[:-2] + "2\n"
    assert matches[0].rung is MatchLevel.EXACT
    with pytest.raises(AmbiguousMatch):
        apply(SOURCE, hunk(RETURNS, "@@     def run(self):"))


BEGIN = "*** Begin Patch\n*** Update File: x\n{}*** End Patch\n"
START_IN_A = "-        start()\n-        return 1\n"
ONCE = SOURCE.replace("        return 1\n\nclass B", "        return 0\n\nclass B").replace("start()", "begin()", 1)
"""Here `start()` and `return 1` stand in class B alone."""


@pytest.mark.parametrize("named", ["class A:", "class B:", "    def run(self):", "class B:\n@@     def run(self):"])
def test_a_unique_match_outside_the_named_block_is_doubtful(named: str) -> None:
    patch = BEGIN.format(f"@@ {named}\n{START_IN_A}+        pass\n")
    data, matches = apply(ONCE, patch)
    assert data.decode() == ONCE.replace("        start()\n        return 1\n", "        pass\n")
    assert (matches[0].rung is MatchLevel.EXACT) == (named != "class A:"), (
        "not in the block of A, so there is a doubt"
    )


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ("class B:", r"not below the line that its `@@` names \('class B:', line 6\)"),
        ("class C:", r"The line that its `@@` names is not in the file: 'class C:'"),
        ("class B:\n@@ class A:", r"is not in the file below the one before: 'class A:'"),
    ],
)
@pytest.mark.parametrize("tolerantly", [False, True])
def test_the_line_named_by_a_hunk_limits_its_place(named: str, match: str, tolerantly: bool) -> None:
    source = SOURCE.replace("start()", "stop()").replace("stop()", "start()", 1)
    lines = START_IN_A.replace("        ", "      ") if tolerantly else START_IN_A
    with pytest.raises(NoMatch, match=match):
        apply(source, BEGIN.format(f"@@ {named}\n{lines}+        pass\n"))


def test_a_hunk_heading_may_be_free_text_or_a_line_of_the_hunk() -> None:
    body = "-class A:\n+class C:\n"
    data, matches = apply(SOURCE, hunk(body, "@@ rename the first class"))
    assert data.decode() == SOURCE.replace("class A", "class C")
    assert matches[0].rung is MatchLevel.DOUBTFUL
    with pytest.raises(NoMatch, match="not below"):
        apply(SOURCE, hunk(body, "@@ class B:"))
    body = " \n class B:\n-    def run(self):\n+    def go(self):\n"
    data, (match,) = apply(SOURCE, hunk(body, "@@ class B:"))
    assert data.decode() == SOURCE.replace("class B:\n    def run", "class B:\n    def go")
    assert match.rung is MatchLevel.DOUBTFUL and "is in the hunk itself, at line 6" in match.note


def test_additions_without_context_are_appended_to_the_file() -> None:
    for source in ("a\nb\n", "a\nb"):
        data, matches = apply(source, BEGIN.format("@@\n+c\n+d\n@@\n+e\n"))
        assert data.decode() == source.replace("b", "b\nc\nd\ne")
        assert {match.rung for match in matches} == {MatchLevel.DOUBTFUL}
    data, matches = apply(SOURCE, BEGIN.format("@@ class A:\n+    x = 1\n"))
    assert data.decode() == SOURCE.replace("class A:\n", "class A:\n    x = 1\n")
    assert not matches[0].rung.is_exact
    with pytest.raises(NoMatch, match="is not in the file: 'class Z:'"):
        apply(SOURCE, BEGIN.format("@@ class Z:\n+    x = 1\n"))


def test_a_hunk_may_be_of_what_an_earlier_one_made_and_follow_one_added_at_the_end() -> None:
    assert apply("a\nb\nc\n", hunk("-a\n+x\n@@\n x\n-b\n+y\n"))[0] == b"x\ny\nc\n"
    with pytest.raises(NoMatch):
        apply("a\nz\n", hunk("-a\n+x  y\n z\n@@\n-x y\n+w\n"))
    data, _ = apply("a\nb\na\nc\n", BEGIN.format("@@\n a\n-b\n+x\n@@\n+end\n@@\n-a\n+y\n c\n"))
    assert data == b"a\nx\ny\nc\nend\n"


REPEATED = b"begin\nwork\nend\nx\nmid\ny\nbegin\nwork\nend\n"


def numbered_hunk(old_start: int) -> str:
    return f"@@ -{old_start},3 +{old_start},3 @@\n begin\n-work\n+WORK\n end\n"


def test_a_number_that_fits_wins_over_the_order_of_the_hunks() -> None:
    mid = "--- a/x\n+++ b/x\n@@ -4,3 +4,3 @@\n x\n-mid\n+MID\n y\n"
    data, matches = apply(REPEATED, mid + numbered_hunk(1))
    assert data == REPEATED.replace(b"mid", b"MID").replace(b"work", b"WORK", 1)
    assert matches[1].rung is MatchLevel.LINE_HINT
    data, matches = apply(REPEATED, mid + numbered_hunk(7))
    assert data == b"WORK".join(REPEATED.replace(b"mid", b"MID").rsplit(b"work", 1))
    assert matches[1].rung is MatchLevel.EXACT, "number and order agree"
    data, matches = apply(REPEATED, mid + numbered_hunk(5))
    assert data.endswith(b"begin\nWORK\nend\n")
    assert matches[1].rung is MatchLevel.DOUBTFUL, "the order alone places it"
    with pytest.raises(AmbiguousMatch):
        apply(REPEATED, mid.replace("4,3", "40,3") + numbered_hunk(5))
    data, _ = apply(REPEATED, f"--- a/x\n+++ b/x\n{numbered_hunk(1)}{numbered_hunk(1)}")
    assert data == REPEATED.replace(b"work", b"WORK"), "the same hunk twice is placed twice"


def test_a_hunk_that_is_already_applied_is_refused() -> None:
    one = "@@ -2,2 +2,3 @@\n work\n+more\n end\n"
    with pytest.raises(MalformedPatch, match="the same as a hunk before it"):
        apply("begin\nwork\nend\n", f"--- a/x\n+++ b/x\n{one}{one}")
    with pytest.raises(AlreadyApplied):
        apply("a\nx\nc\n", hunk(" a\n-b\n+x\n c\n"))


def test_a_last_line_without_newline_is_checked_by_gits_ids() -> None:
    """The patch makes `foo`, `bar` of `foo`; 3bd1f0e is git's id of that, 257cc56 of `foo`."""
    index = "index 257cc56..3bd1f0e 100644\n"
    patch = f"diff --git a/x b/x\n{index}--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n foo\n+bar"
    for text, rung in ((patch, MatchLevel.EXACT), (patch.replace(index, ""), MatchLevel.DOUBTFUL)):
        (file,) = parse_patch_text(text, is_complete=False)
        data, matches = apply_file_patch(Document(b"foo\n"), file)
        assert (data, matches[0].rung) == (b"foo\nbar\n", rung)
    (cut,) = parse_patch_text(patch[:-1], is_complete=False)
    with pytest.raises(MalformedPatch, match="cut off in its last line"):
        apply_file_patch(Document(b"foo\n"), cut)


def test_a_truncated_patch_is_doubtful_if_its_git_ids_differ() -> None:
    before, half, after = b"a\nb\nc\nd\n", b"a\nB\nc\nd\n", b"a\nB\nc\nD\n"
    head = f"diff --git a/x b/x\nindex {blob(before)[:7]}..{blob(after)[:7]} 100644\n--- a/x\n+++ b/x\n"
    first, second = "@@ -2 +2 @@\n-b\n+B\n", "@@ -4 +4 @@\n-d\n+D\n"
    assert apply(before, head + first + second) == (
        after,
        (EditMatch(rung=MatchLevel.EXACT, line=2), EditMatch(rung=MatchLevel.EXACT, line=4)),
    )
    data, (match,) = apply(before, head + first)
    assert (data, match.rung) == (half, MatchLevel.DOUBTFUL)
    assert "not what the patch's `index` line says" in match.note
    assert apply(b"x\n" + before, head + first)[1][0].rung is MatchLevel.EXACT


def test_a_new_file_has_only_inserted_lines_of_hunks_that_follow_one_another() -> None:
    first, second = "@@ -0,0 +1,2 @@\n+a\n+b\n", "@@ -0,0 +3 @@\n+c\n"
    head = "--- /dev/null\n+++ b/x\n"
    assert apply(b"", head + first + second)[0] == b"a\nb\nc\n"
    assert apply(b"", f"{head}{first}\\ No newline at end of file\n")[0] == b"a\nb"
    with pytest.raises(AlreadyApplied, match="exists"):
        apply(b"other\n", head + first)
    for wrong in (first + first, first + second.replace("-0,0", "-7,0"), second + first):
        with pytest.raises(MalformedPatch, match="not all of its hunks are of a new file"):
            apply(b"", head + wrong)
    for line in (" a", "-a"):
        with pytest.raises(MalformedPatch, match="lines that are not inserted"):
            apply(b"", f"{head}@@ -0,0 +1,2 @@\n{line}\n+b\n")


def test_a_body_below_a_missing_or_damaged_hunk_line_is_in_doubt() -> None:
    for before, patch in (
        (b"", "--- /dev/null\n+++ b/x\n+a\n"),
        (b"a\n", "--- a/x\n+++ b/x\n-a\n+b\n"),
        (b"a\n", "--- a/x\n+++ /dev/null\n-a\n"),
    ):
        (match,) = apply(before, patch)[1]
        assert (match.rung, match.note) == (MatchLevel.DOUBTFUL, "no `@@` line stands above it")
    for damaged in ("+@ -1,2 +1,2 @@", " @@ -1,2 +1,2 @@", "-@@-1 +1 @@"):
        there = damaged[1:] + "\n" if damaged[0] in " -" else ""
        (match,) = apply(f"{there}a\nb\n", hunk(" a\n-b\n+c\n", damaged))[1]
        assert (match.rung, match.note) == (MatchLevel.DOUBTFUL, "its first line looks like a damaged `@@` line")
    for header in (
        "@@x-1,2 +1,2 @@",
        "@@ \xff1,2 +1,2 @@",
        "@@ -1,2 +1,\xff @@",
        "@@  10000000000,0 +1,2 @@",
        "@@ -1,2 @@",
    ):
        for before, patch in (
            (b"a\nb\n", hunk(" a\n-b\n+c\n", header)),
            (b"", f"--- /dev/null\n+++ b/x\n{header}\n+a\n"),
        ):
            (match,) = apply(before, patch)[1]
            assert (match.rung, match.note) == (MatchLevel.DOUBTFUL, "the numbers in its `@@` line are damaged")
    for header in ("@@", "@@ ... @@", "@@ -X,Y +A,B @@", "@@ -1,? +1,? @@", "@@ a"):
        assert apply("a\n b\n", hunk("- b\n+ c\n", header))[1][0].rung is MatchLevel.EXACT, "it stands for numbers"


def test_a_hunk_that_counts_its_lines_wrongly_is_in_doubt() -> None:
    two = "@@ -1,9 +1,9 @@\n begin\n-work\n+WORK\n end\n x\n@@ -5,2 +5,2 @@\n-mid\n+MID\n y\n"
    data, matches = apply(REPEATED, f"--- a/x\n+++ b/x\n{two}")
    assert data == REPEATED.replace(b"mid", b"MID").replace(b"work", b"WORK", 1)
    assert [match.rung for match in matches] == [MatchLevel.DOUBTFUL, MatchLevel.EXACT]
    assert "states 9 old and 9 new lines, but has 4 and 4" in matches[0].note
    created = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,9 @@\n+a\n```\n"
    assert [match.rung for match in apply(b"", created)[1]] == [MatchLevel.DOUBTFUL]


def test_a_line_directly_below_a_hunk_belongs_to_it() -> None:
    with pytest.raises(EditRefused):
        apply("a\n", hunk("-a\n+b\n- one item\n", "@@ -1 +1 @@"))
    assert apply("a\n", hunk("-a\n+b\n\n- one item\n", "@@ -1 +1 @@"))[0] == b"b\n"


def test_changed_lines_that_look_like_headers_follow_the_counts() -> None:
    body = hunk("--- a\n+++ b\n", "@@ -1 +1 @@")
    for following in ("--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n", "-- \n2.47.3\n"):
        assert apply_file_patch(Document(b"-- a\n"), parse_patch_text(body + following)[0])[0] == b"++ b\n"


def test_a_patch_may_be_cut_off_in_the_mark_of_the_next_header() -> None:
    whole = hunk("-a\n+b\n", "@@ -1 +1 @@")
    data, (match,) = apply("a\n", whole + "--")
    assert (data, match.rung) == (b"b\n", MatchLevel.EXACT)
    with pytest.raises(MalformedPatch, match="belongs to no hunk"):
        parse_patch_text(whole + "--- a/y\n")


def test_text_between_hunks_is_ignored() -> None:
    for following in ("@@ -9 +9 @@\n-1\n+2\n", "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"):
        files = parse_patch_text(hunk("-a\n+b\n", "@@ -1 +1 @@") + "\nAnd then:\n\n- one item\n\n" + following)
        assert [len(part.lines) for file in files for part in file.hunks] == [2, 2]


def test_hunks_come_in_order_unless_they_name_their_places() -> None:
    two = "@@\n-class A:\n+class C:\n@@\n         start()\n-        return 1\n+        return 2\n"
    with pytest.raises(AmbiguousMatch, match="Hunk 2 of 2"):
        apply(SOURCE, "--- a/x\n+++ b/x\n" + two)
    later = "@@\n-class B:\n+class C:\n@@\n         start()\n-        return 1\n+        return 2\n"
    data, _ = apply(SOURCE, "--- a/x\n+++ b/x\n" + later)
    assert data.decode() == SOURCE.replace("B", "C")[:-2] + "2\n"
    one, other = (f"@@ class {name}:\n         start()\n-        return 1\n+        return {name}\n" for name in "AB")
    data, matches = apply(SOURCE, f"--- a/x\n+++ b/x\n{other}{one}")
    assert data.decode() == SOURCE.replace("1", "A", 1).replace("1", "B")
    assert all(match.rung is MatchLevel.EXACT for match in matches)


@pytest.mark.parametrize("trailing", ["", " "])
def test_a_place_that_only_the_order_of_the_hunks_chooses_is_in_doubt(trailing: str) -> None:
    """The second hunk may have been meant for the first class: the hunks need not be in the file's order."""
    second = f"         start(){trailing}\n-        return 1\n+        return 2\n"
    data, matches = apply(SOURCE, hunk(f"-class B:\n+class C:\n@@\n{second}"))
    assert data.decode() == SOURCE.replace("B", "C")[:-2] + "2\n"
    assert [match.rung for match in matches] == [MatchLevel.EXACT, MatchLevel.DOUBTFUL]
    assert "2 places, the only one after the hunk before" in matches[1].note


LIKE = """\
def first(item):
    check(item)

    store(item)
    return True

def second(item):
    check(item)
    store(item)
    return True
"""


@pytest.mark.parametrize("body", ["     check(item)\n     store(item)\n", "     check(item) \n     store(item)\n"])
@pytest.mark.parametrize(
    ("header", "certain"),
    [("@@", False), ("@@ -2,3 +2,3 @@", False), ("@@ -8,3 +8,3 @@", True), ("@@ def second(item):", True)],
)
def test_a_match_with_a_similar_place_in_white_space_is_doubtful(body: str, header: str, certain: bool) -> None:
    """The hunk may be of the first function, its blank line lost; a number or a line above tells."""
    data, (match,) = apply(LIKE, hunk(f"{body}-    return True\n+    return False\n", header))
    assert data.decode() == LIKE[: LIKE.rindex("True")] + "False\n"
    if certain and " \n" not in body:
        assert match == EditMatch(rung=MatchLevel.EXACT, line=8)
    elif not certain:
        assert match.rung is MatchLevel.DOUBTFUL
        assert match.note == "the lines from line 2 differ from it in white space alone"


def test_the_end_of_the_file_narrows() -> None:
    body = "-        return 1\n+        return 2\n"
    patch = f"*** Begin Patch\n*** Update File: x\n@@\n{body}*** End of File\n*** End Patch\n"
    assert apply(SOURCE, patch)[0].decode() == SOURCE[:-2] + "2\n"


def test_a_hunk_of_only_insertions_needs_a_place() -> None:
    with pytest.raises(NoMatch, match="does not show where"):
        apply(SOURCE, hunk("+new\n", "@@ -3,0 +4 @@"))
    with pytest.raises(NoMatch, match="does not show where"):
        apply(SOURCE, hunk("+new\n", "@@     def run(self):"))
    data, matches = apply(SOURCE, hunk("+    x = 1\n", "@@ class B:"))
    assert data.decode() == SOURCE.replace("class B:\n", "class B:\n    x = 1\n")
    assert not matches[0].rung.is_exact
    assert apply(b"", hunk("+new\n", "@@ -0,0 +1 @@"))[0] == b"new\n"
    at_end = "*** Begin Patch\n*** Update File: x\n@@\n+new\n*** End of File\n*** End Patch\n"
    assert apply(b"a\nb", at_end)[0] == b"a\nb\nnew"


def test_line_endings_and_marks_are_the_files_unless_the_patch_spells_them() -> None:
    assert apply(b"a\r\nb\r\nc\r\n", hunk(" a\n-b\n+x\n c\n"))[0] == b"a\r\nx\r\nc\r\n"
    assert apply(b"a\r\nb\r\nc\r\n", hunk(" a\r\n-b\r\n+b\n c\r\n", "@@ -1,3 +1,3 @@"))[0] == b"a\r\nb\nc\r\n"
    converted = hunk(" a\n-b\n+c\n+\n", "@@ -1,2 +1,3 @@").replace("\n", "\r\n")
    data, matches = apply("a\nb\n", converted)
    assert (data, matches[0].rung, matches[0].note) == (b"a\nc\n\n", MatchLevel.EXACT, "")
    assert apply(b"", "--- /dev/null\r\n+++ b/x\r\n@@ -0,0 +1 @@\r\n+a\r\n")[0] == b"a\n"
    mark = b"\xef\xbb\xbf"
    with_mark = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-" + mark + b"a\n+" + mark + b"b\n"
    assert apply(mark + b"a\n", with_mark)[0] == mark + b"b\n"
    assert apply(mark + b"a\n", hunk("-a\n+b\n"))[0] == mark + b"b\n"
    assert apply(mark + b"a\n", with_mark.replace(b"+" + mark, b"+"))[0] == b"b\n"


def test_the_final_newline_follows_the_patch_or_stays() -> None:
    marker = "\\ No newline at end of file\n"
    for source, body, expected in (
        (b"a\nb", " a\n-b\n+c\n", b"a\nc"),
        (b"a\nb", f" a\n-b\n{marker}+b\n", b"a\nb\n"),
        (b"a\nb\n", f" a\n-b\n+b\n{marker}", b"a\nb"),
        (b"a\nb\n", f" a\n-b\n{marker}+c\n{marker}", b"a\nc\n"),
        (b"a\nb\n", " a\n-b\n+c\n\\iff is a word\n", b"a\nc\n"),
        (b"a\nb", " a\n-b\n+c\n\\No newline at end of file\n", b"a\nc"),
    ):
        assert apply(source, hunk(body))[0] == expected
    data, matches = apply("a\nb\nc\n", hunk(f" a\n-b\n+d\n{marker} c\n", "@@ -1,3 +1,3 @@"))
    assert (data, matches[0].rung) == (b"a\ndc\n", MatchLevel.DOUBTFUL), "the marker is inside the file"
    data, matches = apply("a\nb", hunk(f" a\n-b\n{marker}+c\n{marker}", "@@ -1,2 +1,2 @@"))
    assert (data, matches[0].rung) == (b"a\nc", MatchLevel.EXACT)
    index = "diff --git a/x b/x\nindex 257cc56..1111111 100644\n"
    assert apply(b"foo\n", index + hunk(f"+bar\n{marker}", "@@ -0,0 +1 @@"))[0] == b"bar\nfoo\n"
    assert apply(b"", f"--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n{marker}+b\n")[0] == b"a\nb\n"


def test_tolerant_rungs_keep_the_files_lines() -> None:
    data, matches = apply("  a  \n  b\n  c\n", hunk(" a\n-b\n+x\n c\n"))
    assert data == b"  a  \n  x\n  c\n"
    assert matches[0].rung is MatchLevel.INDENTATION


def test_a_deletion_must_match_the_file_content() -> None:
    patch = "--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    assert parse_patch_text(patch)[0].op is FileOperation.DELETE
    assert apply(b"a\nb\n", patch)[0] == b""
    assert apply(b"a\r\nb", patch)[0] == b""
    with pytest.raises(NoMatch):
        apply(b"a\nb\nc\n", patch)
    header = "diff --git a/x b/x\ndeleted file mode 100644\n"
    assert apply(b"", header)[0] == b""
    with pytest.raises(MalformedPatch, match="cut off"):
        apply(b"a\n", header)
    assert apply(b"a\n", "*** Begin Patch\n*** Delete File: x\n*** End Patch\n")[0] == b""


def test_numbers_are_trusted_where_the_id_fits_and_do_not_contradict_each_other() -> None:
    """An insertion without context, and a choice among equal lines, are beyond doubt then."""
    assert matches_long_blob_id_prefix(b"foo\n", "257cc5642cb1a054f08cc83f2d943e56fd3ebe99")
    assert not matches_long_blob_id_prefix(b"foo\n", "257c")
    index = "diff --git a/x b/x\nindex 257cc56..3bd1f0e 100644\n"
    data, matches = apply(b"foo\n", index + hunk("+bar\n", "@@ -1,0 +2 @@"))
    assert (data, matches[0].rung) == (b"foo\nbar\n", MatchLevel.EXACT)
    with pytest.raises(EditRefused):
        apply(b"fox\n", index + hunk("+bar\n", "@@ -1,0 +2 @@"))
    for header in ("@@ -1,0 +1 @@", "@@ -0,0 +2 @@", "@@ -1,0 +9 @@"):
        with pytest.raises(NoMatch, match="does not show where"):
            apply(b"foo\n", index + hunk("+bar\n", header))
    twice = b"a\nb\na\n"
    index = f"diff --git a/x b/x\nindex {blob(twice)[:7]}..{blob(twice[:4] + b'c' + twice[5:])[:7]} 100644\n"
    data, matches = apply(twice, index + hunk("-a\n+c\n", "@@ -3 +3 @@"))
    assert (data, matches[0].rung, matches[0].note) == (b"a\nb\nc\n", MatchLevel.EXACT, "")
