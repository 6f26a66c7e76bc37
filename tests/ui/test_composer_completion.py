"""Completion: files after @, commands after /, and a hundred thousand names without a stutter."""

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key
from textual.pilot import Pilot

from tests.ui.chat_app import ChatApp, chatting
from tests.waiting import until
from widgets.chat import path_index
from widgets.chat.composer import Composer
from widgets.chat.composer_lists import CompletionPopup, CompletionSuggestion
from widgets.chat.path_index import MAX_MATCHES, PathIndex, SearchCancelled

FILES = ["README.md", "app/ui/app.py", "app/agent/gate.py", "tests/test_gate.py", "docs/a file.md", "app/x[/]y.py"]


async def settled(app: ChatApp, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


def choices(app: ChatApp) -> list[str]:
    return [row[2:].split("  ")[0] for row in app.pane.composer.popup.render().plain.split("\n")]


async def test_an_at_sign_completes_files() -> None:
    async with chatting(files=FILES) as (app, pilot):
        await pilot.press(*"look at @gate")
        await settled(app, pilot)
        assert choices(app) == ["app/agent/gate.py", "tests/test_gate.py"]
        await pilot.press("down", "enter")
        assert app.pane.composer.draft == "look at @tests/test_gate.py "
        assert app.said == []
        assert not app.pane.composer.popup.is_open
        # Completion by tab and left by escape.
        app.pane.composer.draft = ""
        await pilot.press(*"@rdme")
        await settled(app, pilot)
        await pilot.press("tab")
        assert app.pane.composer.draft == "@README.md "
        await pilot.press(*"@ma")
        await settled(app, pilot)
        await pilot.press("escape")
        assert not app.pane.composer.popup.is_open
        assert app.pane.composer.draft == "@README.md @ma"
        # A name with a space is quoted and markup is text.
        app.pane.composer.draft = ""
        await pilot.press(*"@a f")
        await pilot.press("backspace", "backspace", "backspace", *"afile")
        await settled(app, pilot)
        await pilot.press("enter")
        assert app.pane.composer.draft == '@"docs/a file.md" '
        composer_choices = app.pane.composer
        composer_choices.draft = ""
        await pilot.press(*"@x[")
        await settled(app, pilot)
        assert choices(app) == ["app/x[/]y.py"]
        # An at sign inside a word completes nothing.
        await pilot.press("escape")
        app.pane.composer.draft = ""
        await pilot.press(*"me@main")
        await settled(app, pilot)
        assert not app.pane.composer.popup.is_open
        # The list can be used with the mouse.
        app.pane.composer.draft = ""
        await pilot.press(*"@gate")
        await settled(app, pilot)
        await pilot.click(app.pane.composer.popup, offset=(4, 1))
        assert app.pane.composer.draft == "@tests/test_gate.py "
        await pilot.press(*"@gate")
        await settled(app, pilot)
        # The cursor has left the name, and the list does not know it yet.
        app.pane.composer.editor.move_cursor((0, 0))
        app.pane.composer.accept_clicked_suggestion(
            CompletionPopup.Chosen(CompletionSuggestion("app/agent/gate.py", "app/agent/gate.py"))
        )
        assert app.pane.composer.draft == "@tests/test_gate.py @gate"


async def test_files_listed_after_typing_are_offered() -> None:
    listed = Event()

    def list_files() -> list[str]:
        listed.wait(30)
        return FILES

    async with chatting(files=list_files) as (app, pilot):
        await pilot.press(*"@ga")
        await pilot.press("t", "tab")
        assert app.pane.composer.editor.has_focus
        listed.set()
        await settled(app, pilot)
        assert choices(app) == ["app/agent/gate.py", "tests/test_gate.py"]


async def test_a_slash_completes_commands_and_arguments() -> None:
    async with chatting(notifications=True) as (app, pilot):
        # A slash completes commands.
        await pilot.press("slash")
        assert choices(app) == ["/compact", "/model", "/new"]
        rows = app.pane.composer.popup.render().plain.split("\n")
        assert [row.index(title) for row, title in zip(rows, ("Make", "Choose", "New"), strict=True)] == [12, 12, 12]
        await pilot.press(*"mo", "enter")
        assert app.said == [Composer.CommandEntered("model", "")]
        assert app.pane.composer.is_empty
        # A command takes an argument.
        app.said.clear()
        await pilot.press(*"/mo", "tab", *"big one", "enter")
        assert app.said == [Composer.CommandEntered("model", "big one")]
        # An unknown command is kept and not sent.
        app.said.clear()
        await pilot.press(*"/modle", "enter")
        assert app.said == []
        assert app.pane.composer.draft == "/modle"
        # A path at the start is a message.
        app.pane.composer.draft = ""
        await pilot.press(*"/usr/bin is odd", "enter")
        assert app.said == [Composer.Submitted("/usr/bin is odd")]
        # A command is found by a word of its title from its beginning.
        await pilot.press(*"/roo")
        assert choices(app) == ["/compact"]
        await pilot.press("backspace", "backspace", "backspace", *"oom")
        assert not app.pane.composer.popup.is_open


def indexed(paths: Sequence[str]) -> PathIndex:
    index = PathIndex()
    index.rebuild(paths)
    return index


def test_the_best_path_matches_come_first() -> None:
    names = [
        *("lib/domain.py", "m/a/i/n.txt", "src/main.py", "src/mainline/x.py", "src/my_main_domain.py"),
        "src/the_main.py",
    ]
    index = indexed(names)
    assert index.find_paths("main") == [
        "src/main.py",
        "src/the_main.py",
        "src/my_main_domain.py",
        "lib/domain.py",
        "src/mainline/x.py",
        "m/a/i/n.txt",
    ]
    assert index.find_paths("nothing") == []
    assert index.find_paths("") == names


PARTS = st.text(alphabet="aAb_.-é\u0130/", min_size=1, max_size=4)
PATHS = st.lists(
    st.lists(PARTS.map(lambda part: part.replace("/", "x")), min_size=1, max_size=4).map("/".join), unique=True
).map(sorted)


def is_subsequence(query: str, name: str) -> bool:
    """Return whether all characters of the query are in the name, in order."""
    characters = iter(name)
    return all(character in characters for character in query)


def rank_match(query: str, path: str) -> tuple[int, int]:
    """Return how well a lower-case path fits a query that it contains as a subsequence; smaller is better."""
    name = path.rpartition("/")[2]
    if name.startswith(query):
        tier = 0
    elif any(before + query in name for before in "_-. "):
        tier = 1
    elif query in name:
        tier = 2
    elif query in path:
        tier = 3
    else:
        tier = 4 if is_subsequence(query, name) else 5
    return tier, len(path)


def best_by_hand(paths: Sequence[str], query: str) -> list[str]:
    lower = [(path.lower(), path) for path in paths]
    found = [
        (rank_match(query, name), at, path) for at, (name, path) in enumerate(lower) if is_subsequence(query, name)
    ]
    return [path for _, _, path in sorted(found)[:MAX_MATCHES]]


@given(
    paths=PATHS,
    query=st.text(alphabet="ab_./éx", min_size=1, max_size=4),
    block=st.integers(1, 5),
    lengths=st.sampled_from([1, 2, 8]),
)
def test_the_path_index_finds_what_a_full_scan_finds(paths: list[str], query: str, block: int, lengths: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_index, "_LENGTH_STEP", lengths)
        patch.setattr(path_index, "_PATHS_PER_BLOCK", block)
        patch.setattr(path_index, "_PATHS_PER_SLICE", block)
        patch.setattr(path_index, "MAX_MATCHES", 3)
        index = indexed(paths)
        for end in range(1, len(query) + 1):
            assert index.find_paths(query[:end]) == best_by_hand(paths, query[:end])[:3]
        for end in range(len(query) - 1, 0, -1):
            assert index.find_paths(query[:end]) == best_by_hand(paths, query[:end])[:3], "and when it shrinks"


def test_many_matches_are_ranked_like_few() -> None:
    paths = sorted(f"pkg{index % 13}/mod_{index}/File_{index * 7 % 97}.py" for index in range(9000))
    index = indexed(paths)
    for query in ("f", "fi", "file_3", "file_31", "f31", "mod_4", "pkg1/mod", "p1m2f", "d_8999/f", "zzz", ".py"):
        assert index.find_paths(query) == best_by_hand(paths, query), query


AX, SHORT = [f"ax{n:03}bb/q" for n in range(900)], [f"zx{n:03}/{name}" for n in range(100) for name in ("w", "wwq")]


@pytest.mark.parametrize(
    ("block", "paths"),
    [
        pytest.param(0, [*AX, *SHORT], id="the first of equally good ones"),
        pytest.param(100, ["a/w", *(f"ax{n:03}/q" for n in range(99)), "b/w", "bx/wwwwwwqz"], id="too long at first"),
        pytest.param(
            100,
            [*(f"ax{n:03}/wq" for n in range(100)), "b/w", *(f"bx{n:02}/wwq" for n in range(60))],
            id="as long as those of shorter paths",
        ),
    ],
)
def test_paths_of_several_blocks_are_found(block: int, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if block:
        monkeypatch.setattr(path_index, "_PATHS_PER_BLOCK", block)
        monkeypatch.setattr(path_index, "_PATHS_PER_SLICE", block)
    index = indexed(paths)
    for query in ("xq", "xqz"):
        assert index.find_paths(query) == best_by_hand(paths, query), query


@given(before=PATHS, after=PATHS, block=st.integers(1, 4))
def test_a_new_listing_replaces_the_old_in_blocks(before: list[str], after: list[str], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_index, "_PATHS_PER_BLOCK", block)
        patch.setattr(path_index, "_PATHS_PER_SLICE", block)
        index = indexed(before)
        index.find_paths("a")

        def listed() -> Iterator[str]:
            for number, path in enumerate(after):
                yield path
                if number % block == 0:
                    known = set(index.find_paths(""))
                    replaced_count = max(0, min(number - 2 * block, MAX_MATCHES))
                    assert set(after[:replaced_count]) <= known <= {*before, *after}

        index.rebuild(listed())
        assert index.find_paths("") == after[:MAX_MATCHES]
        assert index.find_paths("a") == best_by_hand(after, "a")


def test_a_cancelled_path_search_ends_early() -> None:
    index = indexed([f"folder_{number % 1000}/deep/module_{number}.py" for number in range(20_000)])
    asked = iter(range(1000))
    with pytest.raises(SearchCancelled):
        index.find_paths("mo9", lambda: next(asked) >= 2)
    assert next(asked) == 3
    assert len(index.find_paths("mo9")) == MAX_MATCHES


def test_a_cancelled_listing_keeps_the_old_paths_that_it_did_not_reach() -> None:
    index = indexed([f"module_{number:05}.py" for number in range(20_000)])
    taken: list[str] = []

    def paths() -> Iterator[str]:
        for number in range(20_000):
            taken.append(f"module_{number:05}.js")
            yield taken[-1]

    index.rebuild(paths(), lambda: len(taken) > 5_000)
    assert len(taken) < 10_000
    assert index.find_paths("module_19999.py") == ["module_19999.py"]
    index.rebuild([], lambda: True)
    assert index.find_paths("module_19999.py") == ["module_19999.py"]


async def test_a_path_search_is_cancelled_by_the_next_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    search = PathIndex.find_paths

    def slow(self: PathIndex, query: str, given_up: Callable[[], bool] = lambda: False) -> list[str]:
        if query == "g":
            end = monotonic() + 30
            while not given_up() and monotonic() < end:
                sleep(0.005)
            ended.append("given up" if given_up() else "in vain")
        return search(self, query, given_up)

    monkeypatch.setattr(PathIndex, "find_paths", slow)
    async with chatting(files=lambda: ["a/gate.py"]) as (app, pilot):
        await pilot.press(*"@g")
        await pilot.press("a")
        await settled(app, pilot)
        assert choices(app) == ["a/gate.py"]
        await until(lambda: bool(ended))
    assert ended == ["given up"]


@pytest.mark.parametrize("key", ["tab", "enter"])
async def test_a_key_completes_what_is_typed_not_what_was_offered_for_less(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    search = PathIndex.find_paths

    def slow(self: PathIndex, query: str, given_up: Callable[[], bool] = lambda: False) -> list[str]:
        if query:
            go_on.wait(30)
        return search(self, query, given_up)

    def search_now(event: Key) -> bool:
        go_on.set()
        return False

    monkeypatch.setattr(PathIndex, "find_paths", slow)
    async with chatting(files=FILES) as (app, pilot):
        await pilot.press("@")
        await settled(app, pilot)
        assert choices(app)[0] == "README.md"
        await pilot.press(*"gate")
        app.pane.composer.editor.before_key = search_now
        await pilot.press(key)
        assert app.pane.composer.draft == "@app/agent/gate.py " and app.said == []


async def test_files_are_offered_during_the_listing_and_the_highlight_stays() -> None:
    go_on = Event()
    first = [f"a/gate_long_{number:04}.py" for number in range(5000)]

    def list_files() -> Iterator[str]:
        yield from first
        go_on.wait(30)
        yield "b/gate.py"

    async with chatting(files=list_files) as (app, pilot):
        await pilot.press(*"@gate")
        await until(lambda: app.pane.composer.popup.is_open)
        await pilot.press("down")
        chosen = app.pane.composer.popup.highlighted_suggestion
        go_on.set()
        await settled(app, pilot)
        assert choices(app)[0] == "b/gate.py"
        assert app.pane.composer.popup.highlighted_suggestion == chosen


async def test_a_new_mention_lists_the_files_again() -> None:
    files = ["a/gate.py", "b/gate.py"]
    async with chatting(files=lambda: list(files)) as (app, pilot):
        await pilot.press(*"@gate")
        await settled(app, pilot)
        assert choices(app) == files
        await pilot.press("escape")
        files[:] = ["b/gate.py", "c/gate.py"]
        await pilot.press("backspace")
        await settled(app, pilot)
        assert choices(app) == files
