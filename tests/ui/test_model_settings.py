"""What is set for models alone, in the running app: over the wire, and on its screen."""

import tomllib
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from app.config.settings import load_configuration
from app.llm.capabilities.model_list import ListedModel
from app.llm.capabilities.profiles import replace_learned_fields
from app.runtime.model_connection import LearnedProfileStore
from app.ui.screens.settings_screen import SETTING_GROUPS as SETTINGS
from tests.ui.running_app import Running, running
from tests.wire.replies import Turn
from tests.wire.server import WireServer


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


async def test_each_model_gets_its_settings_below_effort(tmp_path: Path, server: WireServer, file: Path) -> None:
    file.write_text(
        'reasoning_effort = "low"\n[request]\ntop_p = 0.5\n'
        '[models."test-*"]\nreasoning_effort = "high"\nrequest = { seed = 7 }\n'
        "[models.other]\nrequest = { top_p = 0.9 }\ncontext_window = 16000\n"
    )
    (file.parent / "commands").mkdir()
    (file.parent / "commands" / "look.md").write_text("---\nmodel: other\n---\nLook.\n")
    server.always(Turn("Hello."))
    async with running(tmp_path, server) as run:
        await run.say("/look")
        await run.say("one")
        await run.command("model other")
        await run.see("From the next turn on: other.")
        await run.say("two")
        assert run.app.require_session().ports.model.profile.context_window == 16000
        await run.command("effort minimal")
        await run.see("minimal")
        await run.say("three")
        await run.command("model test-model")
        await run.see("From the next turn on: test-model.")
        await run.say("four")
        fields = ("model", "reasoning_effort", "top_p", "seed")
        assert [tuple(map(request.body.get, fields)) for request in server.requests] == [
            ("other", "low", 0.9, None),
            ("test-model", "high", 0.5, 7),
            ("other", "low", 0.9, None),
            ("other", "minimal", 0.9, None),
            ("test-model", "minimal", 0.5, 7),
        ]


async def opened(run: Running, name: str) -> None:
    await run.command("model", "ModelPickerScreen")
    await run.see("test-model")
    run.app.screen.query_one(Input).value = name
    await run.painted()
    await run.screen("ModelSettingsScreen", "ctrl+e")


async def written(run: Running, row: int, text: str) -> None:
    run.app.screen.query_one(OptionList).highlighted = row
    await run.pilot.press("enter")
    run.app.screen.query_one("#setting-field", Input).value = text
    await run.pilot.press("enter")
    await run.painted()


async def test_a_model_setting_is_saved_and_removed(tmp_path: Path, server: WireServer, file: Path) -> None:
    before = '# mine\nreasoning_effort = "low"  # quiet\n\n[request]\ntop_p = 0.5\n'
    file.write_text(before)
    server.always(Turn("Hello."))
    async with running(tmp_path, server) as run:
        await opened(run, "test-model")
        await run.see("yours, for all models", "low", "–")
        assert "None" not in run.text
        await run.pilot.press("enter")
        await run.see("medium", "yours, for this model", "Saved")
        await written(run, 1, "16000")
        await written(run, 2, "input = 5, output = 25.5")
        await run.see("input = 5, output = 25.5")
        await written(run, 5, "seed = 7")
        await run.see("top_p = 0.5, seed = 7")
        run.app.screen.query_one(OptionList).highlighted = 4
        await run.pilot.press("left")
        await run.see("Takes images: no. Saved.")
        assert file.read_text().startswith(before)
        assert tomllib.loads(file.read_text())["models"] == {
            "test-model": {
                "reasoning_effort": "medium",
                "context_window": 16000,
                "price": {"input": 5, "output": 25.5},
                "request": {"seed": 7},
                "profile": {"images_supported": False},
            }
        }
        await run.screen("Workbench", "escape", "escape")
        await run.say("one")
        assert server.last.body["reasoning_effort"] == "medium" and server.last.body["seed"] == 7
        profile = run.app.require_session().ports.model.profile
        assert (profile.context_window, profile.images_supported) == (16000, False)
        await run.pilot.resize_terminal(60, 20)
        await opened(run, "test-model")
        for row in range(6):
            run.app.screen.query_one(OptionList).highlighted = row
            await run.pilot.press("delete")
            await run.painted()
            await run.see("not set for this model" if row == 3 else "no longer set")
        assert file.read_text().rstrip() == before.rstrip()
        await run.screen("Workbench", "escape", "escape")
        await run.say("two")
        assert server.last.body["reasoning_effort"] == "low" and "seed" not in server.last.body


async def test_any_model_name_is_stored_unchanged(tmp_path: Path, server: WireServer, file: Path) -> None:
    file.write_text("[[check]]\nname = 'a'\nrun = 'true'\n")
    names = ('a.b "quoted"/c\'d', "x[/]y [@click=app.bell]z[/] \x1b]0;owned\x07 \u202egnp", "m[1m]")
    async with running(tmp_path, server) as run:
        for name in names:
            screen = run.app.controllers.connector.model_settings_screen(ListedModel(name, context_window=9000))
            run.app.push_screen(screen)
            await run.screen("ModelSettingsScreen")
            await run.see("9000", "the server's list")
            await run.pilot.press("enter")
            await run.see("Saved")
            assert tomllib.loads(file.read_text())["models"][name] == {"reasoning_effort": "none"}
            assert "\x1b" not in run.text and "owned" not in run.app.title
            await run.screen("Workbench", "escape")
    settings = load_configuration(user_file=file, workspace_file_content=b"", flags={}, environment={}).settings
    assert {name: model.reasoning_effort for name, model in settings.models.items()} == dict.fromkeys(names, "none")


async def test_an_invalid_model_setting_is_reported_and_changes_nothing(
    tmp_path: Path, server: WireServer, file: Path
) -> None:
    file.write_text("# mine\n")
    async with running(tmp_path, server) as run:
        await opened(run, "test-model")
        for row, text, said in (
            (1, "many", "Context window takes a number."),
            (1, "10", "greater than or equal to 1000"),
            (2, "five", "Write Price like this: input = 5"),
            (2, "input = 5", "output: this is missing"),
            (5, "messages = []", "messages is signoff's own field"),
        ):
            await written(run, row, text)
            await run.see(said)
            await run.pilot.press("escape")
        run.app.screen.query_one(OptionList).highlighted = 1
        await run.pilot.press("left", "enter")
        run.app.screen.query_one(OptionList).focus()
        await run.pilot.press("delete", "right")
        assert "not set for this model" not in run.text, "while a value is written"
        await run.screen("ModelPickerScreen", "escape", "escape")
        run.app.screen.query_one(Input).value = "qwen*"
        await run.painted()
        await run.screen("ModelSettingsScreen", "ctrl+e")
        await run.pilot.press("enter")
        await run.see("which match other names")
        assert file.read_text() == "# mine\n"


async def test_learned_settings_and_overrides_are_shown(tmp_path: Path, server: WireServer, file: Path) -> None:
    file.write_text('[models.test-model]\nreasoning_effort = "high"\n')
    async with running(tmp_path, server) as run:
        endpoint = run.app.require_session().ports.model.endpoint
        replace_learned_fields(LearnedProfileStore(run.runtime.sessions), endpoint, {"context_window": 7777})
        await opened(run, "test-model")
        await run.see("7777", "learned of the server")
        await run.screen("Workbench", "escape", "escape")
        await run.command("settings", "SettingsScreen")
        titles = [row.key for _, group in SETTINGS for row in group]
        await run.pilot.press(*["down"] * titles.index("reasoning_effort"), "enter")
        await run.see("the model in use has its own value")
