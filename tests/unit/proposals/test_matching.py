"""Search/replace edits: found by the right rung, or refused with what a second try needs."""

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.locate.matching import TextReplacement, apply_replacements
from app.proposals.text.document import Document
from app.proposals.values.models import EditMatch, MatchLevel
from app.proposals.values.proposal_errors import (
    MESSAGE_LIMIT,
    AlreadyApplied,
    AmbiguousMatch,
    EditRefused,
    ElidedText,
    NoMatch,
    NotEditable,
    PointlessEdit,
)

SOURCE = """\
import os
import sys


class Store:
    def load(self, path):
        with open(path) as handle:
            data = handle.read()
        return data

    def save(self, path, data):
        with open(path, "w") as handle:
            handle.write(data)
        return data
"""
LOAD = (
    "    def load(self, path):",
    "        with open(path) as handle:",
    "            data = handle.read()",
    "        return data",
)
STEPS = "".join(f"step_{number} = {number * number}\n" for number in range(8))


def block(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def apply(source: str | bytes, *edits: TextReplacement) -> tuple[bytes, tuple[EditMatch, ...]]:
    return apply_replacements(Document(source.encode() if isinstance(source, str) else source), edits)


def edit(source: str, old: str, new: str, **options: object) -> tuple[str, EditMatch]:
    data, matches = apply(source, TextReplacement(old, new, **options))  # type: ignore[arg-type]
    return data.decode(), matches[0]


def changed(source: str, before: str, after: str) -> str:
    assert source.count(before) == 1
    return source.replace(before, after)


class TestExact:
    def test_parts_of_a_line_and_whole_lines(self) -> None:
        result, match = edit(SOURCE, "handle.read()", "handle.read().strip()")
        assert result == changed(SOURCE, "handle.read()", "handle.read().strip()")
        assert (match.rung, match.line) == (MatchLevel.EXACT, 8)
        result, match = edit(SOURCE, "import os\nimport sys\n", "import sys\n")
        assert result == changed(SOURCE, "import os\n", "")
        assert match.rung is MatchLevel.EXACT

    def test_a_newline_at_one_end_joins_no_lines(self) -> None:
        for old, new, expected in (
            ("b\n", "x", "a\nx\nc\n"),
            ("b", "x\n", "a\nx\nc\n"),
            ("b\n", "x\n", "a\nx\nc\n"),
            ("b", "", "a\nc\n"),
            ("b\n", "", "a\nc\n"),
            ("b", "\n", "a\n\nc\n"),
            ("b", "b\n", "a\nb\n\nc\n"),
            ("\nb\n", "\n", "a\nc\n"),
            ("a\nb", "a", "a\nc\n"),
        ):
            assert edit("a\nb\nc\n", old, new)[0] == expected, (old, new)
        assert edit("if x:\n    foo()\n    bar()\n", "bar()", "")[0] == "if x:\n    foo()\n"
        assert edit("a = 1  # one\nb = 2\n", "  # one\n", "")[0] == "a = 1\nb = 2\n"

    def test_a_word_is_not_found_inside_a_longer_one(self) -> None:
        with pytest.raises(AmbiguousMatch, match=r"longer word or number \(line 1\)"):
            edit("timeout=30\n", "timeout=3", "timeout=5")
        assert edit("timeout=30\n", "timeout=3", "timeout=5", inside_words=True)[0] == "timeout=50\n"
        for source in ("id = valid\n", "id = 1\nvalid = 2\n"):
            with pytest.raises(AmbiguousMatch, match="occurs 2 times, 1 inside longer words"):
                edit(source, "id", "uid")

    def test_a_line_hint_never_chooses_the_inside_of_a_word(self) -> None:
        source = "id = 1\n" + "x\n" * 20 + "valid = 2\n"
        assert edit(source, "id", "uid", line=1)[0] == "u" + source
        with pytest.raises(AmbiguousMatch, match=r"longer word or number \(line 22\)"):
            edit(source, "id", "uid", line=22)

    def test_several_places_are_refused_with_lines_and_context(self) -> None:
        with pytest.raises(AmbiguousMatch, match=r"2 times[\s\S]*lines 9, 14") as caught:
            edit(SOURCE, "        return data", "        return None")
        assert "     8|            data = handle.read()" in caught.value.message

    def test_replace_all_skips_longer_words_unless_asked(self) -> None:
        source = "id = width(id)\nvalid = 1\nid\n"
        data, matches = apply(source, TextReplacement("id", "key", replace_all=True))
        assert data == b"key = width(key)\nvalid = 1\nkey\n"
        skipped = "2 more inside longer words left as they are"
        assert [(match.line, match.note) for match in matches] == [(1, skipped), (1, ""), (3, "")]
        data, _ = apply(source, TextReplacement("id", "key", replace_all=True, inside_words=True))
        assert data == b"key = wkeyth(key)\nvalkey = 1\nkey\n"
        with pytest.raises(AmbiguousMatch, match="inside_words"):
            edit("width\n", "id", "key", replace_all=True)

    @given(st.text("id wx\n", max_size=40))
    def test_replace_all_is_a_substitution_of_whole_words(self, source: str) -> None:
        whole = re.sub(r"(?<!\w)id(?!\w)", "key", source)
        if whole == source:
            return
        assert edit(source, "id", "key", replace_all=True)[0] == whole

    def test_a_line_hint_chooses_among_exact_places_and_says_so(self) -> None:
        result, match = edit(SOURCE, "        return data", "        return None", line=13)
        assert result.endswith("        return None\n")
        assert (match.rung, match.line) == (MatchLevel.LINE_HINT, 14)
        assert "2 places" in match.note
        assert not match.rung.is_exact
        with pytest.raises(AmbiguousMatch):
            edit(SOURCE, "        return data", "        return None", line=11)

    def test_a_stripped_line_that_becomes_several_needs_its_indentation(self) -> None:
        with pytest.raises(PointlessEdit, match="indentation"):
            edit(SOURCE, "data = handle.read()", "data = handle.read()\ndata = data.strip()")


class TestLikePlaces:
    """Text that stands exactly once, while another place differs from it in white space alone."""

    TWICE = "def one():\n    check()\n\n    go()\n\ndef two():\n    check()\n    go()\n\ndef three():\n\tgo()\n"

    def test_match_among_similar_places_is_doubtful(self) -> None:
        for old, line, other in (
            ("    check()\n    go()\n", 7, 2),
            ("    check()\n\n    go()\n", 2, 7),
            ("\tgo()\n", 11, 4),
            ("):\n    check()\n    go()", 6, None),
        ):
            result, match = edit(self.TWICE, old, old.replace("go", "run"))
            assert result == changed(self.TWICE, old, old.replace("go", "run"))
            assert match.line == line
            assert match.rung is (MatchLevel.DOUBTFUL if other else MatchLevel.EXACT)
            assert match.note == (f"the lines from line {other} differ from it in white space alone" if other else "")
        _, match = edit(self.TWICE, "    check() \n    go()\n", "    check()\n    run()\n")
        assert (match.line, match.rung) == (7, MatchLevel.DOUBTFUL)
        assert edit("a\n\nb\nc\n\n\nd\n", "\n\n\n", "\n\n")[1].rung is MatchLevel.EXACT

    def test_a_line_number_can_resolve_the_ambiguity(self) -> None:
        for hint, rung in ((7, "EXACT"), (8, "EXACT"), (3, "DOUBTFUL"), (5, "DOUBTFUL")):
            _, match = edit(self.TWICE, "    check()\n    go()\n", "    go()\n", line=hint)
            assert (match.line, match.rung) == (7, MatchLevel[rung])


class TestEndings:
    def test_new_lines_are_given_the_files_endings_and_others_keep_theirs(self) -> None:
        data, _ = apply(b"a\r\nb\r\nc\r\n", TextReplacement("a\nb\n", "a\nx\ny\n"))
        assert data == b"a\r\nx\r\ny\r\nc\r\n"
        data, _ = apply(b"a\r\nb\nc\r\n", TextReplacement("b", "x"))
        assert data == b"a\r\nx\nc\r\n"

    def test_a_missing_final_newline_stays_missing_unless_requested(self) -> None:
        assert apply(b"a\nb", TextReplacement("b", "x"))[0] == b"a\nx"
        assert apply(b"a\nb", TextReplacement("b\n", "b\nc\n"))[0] == b"a\nb\nc"
        assert apply(b"a\r\nb", TextReplacement("b", "b\nc"))[0] == b"a\r\nb\r\nc"
        assert apply(b"a\nb", TextReplacement("b", "b\n"))[0] == b"a\nb\n"
        assert apply(b"a\nb\r\nc", TextReplacement("c", "c\n"))[0] == b"a\nb\r\nc\r\n"
        assert apply(b"x\n\na", TextReplacement("\na", "bc\n\n"))[0] == b"x\nbc\n"

    def test_other_encodings_keep_their_bytes(self) -> None:
        mark = b"\xef\xbb\xbf"
        assert apply(mark + b"a\nb\n", TextReplacement("a\n", "x\na\n"))[0] == mark + b"x\na\nb\n"
        assert apply(mark + b"a\nb\n", TextReplacement("a\n", ""))[0] == mark + b"b\n"
        data = b"\xff\xfe" + "zwei ß\r\nдва\r\n".encode("utf-16-le")
        result, _ = apply(data, TextReplacement("ß", "ss"))
        assert result == b"\xff\xfe" + "zwei ss\r\nдва\r\n".encode("utf-16-le")
        assert apply(b"caf\xe9\nb\n", TextReplacement("b", "c"))[0] == b"caf\xe9\nc\n"
        with pytest.raises(NotEditable):
            apply(b"caf\xe9\nb\n", TextReplacement("b", "ß"))
        assert apply("a\x0cb\u2028c\nd\n", TextReplacement("b\u2028c", "x"))[0] == b"a\x0cx\nd\n"
        with pytest.raises(NotEditable, match="binary"):
            apply(b"a\0b", TextReplacement("a", "b"))


class TestTolerantRungs:
    def test_trailing_space_spacing_and_lookalike_marks(self) -> None:
        result, match = edit("a  \nb\t\nc\n", "a\nb\nc", "a\nx\nc")
        assert (result, match.rung) == ("a  \nx\nc\n", MatchLevel.TRAILING_SPACE)
        result, match = edit("def f():\n    ...  \n", "def f():\n    ...\n", "def g():\n    ...\n")
        assert (result, match.rung) == ("def g():\n    ...  \n", MatchLevel.TRAILING_SPACE)
        source = "x = 'it\u2019s'\ny  =  1\nz\n"
        result, match = edit(source, "x = 'it's'\ny = 1\nz", "x = 'it's'\ny = 2\nz")
        assert (result, match.rung) == ("x = 'it\u2019s'\ny = 2\nz\n", MatchLevel.SPACING)

    def test_indentation_is_shifted_for_new_lines(self) -> None:
        old = "def load(self, path):\n    with open(path) as handle:\n        data = handle.read()\n"
        result, match = edit(SOURCE, old, old + "        data = data.strip()\n")
        assert match.rung is MatchLevel.INDENTATION
        assert result == changed(
            SOURCE,
            "            data = handle.read()\n",
            "            data = handle.read()\n            data = data.strip()\n",
        )

    def test_indentation_is_reduced_and_spaces_become_the_files_tabs(self) -> None:
        result, match = edit("if a:\n  b\nc\n", "    if a:\n      b\n", "    if a:\n      x\n")
        assert (result, match.rung) == ("if a:\n  x\nc\n", MatchLevel.INDENTATION)
        result, match = edit(
            "f {\n\tif a {\n\t\tb\n\t}\n}\n", "    if a {\n        b\n", "    if a {\n        b\n        c\n"
        )
        assert (result, match.rung) == ("f {\n\tif a {\n\t\tb\n\t\tc\n\t}\n}\n", MatchLevel.INDENTATION)
        with pytest.raises(NoMatch):
            edit("if a:\n    b\n    c\n", "if a:\n  b\n   c\n", "if a:\n  b\n")

    def test_a_context_line_may_differ_and_keeps_its_text(self) -> None:
        old = block(LOAD).replace("handle:", "handler:")
        result, match = edit(SOURCE, old, old.replace("return data", "return data or None"))
        assert match.rung is MatchLevel.ALIGNED
        assert result == SOURCE.replace("        return data\n", "        return data or None\n", 1)

    @pytest.mark.parametrize(
        ("source", "old", "new", "message"),
        [
            (STEPS, changed(STEPS, "step_0 = 0", "other"), STEPS.replace("16", "17"), "neither exactly nor"),
            (STEPS, changed(STEPS, "step_7 = 49", "other"), STEPS.replace("16", "17"), "neither exactly nor"),
            (
                "    a()\n    b()\n",
                "        a()\n        b()\n",
                "        a()\n  c()\n        b()\n",
                r"less than the difference: 'c\(\)'",
            ),
            (
                "if a:\n  b\nc\n",
                "    if a:\n      b\n",
                "    if a:\n  x\n      b\n",
                "found at a smaller indentation than given, and a new line has less",
            ),
            (
                "first = compute(one)\n\nsecond = 2\n",
                "first = computed(one)\n\nsecond = 2\n",
                "first = computed(one)\n\nsecond = 3\n",
                "neither exactly nor",
            ),
            (
                SOURCE,
                "    # loads what was saved before\n" + block(LOAD),
                "    # loads what was saved before\n" + block(LOAD).replace("return data", "return None"),
                "neither exactly nor",
            ),
        ],
    )
    def test_a_block_that_differs_too_much_is_refused(self, source: str, old: str, new: str, message: str) -> None:
        with pytest.raises(NoMatch, match=message):
            edit(source, old, new)

    def test_replace_all_is_exact_only(self) -> None:
        with pytest.raises(NoMatch, match="replace_all needs the exact text"):
            edit("  a\n  b\n", "a\nb\n", "x\n", replace_all=True)

    def test_a_block_is_aligned_up_to_a_length(self) -> None:
        lines = [f"step_{number} = {number * number}\n" for number in range(301)]
        old = "".join([*lines[:9], lines[9].replace("step", "stop"), *lines[10:]])
        with pytest.raises(NoMatch):
            edit("".join(lines), old, old.replace("step_4 = 16", "step_4 = 17"))
        shorter = old.removesuffix(lines[300])
        _, match = edit("".join(lines), shorter, shorter.replace("step_4 = 16", "step_4 = 17"))
        assert match.rung is MatchLevel.ALIGNED

    def test_a_removed_line_may_not_differ(self) -> None:
        old = block(LOAD).replace("data = ", "dada = ")
        with pytest.raises(NoMatch) as caught:
            edit(SOURCE, old, old.replace("dada = handle.read()", "data = handle.readline()"))
        assert "given: ············dada = handle.read()" in caught.value.message
        assert "file:  ············data = handle.read()" in caught.value.message

    @pytest.mark.parametrize("at", range(5))
    def test_no_line_is_inserted_next_to_an_inexact_match(self, at: int) -> None:
        lines = [f"    {name}_value = compute({name})\n" for name in ("first", "second", "third", "fourth")]
        differing = [line.replace("compute", "computed") if n == 1 else line for n, line in enumerate(lines)]
        old, new = "".join(differing), "".join([*differing[:at], "    new = 1\n", *differing[at:]])
        if at in (1, 2):
            with pytest.raises(NoMatch, match="just where new lines would go"):
                edit("".join(lines), old, new)
        else:
            result, match = edit("".join(lines), old, new)
            assert match.rung is MatchLevel.ALIGNED
            assert result == "".join([*lines[:at], "    new = 1\n", *lines[at:]])

    @pytest.mark.parametrize("there", ["    total = count_items(frst)\n", ""])
    def test_a_removed_line_must_match_at_its_own_place(self, there: str) -> None:
        removed = "    total = count_items(first)\n"
        head, tail = "def a(first):\n    one = 1\n    two = 2\n", "    three = 3\n    four = 4\n    return four\n"
        source = f"{head}{there}{tail}\n\ndef b(first):\n{removed}"
        with pytest.raises(NoMatch, match="neither exactly nor"):
            edit(source, head + removed + tail, head + tail.replace("four", "4"))

    def test_tolerant_places_are_not_chosen_among(self) -> None:
        with pytest.raises(AmbiguousMatch, match="lines 1, 3"):
            edit("a \nb\na \nb\n", "a\nb", "x\nb")
        with pytest.raises(AmbiguousMatch):
            edit("  a\n  b\n\n  a\n  b\n\n a\n b\n", "a\nb\n", "x\nb\n")


class TestAlreadyApplied:
    def test_text_that_is_already_there_is_not_inserted_again(self) -> None:
        with pytest.raises(AlreadyApplied, match="line 1"):
            edit("import ast\nimport sys\n", "import os\nimport sys\n", "import ast\nimport sys\n")
        with pytest.raises(AlreadyApplied, match="line 2"):
            edit(SOURCE, "import os\n", "import os\nimport sys\n")

    def test_a_single_existing_line_does_not_count_as_already_applied(self) -> None:
        with pytest.raises(NoMatch):
            edit(SOURCE, "nothing_like_it()", "        return data")
        assert edit("a \nb\nx\n", "a\nb", "x")[0] == "x\nx\n"
        assert edit("a\n\nb\n", "b", "\nb")[0] == "a\n\n\nb\n"


class TestMalformed:
    def test_empty_old_fills_an_empty_file_only(self) -> None:
        assert apply(b"", TextReplacement("", "a\nb"))[0] == b"a\nb"
        with pytest.raises(PointlessEdit, match="both empty"):
            apply(b"", TextReplacement("", ""))
        with pytest.raises(NoMatch, match=r"The file is empty\."):
            apply(b"", TextReplacement("x\ny", "z"))
        with pytest.raises(PointlessEdit, match="old is empty"):
            edit("a\n", "", "b")
        with pytest.raises(PointlessEdit, match="both empty"):
            edit("", "", "")

    def test_a_call_changes_something(self) -> None:
        with pytest.raises(PointlessEdit, match="no edit in the call"):
            apply("a\n")
        with pytest.raises(PointlessEdit, match="same"):
            edit("a\n", "a", "a")
        with pytest.raises(NoMatch, match="only blank lines"):
            edit("a\n\nb\n", "\n\n\n\n", "\n")

    def test_half_of_a_character(self) -> None:
        with pytest.raises(NotEditable, match="half of a surrogate pair"):
            edit("a\n", "a", "\ud83d")
        assert apply(b"caf\xe9\nx\n", TextReplacement("x", "\udce9"))[0] == b"caf\xe9\n\xe9\n"

    def test_elided_old(self) -> None:
        with pytest.raises(ElidedText, match=r"'\.\.\.'"):
            edit(SOURCE, "class Store:\n    ...\n        return data\n", "class Store:\n    pass\n")

    def test_elided_new(self) -> None:
        for line in (
            "    # ... existing code ...",
            "    // rest of the function unchanged",
            "    /* ... */",
            "# ... remaining code",
        ):
            with pytest.raises(ElidedText):
                edit(SOURCE, "import os\nimport sys\n", f"import os\n{line}\n")

    def test_a_comment_that_is_no_elision_is_kept(self) -> None:
        for line in ("    ...", "x = [...]", "# and so on ...", "# the rest is easy", "..."):
            assert edit(SOURCE, "import os\n", f"import ast\n{line}\n")[0].startswith(f"import ast\n{line}\n")


class TestSeveralEdits:
    @pytest.mark.parametrize(
        ("source", "pairs", "expected", "lines"),
        [
            pytest.param("a\nb\nc\n", [("c", "a"), ("a", "c")], "c\nb\na\n", [3, 1], id="found in the original"),
            pytest.param("a\nb\n", [("a", "x"), ("x\nb", "x\ny")], "x\ny\n", [1, 1], id="text of an earlier one"),
            pytest.param("f(a, b)\n", [("a", "x"), ("b", "y")], "f(x, y)\n", [1, 1], id="one line"),
            pytest.param("a\nb\nc\nd\n", [("a\nb", "x\nb"), ("b\nc", "b\ny")], "x\nb\ny\nd\n", [1, 2], id="context"),
        ],
    )
    def test_all_are_made(self, source: str, pairs: list[tuple[str, str]], expected: str, lines: list[int]) -> None:
        data, matches = apply(source, *itertools.starmap(TextReplacement, pairs))
        assert (data.decode(), [match.line for match in matches]) == (expected, lines)

    @pytest.mark.parametrize(
        ("source", "pairs", "error", "message"),
        [
            (
                "a\nb\n",
                [("a", "    foo(1)\n    bar(2)\n    baz(3)"), ("foo(1)\nbar(2)\nbaz(3)", "foo(1)\nbar(3)\nbaz(3)")],
                NoMatch,
                r"^Edit 2 of 2.*neither exactly nor",
            ),
            ("a\nb\n", [("a", "x"), ("nothing like it", "y")], NoMatch, r"^Edit 2 of 2 \(none was made\)"),
            ("a\nb\n", [("a", "x  "), ("x\nb", "x\ny")], NoMatch, "not in the file"),
            ("a\nb\na\n", [("a\nb", "c\nb"), ("a", "z")], AmbiguousMatch, r"^Edit 2 of 2 .*occurs 2 times"),
            ("a\nb\n", [("nothing like it", "y")], NoMatch, r"^The text to replace"),
            ("a\nb\n", [("a", "x"), ("x", "a")], PointlessEdit, "leave the file as it is"),
        ],
    )
    def test_none_is_made_if_one_is_refused(
        self, source: str, pairs: list[tuple[str, str]], error: type[EditRefused], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            apply(source, *itertools.starmap(TextReplacement, pairs))


class TestRefusals:
    def test_the_nearest_text_is_shown(self) -> None:
        with pytest.raises(NoMatch) as caught:
            edit(SOURCE, "    def load(self, name):\n        with gzip.open(name) as handle:\n", "    pass\n")
        message = caught.value.message
        assert "from line 6" in message
        assert "     6|    def load(self, path):" in message

    def test_no_message_is_over_the_limit(self) -> None:
        source = "".join(f"{'é' * 400} {number % 3}\n" for number in range(60))
        with pytest.raises(AmbiguousMatch) as caught:
            edit(source, "é" * 400 + " 1\n", "x\n")
        assert len(caught.value.message.encode()) <= MESSAGE_LIMIT

    def test_a_line_of_a_megabyte(self) -> None:
        source = "x = 1\n" + "a b " * 250_000 + "\ny = 2\n"
        assert edit(source, "y = 2", "y = 3")[0].endswith("y = 3\n")
        with pytest.raises(NoMatch):
            edit(source, "y = 2\nz = 4\nu = 5\n", "y = 3\n")
