"""What the words of a request ask for."""

import pytest

from app.demo.demo_conversation import read_intent

REQUESTS = {
    "fix": ["Fix the failing tests", "make the tests pass", "There is a bug in tides.py", "the times are wrong"],
    "explain": ["Explain tideline/tides.py", "What does moon.py do?", "show me the README", "how do tides work?"],
    "rename": ["Rename tides_of_day to daily_tides", "please rename the function `bar` to `height_bar`"],
    "move": ["Move README.md to docs/README.md", "rename the file tideline/units.py to tideline/measures.py"],
    "delete": ["Delete AGENTS.md", "remove the file tideline/units.py"],
    "docstrings": ["Add docstrings to tideline/table.py", "Add the missing docstrings"],
    "run_tests": ["run the tests", "Do the tests pass?"],
    "vague": ["Improve it", "refactor tideline/table.py", "make this nicer"],
    "help": ["help", "What can you do?", "hello there"],
    "continue": ["continue", "go on", "Proceed, please"],
    "thanks": ["thanks!", "ok"],
    "summary": ["Summarise the conversation so far"],
    "search": ["Where do the gulls live?", "Give the number a name"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in REQUESTS.items() for text in texts])
def test_a_request_is_understood(kind: str, text: str) -> None:
    assert read_intent(text).kind == kind


def test_names_and_paths_are_taken_out() -> None:
    intent = read_intent('Rename "LUNAR_DAY" to `MOON_DAY` in tideline/moon.py.')
    assert (intent.old, intent.new, intent.paths) == ("LUNAR_DAY", "MOON_DAY", ("tideline/moon.py",))
