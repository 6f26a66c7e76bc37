"""Completion: files after @, commands after /, and a hundred thousand names without a stutter."""

import asyncio
from threading import Event

from textual.pilot import Pilot

from tests.ui.chat_app import ChatApp
from widgets.chat.composer import Composer
from widgets.chat.fuzzy import Names, is_subsequence
from widgets.chat.popup import Popup, Suggestion

FILES = ["README.md", "app/ui/app.py", "app/agent/gate.py", "tests/test_gate.py", "docs/a file.md", "app/x[/]y.py"]


async def settled(app: ChatApp, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


def choices(app: ChatApp) -> list[str]:
    return [row[2:].split("  ")[0] for row in app.pane.composer.popup.render().plain.split("\n")]


async def test_an_at_sign_completes_files() -> None:
    app = ChatApp(files=FILES)
    async with app.run_test() as pilot:
        await pilot.press(*"look at @gate")
        await settled(app, pilot)
        assert choices(app) == ["app/agent/gate.py", "tests/test_gate.py"]
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.pane.composer.draft == "look at @tests/test_gate.py "
        assert app.said == []
        assert not app.pane.composer.popup.is_open


async def test_completion_by_tab_and_left_by_escape() -> None:
    app = ChatApp(files=FILES)
    async with app.run_test() as pilot:
        await pilot.press(*"@rdme")
        await settled(app, pilot)
        await pilot.press("tab")
        await pilot.pause()
        assert app.pane.composer.draft == "@README.md "
        await pilot.press(*"@ma")
        await settled(app, pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert not app.pane.composer.popup.is_open
        assert app.pane.composer.draft == "@README.md @ma"


async def test_files_that_are_listed_more_slowly_than_one_types_are_offered_nevertheless() -> None:
    listed = Event()

    def list_files() -> list[str]:
        listed.wait(30)
        return FILES

    app = ChatApp(files=list_files)
    async with app.run_test() as pilot:
        await pilot.press(*"@ga")
        await pilot.press("t", "tab")
        assert app.pane.composer.editor.has_focus
        listed.set()
        await settled(app, pilot)
        assert choices(app) == ["app/agent/gate.py", "tests/test_gate.py"]


async def test_a_name_with_a_space_is_quoted_and_markup_is_text() -> None:
    app = ChatApp(files=FILES)
    async with app.run_test() as pilot:
        await pilot.press(*"@a f")
        await pilot.press("backspace", "backspace", "backspace", *"afile")
        await settled(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert app.pane.composer.draft == '@"docs/a file.md" '
        composer_choices = app.pane.composer
        composer_choices.draft = ""
        await pilot.press(*"@x[")
        await settled(app, pilot)
        assert choices(app) == ["app/x[/]y.py"]


async def test_an_at_sign_inside_a_word_completes_nothing() -> None:
    app = ChatApp(files=FILES)
    async with app.run_test() as pilot:
        await pilot.press(*"me@main")
        await settled(app, pilot)
        assert not app.pane.composer.popup.is_open


async def test_a_slash_completes_commands() -> None:
    app = ChatApp()
    async with app.run_test() as pilot:
        await pilot.press("slash")
        await pilot.pause()
        assert choices(app) == ["/compact", "/model", "/new"]
        await pilot.press(*"mo", "enter")
        await pilot.pause()
        assert app.said == [Composer.CommandEntered("model", "")]
        assert app.pane.composer.is_empty


async def test_a_command_is_found_by_a_word_of_its_title_from_its_beginning() -> None:
    app = ChatApp()
    async with app.run_test() as pilot:
        await pilot.press(*"/roo")
        await pilot.pause()
        assert choices(app) == ["/compact"]
        await pilot.press("backspace", "backspace", "backspace", *"oom")
        await pilot.pause()
        assert not app.pane.composer.popup.is_open


async def test_a_command_takes_an_argument() -> None:
    app = ChatApp()
    async with app.run_test() as pilot:
        await pilot.press(*"/mo", "tab", *"big one", "enter")
        await pilot.pause()
        assert app.said == [Composer.CommandEntered("model", "big one")]


async def test_an_unknown_command_is_kept_and_not_sent() -> None:
    app = ChatApp()
    async with app.run_test(notifications=True) as pilot:
        await pilot.press(*"/modle", "enter")
        await pilot.pause()
        assert app.said == []
        assert app.pane.composer.draft == "/modle"


async def test_a_path_at_the_start_is_a_message() -> None:
    app = ChatApp()
    async with app.run_test() as pilot:
        await pilot.press(*"/usr/bin is odd", "enter")
        await pilot.pause()
        assert app.said == [Composer.Submitted("/usr/bin is odd")]


async def test_the_list_can_be_used_with_the_mouse() -> None:
    app = ChatApp(files=FILES)
    async with app.run_test() as pilot:
        await pilot.press(*"@gate")
        await settled(app, pilot)
        await pilot.click(app.pane.composer.popup, offset=(4, 1))
        await pilot.pause()
        assert app.pane.composer.draft == "@tests/test_gate.py "
        await pilot.press(*"@gate")
        await settled(app, pilot)
        # The cursor has left the name, and the list does not know it yet.
        app.pane.composer.editor.move_cursor((0, 0))
        app.pane.composer.take_clicked(Popup.Chosen(Suggestion("app/agent/gate.py", "app/agent/gate.py")))
        assert app.pane.composer.draft == "@tests/test_gate.py @gate"


async def test_the_best_names_come_first() -> None:
    names = Names(["src/mainline/x.py", "src/main.py", "lib/domain.py", "m/a/i/n.txt", "src/the_main.py"])
    assert await names.search("main") == [
        "src/main.py",
        "src/the_main.py",
        "lib/domain.py",
        "src/mainline/x.py",
        "m/a/i/n.txt",
    ]
    assert await names.search("nothing") == []
    assert await names.search("") == list(names.names)


async def test_a_longer_query_and_a_fresh_one_find_the_same() -> None:
    paths = [f"pkg{index % 13}/mod_{index}/file_{index * 7 % 97}.py" for index in range(5000)]
    grown = Names(paths)
    for query in ("f", "fi", "file_3", "file_31"):
        assert await grown.search(query) == await Names(paths).search(query)
    assert await grown.search("mod_4") == await Names(paths).search("mod_4")


async def test_searching_many_names_lets_others_run_and_can_be_given_up() -> None:
    names = Names([f"folder_{index % 1000}/deep/module_{index}.py" for index in range(100_000)])
    pauses: list[int] = []
    await names.search("mo9", lambda: pauses.append(1))
    assert len(pauses) > 3
    task = asyncio.create_task(names.search("x8"))
    await asyncio.sleep(0)
    task.cancel()
    assert await asyncio.gather(task, return_exceptions=True)
    assert len(await names.search("module_77")) == 50


def test_subsequences() -> None:
    assert is_subsequence("abc", "xaxbxc")
    assert not is_subsequence("abc", "acb")
