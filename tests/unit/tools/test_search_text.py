"""`search_text`: finds the matching lines, and nothing that must stay hidden."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.text.document import Document
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from app.tools.search import search_text
from app.tools.search.search_text import REGEX_WORKER_FILE, LineMatch, LiteralMatcher, MatcherStopped, RegexMatcher
from tests.examples import scale_examples
from tests.unit.tools.memory_draft import Bench


def put(bench: Bench, path: str, content: str | bytes) -> None:
    target = bench.workspace.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)


class TestSearch:
    async def test_finds_literally(self, bench: Bench) -> None:
        put(bench, "src/a.py", "x = f(1)\ny = g(2)\nz = f(1)\n")
        put(bench, "b.py", "f[1]\n")
        output = await bench.call("search_text", pattern="f(1)")
        assert output.text == "src/a.py\n  1: x = f(1)\n  3: z = f(1)\n[2 matching lines in 1 file]"
        assert output.summary == "2 matching lines in 1 file"

    async def test_finds_by_expression(self, bench: Bench) -> None:
        put(bench, "a.py", "def one():\nclass Two:\ndefine\n")
        output = await bench.call("search_text", pattern=r"^(def|class)\s+\w+", regex=True)
        assert "  1: def one():\n  2: class Two:\n" in output.text
        output = await bench.call("search_text", pattern="def(?! one)", regex=True)
        assert output.text == "a.py\n  3: define\n[1 matching line in 1 file]"

    async def test_finds_what_the_two_would_not_agree_on(self, bench: Bench) -> None:
        cases: list[tuple[str, bool, str | bytes]] = [
            (r"x\wy", False, "x²y"),
            (r"x\sy", False, "x\x1cy"),
            (r"e\W", False, "e\u0301"),
            (r"\Ahere", False, "first\nhere"),
            ("[a&&b]z", False, "&z"),
            ("[[a]z", False, "[z"),
            (r"\<html\>", False, "<html>"),
            ("(?-m:^here)", False, "first\nhere"),
            ("(?x: [ ] z)", False, "a z"),
            ("a(?#c)*b", False, "xb"),
            ("a.b", False, "a\rb"),
            ("caf.", False, b"caf\xe9"),
            ("caf[^x]", False, b"caf\xe9"),
            ("x.y", False, b"first\n" * 2000 + b"x\0y"),
            ("x{,2}y", False, "y"),
            ("TITLE", True, "t\u0131tle"),
            ("(?i)title", False, "T\u0130TLE"),
            ("ask", True, "A\u017f\u212a"),
            ("^$", False, "a\r\n\r\n"),
        ]
        for pattern, ignore_case, content in cases:
            put(bench, "a.py", content)
            output = await bench.call("search_text", pattern=pattern, regex=True, ignore_case=ignore_case)
            assert output.summary == "1 matching line in 1 file", pattern

    async def test_where(self, bench: Bench) -> None:
        for path in ("src/a.py", "src/b.ts", "c.py"):
            put(bench, path, "needle\n")
        assert (await bench.call("search_text", pattern="needle", path="src")).text.count("needle") == 2
        assert (await bench.call("search_text", pattern="needle", glob="*.py")).text.count("needle") == 2
        assert (await bench.call("search_text", pattern="needle", path="src/a.py")).text.count("needle") == 1
        assert (await bench.call("search_text", pattern="needle", path="src", glob="*.rs")).text.startswith("No line")

    async def test_line_endings_and_encodings(self, bench: Bench) -> None:
        put(bench, "crlf", b"one\r\ntwo\r\n")
        put(bench, "wide", "two three\n".encode("utf-16"))
        put(bench, "latin", b"caf\xe9 two\n")
        output = await bench.call("search_text", pattern="two$", regex=True)
        assert "crlf\n  2: two\n" in output.text
        assert "latin\n" in output.text
        assert "wide" in (await bench.call("search_text", pattern="three")).text

    async def test_pending_edits_are_searched_in_place_of_the_disk(self, bench: Bench) -> None:
        put(bench, "changed", "old word\n")
        put(bench, "gone", "old word\n")
        bench.draft.held = {"changed": b"new word\n", "gone": None, "added": b"new word\n"}
        assert "no matches" in (await bench.call("search_text", pattern="old word")).summary
        output = await bench.call("search_text", pattern="new word")
        assert output.text.startswith("added\n  1: new word\nchanged\n  1: new word\n")

    async def test_ignored_binary_and_git_files_are_left_out(self, bench: Bench) -> None:
        put(bench, ".gitignore", "out/\n")
        put(bench, "out/x", "needle\n")
        put(bench, "bin", b"\0needle\n")
        put(bench, ".git/config", "needle\n")
        for path in ("-", "-e"):
            put(bench, path, "needle\n")
        output = await bench.call("search_text", pattern="needle")
        assert output.text == "-\n  1: needle\n-e\n  1: needle\n[2 matching lines in 2 files]"

    async def test_secrets_are_left_out_and_named_and_shown_only_after_a_yes(self, bench: Bench) -> None:
        put(bench, ".env", "KEY=needle hunter2\n")
        put(bench, "c/.env", "KEY=hunter2, of which not even this much is told: whether it has the word\n")
        put(bench, "key.txt", "-----BEGIN RSA PRIVATE KEY-----\nneedle hunter2\n")
        (bench.workspace.root / "plain.txt").symlink_to(".env")
        os.link(bench.workspace.root / ".env", bench.workspace.root / "notes")
        put(bench, ".npmrc", "save-prefix=needle plain\n")
        put(bench, "web/.npmrc", "//registry/:_authToken=needle hunter2\n")
        output = await bench.call("search_text", pattern="needle")
        assert "hunter2" not in output.text and "needle plain" in output.text
        assert "not searched, since they look like secrets: .env, c/.env, key.txt, notes, web/.npmrc" in output.text
        assert bench.asked == []
        with pytest.raises(ToolCallNotPermitted):
            await bench.call("search_text", pattern="KEY", path=".env")
        bench.answer = PermissionAnswer(True)
        assert "hunter2" in (await bench.call("search_text", pattern="KEY", path=".env")).text

    async def test_links_give_no_duplicate_and_no_outside_results(self, bench: Bench) -> None:
        put(bench, "a", "needle\n")
        (bench.workspace.root.parent / "outside").write_text("needle hunter2\n")
        (bench.workspace.root / "same").symlink_to("a")
        (bench.workspace.root / "out").symlink_to("../outside")
        output = await bench.call("search_text", pattern="needle")
        assert output.text == "a\n  1: needle\n[1 matching line in 1 file]"

    async def test_results_are_capped_with_the_true_count_and_a_long_line_is_cut(self, bench: Bench) -> None:
        for number in range(5):
            put(bench, f"f{number}", "needle\n" * 100)
        put(bench, "g.js", "x" * 50_000 + "needle2" + "y" * 50_000)
        output = await bench.call("search_text", pattern="needle")
        assert output.text.endswith(
            "[200 of 501 matching lines in 6 files shown; narrow the search with path, glob or pattern]"
        )
        assert output.text.count(": needle") == 200
        output = await bench.call("search_text", pattern="needle2")
        assert "needle2" in output.text and len(output.text) < 500

    @settings(max_examples=scale_examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        files=st.dictionaries(
            st.sampled_from(["a", "b/c", "d.py", "e f", "é"]),
            st.text(alphabet="ab.*\n\r\tÄä", max_size=30),
            max_size=5,
        ),
        pattern=st.text(alphabet="ab.*Ää", min_size=1, max_size=3),
        ignore_case=st.booleans(),
    )
    async def test_the_search_finds_exactly_the_matching_lines(
        self, bench: Bench, files: dict[str, str], pattern: str, ignore_case: bool
    ) -> None:
        for path in list(bench.workspace.walk_files()):
            (bench.workspace.root / path).unlink()
        for path, text in files.items():
            put(bench, path, text)
        output = await bench.call("search_text", pattern=pattern, ignore_case=ignore_case)
        fold = str.lower if ignore_case else str
        expected = sum(fold(pattern) in fold(line) for text in files.values() for line in text.split("\n"))
        assert output.summary.startswith(f"{expected} matching line" if expected else "no matches")


async def test_an_invalid_pattern_is_an_error(bench: Bench) -> None:
    put(bench, "a", "x")
    with pytest.raises(ToolError, match="not a regular expression"):
        await bench.call("search_text", pattern="(", regex=True)
    with pytest.raises(ToolError, match="one line"):
        await bench.call("search_text", pattern="a\nb")


EVIL = r"(a+)+$"


def test_an_orphaned_regex_worker_ends_by_itself() -> None:
    worker = [sys.executable, "-I", "-S", str(REGEX_WORKER_FILE), "1"]
    question = json.dumps({"pattern": EVIL, "ignore_case": False}) + "\n" + json.dumps([["a" * 60 + "b"]]) + "\n"
    with subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(question)
        process.stdin.flush()
        assert process.wait() == -signal.SIGALRM


async def test_an_exploding_expression_is_stopped_and_loses_at_most_half(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        put(bench, f"a{number:02}", "x needle\n")
    put(bench, "b", "a" * 64 + "!\n")
    monkeypatch.setattr(search_text, "SEARCH_SECONDS", 1.0)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    output = await bench.call("search_text", pattern=f"needle|{EVIL}", regex=True)
    ticking.cancel()
    assert "stopped after" in output.text
    assert output.text.count("needle\n") >= 6, "what was found until then is kept"
    assert ticks > 20


async def test_large_files_are_not_held_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_text, "BATCH_BYTES", 20)
    for number in range(40):
        put(bench, f"a{number:02}", "x needle\nneedle 2\n")
    given: list[int] = []
    ask = RegexMatcher.find_hits

    def hits(self: RegexMatcher, documents: Sequence[Document]) -> list[list[LineMatch]]:
        given.append(sum(len(document.data) for document in documents))
        return ask(self, documents)

    monkeypatch.setattr(RegexMatcher, "find_hits", hits)
    output = await bench.call("search_text", pattern=r"needle( \d)?$", regex=True)
    assert output.summary == "80 matching lines in 40 files"
    assert max(given) < 40


async def test_cancelling_ends_the_search_at_once(bench: Bench) -> None:
    put(bench, "b", "a" * 64 + "!\n")
    task = asyncio.create_task(bench.call("search_text", pattern=EVIL, regex=True))
    await asyncio.wait({task}, timeout=0.5)
    assert not task.done(), "the expression must still be at it"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@dataclass
class Watched(LiteralMatcher):
    """Finds a word, and does something whenever it has looked through a file."""

    then: Callable[[], None]

    def __post_init__(self) -> None:
        super().__init__("needle", False)

    def find_hits(self, documents: Sequence[Document]) -> list[list[LineMatch]]:
        found = super().find_hits(documents)
        self.then()
        return found


def test_a_stopped_search_reads_no_other_file(bench: Bench) -> None:
    for path in ("a", "b"):
        put(bench, path, "needle\n")
    search = search_text.StoppableTextSearch(bench.context, ".", "", Watched(lambda: search.stop()))
    found = search.run()
    assert [path for path, _ in found.files] == ["a"] and found.cut_short


def test_a_file_replaced_by_a_link_is_not_read(bench: Bench) -> None:
    root = bench.workspace.root
    for path in ("a", "b", "c/d/e", "f"):
        put(bench, path, "needle\n")
    (root.parent / "outside/d").mkdir(parents=True)
    (root.parent / "outside/b").write_text("needle hunter2\n")
    (root.parent / "outside/d/e").write_text("needle hunter2\n")
    put(bench, "hidden/needle", "needle\n")
    put(bench, ".gitignore", "hidden\n")

    def lead_elsewhere() -> None:
        if (root / "b").is_symlink():
            return
        (root / "b").unlink()
        (root / "b").symlink_to("../outside/b")
        (root / "c").rename(root.parent / "c")
        (root / "c").symlink_to("../outside")
        (root / "f").unlink()
        (root / "f").symlink_to("hidden/needle")

    with bench.workspace.walked_file_reader() as read:
        read("c/d/e")
    found = search_text.StoppableTextSearch(bench.context, ".", "", Watched(lead_elsewhere)).run()
    assert found.files == [("a", [(1, "needle")])]


@given(
    lines=st.lists(st.text(alphabet="aikAIKsS\u0130\u0131\u212a\u017fxé\r", max_size=6), max_size=5),
    pattern=st.text(alphabet="aikAIKsS\u0131\u212a.", min_size=1, max_size=3),
    ignore_case=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_the_byte_scan_misses_no_match(lines: list[str], pattern: str, ignore_case: bool, encoding: str) -> None:
    document = Document("\n".join(lines).encode(encoding))
    search = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0).search
    expected = [(at, found.start(), line) for at, line in enumerate(document.line_texts) if (found := search(line))]
    matcher = LiteralMatcher(pattern, ignore_case)
    assert matcher.find_hits([document]) == [expected]
    assert matcher.can_match(document.data) or not expected


def test_a_stopped_matcher_refuses_later_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python would link this library, and fail, if it were found in the workspace.
    (tmp_path / "libm.so.6").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    matcher = RegexMatcher("a+", False, tmp_path)
    matcher.prepare()
    matcher.stop()
    # The first is more than a pipe takes by itself.
    for text in ("a" * 1_000_000, "a"):
        with pytest.raises(MatcherStopped):
            matcher.find_hits([Document(text.encode())])
    matcher.close()
