"""What the words of a request ask for."""

import pytest

from app.demo.demo_conversation import read_intent

REQUESTS = {
    "fix": ["Fix the failing tests", "make the tests pass", "There is a bug in tides.py", "the times are wrong"],
    "explain": ["Explain tideline/tides.py", "What does moon.py do?", "show me the README", "how do tides work?"],
    "vague": ["Improve it", "refactor tideline/table.py", "make this nicer"],
    "help": ["help", "What can you do?", "hello there"],
    "continue": ["continue", "go on", "Proceed, please"],
    "thanks": ["thanks!", "ok"],
    "summary": ["Summarise the conversation so far"],
    "other": ["Where do the gulls live?", "Give the number a name"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in REQUESTS.items() for text in texts])
def test_a_request_is_understood(kind: str, text: str) -> None:
    assert read_intent(text).kind == kind


def test_paths_are_taken_out() -> None:
    assert read_intent("Explain LUNAR_DAY in tideline/moon.py.").paths == ("tideline/moon.py",)
