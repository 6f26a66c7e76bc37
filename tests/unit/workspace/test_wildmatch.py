"""Patterns mean what they mean to git, and no pattern takes forever."""

import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.base.contract import ToolError
from app.tools.search.list_files import compile_path_matcher
from app.workspace import ignore
from app.workspace.ignore import FolderIgnorePatterns, compile_ignore_patterns, is_entry_itself_ignored
from app.workspace.wildmatch import ignore_rule_regex, parse_ignore_rule

PLAIN = r"""
a b ab c . ! # / / ? * ** *** **/ /** \ \* \a \/ [ab] [!a] [^b] [a-c] [b-a] []a] [a [a-] [-a] [\]] [a/b] [!/]
é [--0] [a-\c] [[-a] [[:alpha:]] [[:digit:]x] [[:bad:]] [[:a] [[:] [!]a] [\ [a-\
"""
PIECES = [*PLAIN.split(), " ", "\\ "]
PATTERN = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
PATTERNS = st.lists(PATTERN, min_size=1, max_size=4)
SIGNED = st.lists(st.builds("{}{}".format, st.sampled_from(["", "!"]), PATTERN), min_size=4, max_size=24)
"""Patterns that ignore, and about as many that take back."""
NAMES = ["a", "é", "b", "c", "ab", "abc", "*", "\\", "[a", "d.c", "a b", "!a", "#", "-", "x.", "a ", "]", "a]", "3"]
PATHS = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=30, unique=True
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def ignored_by_git(repository: Path, patterns: Sequence[str], paths: Sequence[str]) -> set[str]:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    done = subprocess.run(
        ["git", "-C", str(repository), "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(filter(None, done.stdout.split("\0")))


def ignored_by_us(patterns: Sequence[str], path: str) -> bool:
    rules = (FolderIgnorePatterns(compile_ignore_patterns("\n".join(patterns))),)
    names = path.split("/")
    return any(
        is_entry_itself_ignored(rules, "/".join(names[:end]), names[end - 1], end < len(names))
        for end in range(1, len(names) + 1)
    )


@given(patterns=PATTERNS | SIGNED, paths=PATHS, batch=st.sampled_from([1, 40_000]))
def test_git_agrees(repository: Path, patterns: list[str], paths: list[str], batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ignore, "_MAX_BATCH_CHARACTERS", batch)
        compile_ignore_patterns.cache_clear()
        ours = {path for path in paths if ignored_by_us(patterns, path)}
    assert ours == ignored_by_git(repository, patterns, paths)


@pytest.mark.parametrize("batch", [1, 20, 40_000])
def test_the_last_match_decides_among_patterns_that_are_alike(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(ignore, "_MAX_BATCH_CHARACTERS", batch)
    compile_ignore_patterns.cache_clear()
    patterns = ["a?c", "!a*c", "ab?c", "!ab[x]c", "a[y]*c"]
    ignored = {path for path in ("abc", "abbc", "abxc", "ayc", "ac") if ignored_by_us(patterns, path)}
    assert ignored == {"abbc", "ayc"}


def test_rare_ignore_patterns_match_like_in_git() -> None:
    for pattern, path, hidden in (
        ("#a", "#a", False),
        ("[!a]", "b", True),
        ("[!a]", "a", False),
        ("x[!a]b", "x/b", False),
        ("[a-\\", "a", False),
        ("[[:alpha:", "a", False),
        ("[xa:]", "a", True),
        ("[[:alpha:x", "a", False),
        ("[[:a]", ":", True),
        ("?", "é", False),
        ("[!a]?é", "éé", True),
    ):
        assert ignored_by_us([pattern], path) is hidden, pattern


HOSTILE = [
    ("*a*a*a*a*a*a*a*a*ab", "a" * 60),
    ("*a" * 100 + "b", "a" * 255),
    ("x/" + "*a" * 100 + "b", "x/" + "a" * 250),
    ("**/a" * 50 + "/b", "a/" * 100 + "a"),
    ("**/" + "a/*/" * 100 + "b", "a/" * 100 + "a"),
    ("**/" + "*a*/" * 100 + "b", "a/" * 100 + "a"),
    ("**/*a*a" * 100 + "/b", ("a" * 200 + "/") * 15 + "a"),
    ("*?" * 100 + "b", "a" * 255),
    ("*[a-z]" * 100 + "0", "a" * 255),
    ("[" * 500, "[" * 255),
    ("**/" * 1000 + "b", "a/" * 100 + "a"),
]
"""Each takes a matcher that tries all possibilities longer than the world will last: such a test would not end."""


@pytest.mark.parametrize(("pattern", "path"), HOSTILE, ids=range(len(HOSTILE)))
def test_no_pattern_takes_forever(pattern: str, path: str) -> None:
    assert not ignored_by_us([pattern], path)
    with suppress(ToolError):
        assert not compile_path_matcher(pattern)(path)


@given(st.text(alphabet="ab*?/[]!\\", max_size=60), st.text(alphabet="ab/", max_size=200))
def test_every_line_makes_an_expression_or_none(line: str, path: str) -> None:
    rule = parse_ignore_rule(line)
    if rule is not None and (translated := ignore_rule_regex(rule)) is not None:
        re.compile(translated, re.DOTALL).fullmatch(path)
