"""What a change takes away that kept defects out: tests, asserts, checks that refuse; and tests that it skips."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose, is_test
from app.proposals.attention.literal_search import LiteralPattern
from app.proposals.attention.reason import Reason, ReasonKind
from app.proposals.models import Op

_TEST = LiteralPattern(
    r"\b(?:async )?def (?P<py>test\w*)|\bfunc (?P<go>(?:Test|Fuzz|Benchmark)\w+)\("
    r"|(?<![\w.])(?:it|test)(?:\.each\(.{0,80}\))?\(\s{0,4}[\"'`](?P<js>[^\"'`]{1,120})"
    r"|\b(?:void|fun) (?P<jvm>test\w+|should\w+)\(|^\s*it [\"'](?P<rb>[^\"']{1,120})|\bfn (?P<rs>test_\w+)\(",
    (
        *("def test", "async def test", "func Test", "func Fuzz", "func Benchmark", "it(", "it.each(", "test("),
        *("test.each(", "void test", "void should", "fun test", "fun should", "fn test_"),
    ),
    ("it '", 'it "'),
)
_ASSERT = LiteralPattern(
    r"\bassert\b|\bassert\w+!?\(|\bself\.(?:assert|fail)\w*\(|\bexpect\(|\bpytest\.raises\(|\brequire\.[A-Z]\w+\("
    r"|\bt\.(?:Error|Fatal)f?\(",
    ("assert", "self.assert", "self.fail", "expect(", "pytest.raises(", "require.", "t.Error", "t.Fatal"),
)
_GUARD = LiteralPattern(
    r"^[^\S\n]*raise\b|\bthrow\b|\bpanic!?\(|\bbail!\("
    r"|\breturn (?:\w+, )?(?:fmt\.Errorf|errors\.New|err\b)|\breturn Err\(",
    ("throw", "panic(", "panic!(", "bail!(", "return "),
    ("raise",),
)
_PASSED_ON = LiteralPattern(r"\breturn (?:.{1,80}, )?err\b|\bpanic\(err\)", ("return ", "panic(err)"))
"""Guards that hand on what a call said."""
_CALL = LiteralPattern(r"\berr\s*:?=\s*(?:[\w.]*\.)?(\w+)\(", ("err",))
_CALLED = re.compile(r"(\w+)\(")
_LINES_TO_CALL = 3
"""Between a call and what hands on its error, at most."""
_SKIP = LiteralPattern(
    r"\bpytest\.(?:mark\.)?(?:skip|xfail)|\bunittest\.(?:skip|expectedFailure)"
    r"|(?<![\w.])(?:it|test|describe)\.(?:skip|only|todo)\("
    r"|(?<![\w.])x(?:it|describe)\(|\bt\.Skip(?:f|Now)?\(|^[^\S\n]*#\[ignore|@(?:Disabled|Ignore)\b",
    (
        *("pytest.skip", "pytest.xfail", "pytest.mark.skip", "pytest.mark.xfail", "unittest.skip"),
        *("unittest.expectedFailure", "it.skip(", "it.only(", "it.todo(", "test.skip(", "test.only(", "test.todo("),
        *(
            "describe.skip(",
            "describe.only(",
            "describe.todo(",
            "xit(",
            "xdescribe(",
            "t.Skip",
            "@Disabled",
            "@Ignore",
        ),
    ),
    ("#[ignore",),
)

Added = Mapping[str, int]
"""How often each line, stripped, was added in all files of a proposal."""


def added_lines(files: Sequence[EditedFile]) -> Counter[str]:
    """What is not gone where a file loses it: it has moved, if that is to another file."""
    return Counter(text for file in files for line in file.added if len(text := line.text.strip()) > 2)


def removed_safeguards(file: EditedFile, added: Added, tests: frozenset[str]) -> Iterator[Reason]:
    """What the file has less of than before.

    Args:
        file: The one looked at.
        added: What was added in the whole proposal.
        tests: Names of the tests that were added in it.
    """
    if is_prose(file.path):
        return
    gone = []
    if is_test(file.path):
        gone = [(line, name) for line, name in named_tests(file.removed, file.removed_text) if name not in tests]
        if gone and len(gone) > (new := sum(1 for _ in named_tests(file.added, file.added_text))):
            # A test that got another name is still there: as many as are new are taken for those.
            gone = gone[: len(gone) - new] if new else gone
            yield file.reason(ReasonKind.TESTS, (line for line, _ in gone), (name for _, name in gone))
        else:
            gone = []
        yield from _skipped(file)
    if file.change.op is Op.DELETE:
        # Of a file that is gone nobody has to be told that its checks are.
        return
    if not is_test(file.path) and _GUARD.search(file.removed_text):
        yield from _fewer(file, ReasonKind.GUARDS, _GUARD, added, _gone_with_their_call(file))
    if not gone and _ASSERT.search(file.removed_text):
        yield from _fewer(file, ReasonKind.ASSERTS, _ASSERT, added)


def named_tests(lines: Sequence[Line], text: str) -> Iterator[tuple[Line, str]]:
    """The tests that begin on these lines, by name; `text` is all of the lines."""
    for line in lines if _TEST.search(text) else ():
        if found := _TEST.search(line.text):
            yield line, next(name for name in found.groups() if name)


def _skipped(file: EditedFile) -> Iterator[Reason]:
    if not _SKIP.search(file.added_text):
        return
    before = sum(1 for line in file.removed if _SKIP.search(line.text))
    after = [line for line in file.added_code if _SKIP.search(line.text)]
    if len(after) > before:
        yield file.reason(ReasonKind.SKIPPED, after[before:])


def _gone_with_their_call(file: EditedFile) -> set[int]:
    """The numbers of the removed lines that handed on the error of a call that is removed, too."""
    calls = {line.number: found[1] for line in file.removed_code if (found := _CALL.search(line.text))}
    if not calls:
        return set()
    near: dict[str, set[str]] = {}
    for line in file.added_code:
        near.setdefault(line.hunk, set()).update(_CALLED.findall(line.text))
    return {
        line.number
        for line in file.removed_code
        if _PASSED_ON.search(line.text)
        for number in range(line.number - _LINES_TO_CALL, line.number + 1)
        if number in calls and calls[number] not in near.get(line.hunk, ())
    }


def _fewer(
    file: EditedFile,
    kind: ReasonKind,
    pattern: LiteralPattern,
    added: Added,
    but: Collection[int] = (),
) -> Iterator[Reason]:
    """The lines of a kind that were removed where fewer came in their stead, and that did not move elsewhere.

    Those with the numbers of `but` had to go.
    """
    removed = [line for line in file.removed_code if pattern.search(line.text) and line.number not in but]
    kept = {line.number for line in file.removed if added.get(line.text.strip())}
    new = file.added_code if pattern.search(file.added_text) else ()
    in_stead = Counter(line.hunk for line in new if pattern.search(line.text))
    gone: list[Line] = []
    for line in removed:
        if line.number in kept:
            continue
        if in_stead[line.hunk]:
            in_stead[line.hunk] -= 1
        else:
            gone.append(line)
    if gone:
        yield file.reason(kind, gone)
