"""What the words of a request ask for."""

import pytest

from app.demo.intents import Kind, read_intent

REQUESTS = {
    Kind.FIX: ["Fix the failing tests", "make the tests pass", "There is a bug in tides.py", "the times are wrong"],
    Kind.EXPLAIN: ["Explain tideline/tides.py", "What does moon.py do?", "show me the README", "how do tides work?"],
    Kind.RENAME: ["Rename tides_of_day to daily_tides", "please rename the function `bar` to `height_bar`"],
    Kind.MOVE: ["Move README.md to docs/README.md", "rename the file tideline/units.py to tideline/measures.py"],
    Kind.DELETE: ["Delete AGENTS.md", "remove the file tideline/units.py"],
    Kind.DOCSTRINGS: ["Add docstrings to tideline/table.py", "Add the missing docstrings"],
    Kind.RUN_TESTS: ["run the tests", "Do the tests pass?"],
    Kind.VAGUE: ["Improve it", "refactor tideline/table.py", "make this nicer"],
    Kind.HELP: ["help", "What can you do?", "hello there"],
    Kind.CONTINUE: ["continue", "go on", "Proceed, please"],
    Kind.THANKS: ["thanks!", "ok"],
    Kind.SUMMARY: ["Summarise the conversation so far"],
    Kind.SEARCH: ["Where do the gulls live?", "Give the number a name"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in REQUESTS.items() for text in texts])
def test_a_request_is_understood(kind: Kind, text: str) -> None:
    assert read_intent(text).kind is kind


def test_names_and_paths_are_taken_out() -> None:
    intent = read_intent('Rename "LUNAR_DAY" to `MOON_DAY` in tideline/moon.py.')
    assert (intent.old, intent.new, intent.paths) == ("LUNAR_DAY", "MOON_DAY", ("tideline/moon.py",))
