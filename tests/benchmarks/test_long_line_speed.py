"""The cost of very long lines: staging, relative to one search in the line, and finding deceptive characters."""

import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from app.text.deceiving_text import find_deceptive_characters
from tests.benchmarks.test_waiting_speed import service_with

SIZE = 1_000_000
_ONCE = re.compile(r"\b(?:eval|exec|system|popen)\(")
MAX_SEARCH_RATIO = 25
"""About thirty expressions are searched in the line, before and after the change."""


def minified() -> str:
    dice = random.Random(7)
    words = [
        "function",
        "return",
        "var",
        "e",
        "t",
        "n",
        "this",
        "null",
        "push",
        "if",
        "typeof",
        "catch(e)",
        "throw",
        "new",
    ]
    marks = ["(", ")", ",", ".", "=", "{", "}", "&&", "||", "?", ":", ";", " ", "===", '"x"', "+"]
    return "".join(dice.choice(words) + dice.choice(marks) for _ in range(SIZE // 6))[:SIZE]


def cpu(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


@pytest.mark.parametrize("change", ["inserted", "operator", "all of it", "not ASCII"])
def test_staging_a_minified_megabyte(tmp_path: Path, change: str) -> None:
    line = minified()
    middle = line.index("===", SIZE // 2)
    if change == "not ASCII":
        line = line.replace("x", "\u00e9")
    new = {
        "inserted": f"{line[:middle]};call();{line[middle:]}",
        "operator": f"{line[:middle]}!=={line[middle + 3 :]}",
        "all of it": line.replace("e", "q"),
        "not ASCII": f"{line[:middle]};call();{line[middle:]}",
    }[change]
    times: list[float] = []
    for number in range(3):
        service = service_with(tmp_path / str(number), 0)
        (tmp_path / str(number) / "workspace" / "a.js").write_text(f"{line}\n")
        draft = service.new_draft("")
        draft.write("a.js", f"{new}\n")
        times.append(cpu(lambda draft=draft, service=service: service.stage(draft, "")))  # type: ignore[misc]
    once = min(cpu(lambda: _ONCE.search(line)) for _ in range(5))
    print(f"\n{change}: {min(times) * 1000:.0f} ms, one search {once * 1000:.0f} ms: {min(times) / once:.1f}")
    assert min(times) < MAX_SEARCH_RATIO * once


@pytest.mark.parametrize(
    "piece", ["\u043e\u0430 ", "\uff0c", "1", "1 ", "\u05d0 ", "/*", "<!--", '"', "\u4e2d\u6587\uff0c"]
)
def test_deceptive_character_search_is_linear_in_length(piece: str) -> None:
    few, many = (min(cpu(partial(find_deceptive_characters, text)) for _ in range(3)) for text in texts(piece))
    print(f"\n{piece!a}: 2,000 times {few * 1000:.2f} ms, 40,000 times {many * 1000:.1f} ms: {many / few:.0f}")
    assert many < 100 * max(few, 0.000_5)


def texts(piece: str) -> tuple[str, str]:
    return f"\u05d0{piece * 2_000}", f"\u05d0{piece * 40_000}"
