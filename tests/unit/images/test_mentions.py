"""What a message names, and what a terminal pastes for a dropped file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.images.mentions import find_mentions, format_mention, pasted_paths


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("@shot.png", ["shot.png"]),
        ("see @docs/shot.png, and (@b.gif).", ["docs/shot.png", "b.gif"]),
        ('@"two words.png" or @\'it "is".png\'', ["two words.png", 'it "is".png']),
        (r"@/tmp/two\ words.png", ["/tmp/two words.png"]),
        ("@file:///tmp/two%20words.png", ["/tmp/two words.png"]),
        ("@a.png @a.png", ["a.png"]),
        ("me@example.png icon@2x.png `@a.png`", []),
        ("@ @. @, nothing", []),
        ("first\n@second.png", ["second.png"]),
        ("@file://[/a.png", ["file://[/a.png"]),
        ("@100%25.png?#b", ["100%25.png?#b"]),
    ],
)
def test_files_are_named_with_an_at(text: str, paths: list[str]) -> None:
    assert [mention.path for mention in find_mentions(text)] == paths


@given(st.text(min_size=1).filter(lambda path: not {"\n", "\r"} & {*path} and path.isprintable()))
def test_a_path_is_read_as_it_was_written(path: str) -> None:
    if path.lower().startswith("file://") or {'"', "'"} <= {*path}:
        return
    assert [mention.path for mention in find_mentions(f"look at {format_mention(path)} please")] == [path]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("docs/shot.png", "@docs/shot.png"),
        ("two words.png", '@"two words.png"'),
        ('it "is".png', "@'it \"is\".png'"),
        ('it\'s "it".png', r"@it\'s\ \"it\"\.png"),
    ],
)
def test_a_path_is_written_as_plainly_as_it_can_be(path: str, said: str) -> None:
    assert format_mention(path) == said
    assert [mention.path for mention in find_mentions(said)] == [path]


def test_only_what_was_dropped_is_taken_for_it() -> None:
    found = find_mentions("@/tmp/a.png @/tmp/b.png", frozenset({"/tmp/a.png"}))
    assert [mention.dropped for mention in found] == [True, False]


@pytest.mark.parametrize(
    ("pasted", "paths"),
    [
        ("/tmp/shot.png", ["/tmp/shot.png"]),
        ("/tmp/two words.png", ["/tmp/two words.png"]),
        (r"/tmp/two\ words.png ", ["/tmp/two words.png"]),
        ("'/tmp/two words.png' ", ["/tmp/two words.png"]),
        ('"/tmp/it\'s.png"', ["/tmp/it's.png"]),
        ("file:///tmp/two%20words.png", ["/tmp/two words.png"]),
        ("FILE:///tmp/a.png", ["/tmp/a.png"]),
        ("/tmp/it's.png", ["/tmp/it's.png"]),
        ("/tmp/a.png /tmp/b.png", ["/tmp/a.png", "/tmp/b.png"]),
        ("file:///tmp/a.png\nfile:///tmp/b.png\n", ["/tmp/a.png", "/tmp/b.png"]),
        ("~/shot.png", ["~/shot.png"]),
        ("docs/shot.PNG", ["docs/shot.PNG"]),
    ],
)
def test_a_dropped_file_is_understood_however_the_terminal_pastes_it(pasted: str, paths: list[str]) -> None:
    assert paths in [list(found) for found in pasted_paths(pasted)]


@pytest.mark.parametrize("pasted", ["", "  ", "hello", "def f():\n    pass", "/tmp/\x1b[2J.png", "/" * 5_000])
def test_other_text_is_no_path(pasted: str) -> None:
    assert list(pasted_paths(pasted)) == []


@given(st.text())
def test_any_paste_can_be_looked_at(pasted: str) -> None:
    assert all(isinstance(path, str) for paths in pasted_paths(pasted) for path in paths)
    find_mentions(pasted)
