"""What is asked of ripgrep, and what is made of each of its answers: recorded ones, played by a stand-in."""

import re
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.search import ripgrep_filter
from app.tools.search.ripgrep_filter import RipgrepFileFilter, find_required_texts, find_ripgrep
from tests.unit.tools.ripgrep_stand_in import calls, environment, never_end, play

PATHS = ["b", "d/e f", "a.py", "caf\udce9"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "it's here"
    folder.mkdir()
    return folder / "rg"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def sieve(program: Path, root: Path, *texts: str, fold: bool = False) -> RipgrepFileFilter:
    return RipgrepFileFilter(str(program), root, texts or ("needle",), ignore_case=fold)


@pytest.mark.parametrize(
    ("output", "status", "passed"),
    [
        pytest.param(b"caf\xe9\0a.py\0d/e f\0", 0, ["d/e f", "a.py", "caf\udce9"], id="some, in the order asked"),
        pytest.param(b"", 1, [], id="none"),
        pytest.param(b"", 2, PATHS, id="an expression that it can't read"),
        pytest.param(b"a.py\0", 2, PATHS, id="a file that it couldn't open"),
        pytest.param(b"", 139, PATHS, id="it crashed"),
        pytest.param(b"a.py\0../other\0", 0, ["a.py"], id="a file that was not asked about"),
    ],
)
def test_each_output_of_ripgrep_is_handled(
    program: Path, root: Path, output: bytes, status: int, passed: list[str]
) -> None:
    assert sieve(play(program, output, status), root).filter_paths(PATHS) == passed
    assert [call[call.index("--") + 1 :] for call in calls(program)] == [PATHS]


def test_without_ripgrep_all_files_pass(program: Path, root: Path) -> None:
    assert sieve(program, root).filter_paths(PATHS) == PATHS


@pytest.mark.parametrize("fold", [True, False])
def test_ripgrep_gets_texts_as_texts_and_no_configuration_or_key(
    program: Path, root: Path, monkeypatch: pytest.MonkeyPatch, fold: bool
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/etc/ripgreprc")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    sieve(play(program, b"", 1), root, "--pre=r.", "b", fold=fold).filter_paths(["-a"])
    ((*options, name, text, also, other, end, path),) = calls(program)
    assert (name, text, also, other) == ("--regexp", r"\x2d\x2dpre\x3dr\x2e", "--regexp", "b")
    assert (end, path) == ("--", "-a")
    assert options[-1] == ("--ignore-case" if fold else "--case-sensitive")
    assert {"--no-config", "--no-pre", "--no-search-zip"} <= {*options}
    assert not {"RIPGREP_CONFIG_PATH", "OPENAI_API_KEY", "HOME"} & environment(program)


def test_very_many_files_are_asked_about_in_parts(program: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep_filter, "_MAX_ARGUMENT_BYTES", 100)
    paths = [f"folder/file{number}.py" for number in range(20)]
    output = "".join(f"{path}\0" for path in paths[::3]).encode()
    assert sieve(play(program, output, 0), root).filter_paths(paths) == paths[::3]
    asked = [call[call.index("--") + 1 :] for call in calls(program)]
    assert [path for part in asked for path in part] == paths
    assert all(sum(len(path) + 1 for path in part) <= 100 for part in asked)
    assert len(asked) < 6


def test_a_stop_ends_it_and_pending_parts(program: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep_filter, "_MAX_ARGUMENT_BYTES", 10)
    search = sieve(never_end(program), root)
    asking = threading.Thread(target=search.filter_paths, args=(PATHS,))
    asking.start()
    while not program.with_suffix(".environment").exists():
        asking.join(0.01)
    search.stop()
    asking.join(30)
    assert not asking.is_alive()
    assert len(calls(program)) == 1


def test_a_stop_during_the_start_ends_it(program: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = sieve(never_end(program), root)
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        process = start(*arguments, **options)
        search.stop()
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    asking = threading.Thread(target=search.filter_paths, args=(PATHS,), daemon=True)
    asking.start()
    asking.join(30)
    assert not asking.is_alive()


def test_ripgrep_is_found_on_the_path_but_not_in_the_workspace(
    program: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_ripgrep(root) is None
    play(program, b"", 1)
    assert find_ripgrep(root) == str(program)
    assert find_ripgrep(program.parent) is None
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", ".")
    assert find_ripgrep(root) is None


PARTS = [
    *("a", "b", "i", "S", ".", r"\.", r"\w", r"\x61", r"\141", r"\N{LATIN SMALL LETTER A}", r"\b", "^", "$", " "),
    *("[ab]", "[^a]", "[]b]", "[^]b]", r"[\]b]", "[[b]", "(", "(?:", "(?P<n>", "(?>", "(?=", "(?!", "(?<=", "(?<!"),
    *(")", ")", ")", "|", "|", "*", "+", "?", "*?", "++", "{2}", "{0}", "{1,2}", "{,2}", "{2,}?", "{", "{b}", "}"),
    *("(?P=n)", r"\1", "(?(1)", "(?i:", "(?-i:", "(?#c)", "(?x: ", "#", "(?s:"),
]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"^def\s+test_\w+\(", {"test_"}),
        ("TODO|FIXME", {"TODO", "FIXME"}),
        (r"\b(?P<kind>class|struct) (Foo|Bar)Service\b", {"Service"}),
        ("(one|two|)", set()),
        ("colou?r", {"colo"}),
        ("(ab){2,}c*", {"ab"}),
        (r"\$\{name\}", {"${name}"}),
        ("x{,3}yz", {"yz"}),
        (r"\d+-\d+", {"-"}),
        (r"\x41\u0042c", {"c"}),
        ("(?P<n>a)(?P=n)bc", {"bc"}),
        (r"\N{LATIN SMALL LETTER A}b", {"b"}),
        ("(?=one)two(?<!three)", {"two"}),
        ("(?x) a b", set()),
        ("ab(?#no)*", set()),
        ("[a-z]+", set()),
        ("[ab", set()),
        ("ab(cd", set()),
        ("ab\\\ncd", set()),
    ],
)
def test_the_most_selective_part_of_an_expression(pattern: str, texts: set[str]) -> None:
    assert find_required_texts(pattern, regex=True, ignore_case=False) == (frozenset(texts), False)


def test_the_required_text_is_in_every_encoding_and_folded_if_any_part_says_so() -> None:
    assert find_required_texts("naïve (cafés)", regex=False, ignore_case=True) == (frozenset({"ve (caf"}), True)
    assert find_required_texts("é", regex=False, ignore_case=False) == (frozenset(), False)
    assert find_required_texts("(?i)one", regex=True, ignore_case=False) == (frozenset({"one"}), True)
    assert find_required_texts("one(?i:two)", regex=True, ignore_case=False)[1]


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join),
    st.text("abIsS. {}#|\u0130\u0131\u017f\u00b2", max_size=8),
    st.booleans(),
)
def test_every_match_contains_a_required_text(pattern: str, line: str, ignore_case: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        except re.error:
            return
    texts, folded = find_required_texts(pattern, regex=True, ignore_case=ignore_case)
    if texts and expression.search(line):
        assert any(re.search(re.escape(text), line, re.IGNORECASE if folded else 0) for text in texts)
