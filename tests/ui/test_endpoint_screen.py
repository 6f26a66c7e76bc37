"""A key or an address that is written where no model is set up: kept, used at once, and never shown."""

import stat
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from textual import events
from textual.widgets import Input

from app.config.settings import read_configuration
from app.llm.endpoint_doctor import DetectedLocalServer
from app.ui.screens import setup_screens
from app.ui.screens.settings_screen import SETTING_GROUPS
from tests.pictures import paint_everything
from tests.ui.running_app import Running, running
from tests.waiting import until
from tests.wire.server import Turn, WireServer

KEY = "sk-abcdef0123456789"
COMMENTED = '# My own words\ntheme = "signoff-light"  # by day\n\n[keys]\n"review.approve" = "Y"\n'


async def writing(run: Running) -> None:
    await run.screen("ModelSetupScreen")
    await run.see("Another model", "on this machine")
    await run.screen("EndpointScreen", "up", "enter")


async def paste(run: Running, text: str, field: str = "key") -> None:
    field_widget = run.app.screen.query_one(f"#endpoint-{field}", Input)
    field_widget.focus()
    field_widget.post_message(events.Paste(text))
    await run.until(lambda: field_widget.value.strip() == text.strip(), "what was pasted")


def told(run: Running) -> str:
    """The words on the screen, parted by single spaces."""
    return " ".join(run.text.replace("│", " ").split())


async def test_a_key_is_stored_privately_and_used(tmp_path: Path, server: WireServer, home: Path) -> None:
    server.always(Turn("Hello."))
    async with running(tmp_path) as run:
        config = run.runtime.dirs.config_file
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(COMMENTED)
        config.chmod(0o644)
        await writing(run)
        await paste(run, KEY)
        assert "Requests go to api.openai.com" in told(run)
        await paste(run, f"{server.base_url} ", "address")
        assert "Requests go to 127.0.0.1" in told(run)
        assert KEY not in run.text and KEY[:6] not in run.text
        await run.screen("ModelPickerScreen", "enter")
        await run.see("test-model")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.current_session is not None, "the session")
        await run.say("hello")
        assert server.last.headers["authorization"] == f"Bearer {KEY}"
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        kept = config.read_text()
        assert read_configuration(config) == {
            "theme": "signoff-light",
            "api_key": KEY,
            "base_url": server.base_url,
            "keys": {"review.approve": "Y"},
        }
        assert all(line in kept.splitlines() for line in COMMENTED.splitlines())
    found = [path for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert found == [config], "nowhere else"
    async with running(tmp_path) as run:
        await run.until(lambda: run.app.current_session is not None, "the session, and no question")
        assert run.app.settings.base_url == server.base_url


async def test_invalid_key_or_address_is_refused_and_a_broken_file_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await writing(run)
        config = run.runtime.dirs.config_file
        for field, text, words in (
            ("key", "sk-ant-0123456789", "Requests go to api.anthropic.com"),
            ("address", "https://models.example/v1", "Requests go to models.example"),
            ("key", "", "Write a key, an address, or both."),
            ("key", "schlüssel", "a key is one line of ASCII characters"),
            ("address", "models.example/v1", "it lacks http:// or https://"),
            ("address", "https://models.example:99999/v1", "port 99999 does not exist"),
            ("key", KEY, "cannot be written"),
        ):
            for every in ("key", "address"):
                run.app.screen.query_one(f"#endpoint-{every}", Input).value = ""
            await paste(run, text, field)
            if words == "cannot be written":
                config.parent.mkdir(parents=True, exist_ok=True)
                config.write_text("theme = [")
            if not words.startswith("Requests"):
                await run.pilot.press("enter")
            await run.until(lambda words=words: words in told(run), words)  # type: ignore[misc]
            assert not config.exists() or config.read_text() == "theme = ["
            assert type(run.app.screen).__name__ == "EndpointScreen"


async def test_choices_and_keys_of_the_set_up_are_in_sight_on_a_small_screen(tmp_path: Path) -> None:
    async with running(tmp_path, size=(40, 15)) as run:
        await run.screen("ModelSetupScreen")
        await run.see("Another model", "The demo model", "Enter start", "Esc go on without a model")
        await run.screen("EndpointScreen", "up", "enter")
        await run.see("Key ", "Address ", "Enter save", "Esc back")


async def test_an_address_at_which_nothing_answers_is_changed_in_the_settings(
    tmp_path: Path, server: WireServer
) -> None:
    titles = [row.title for _, group in SETTING_GROUPS for row in group]
    async with running(tmp_path) as run:
        await writing(run)
        await paste(run, "http://127.0.0.1:9/v1", "address")
        await run.screen("ModelPickerScreen", "enter")
        await run.see("Nothing answers", "/settings changes the address.")
        await run.screen("Workbench", "escape")
        await run.command("settings", "SettingsScreen")
        await run.pilot.press(*["down"] * titles.index("Base URL"), "enter")
        run.app.screen.query_one("#setting-field", Input).value = server.base_url
        await run.pilot.press("enter")
        await run.see("Base URL: http://127.0.0.1", "Saved.")
        await run.screen("Workbench", "escape")
        await run.write("hello")
        await run.screen("ModelPickerScreen", "enter")
        await run.see("test-model")
        assert "No model is chosen" not in run.text, "it is about to be"


@pytest.mark.parametrize(
    ("field", "text", "called"), [("address", "https://x", "find_url_fault"), ("key", KEY, "host_and_port")]
)
async def test_crash_report_of_the_endpoint_screen_has_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, text: str, called: str
) -> None:
    def broken(url: str) -> str:
        raise LookupError("lost")

    paint_everything(monkeypatch)
    with pytest.raises(LookupError):
        async with running(tmp_path) as run:
            app = run.app
            await writing(run)
            if field == "address":
                await paste(run, KEY)
            monkeypatch.setattr(setup_screens, called, broken)
            fields = app.screen.query_one(f"#endpoint-{field}", Input)
            fields.focus()
            fields.post_message(events.Paste(text))
            await until(lambda: not app.is_running, "the end of the app")
    report = app.crash_report.getvalue()
    assert "LookupError" in report
    assert KEY not in report


async def test_commands_that_need_a_session_say_how_to_choose_a_model(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.screen("ModelSetupScreen")
        await run.screen("Workbench", "escape")
        await run.command("new")
        await run.told("No session is open yet: send a message to choose a model.")
        await run.command("model", "ModelSetupScreen")
        await run.screen("Workbench", "escape")
        await run.command("settings", "SettingsScreen")
        titles = [row.title for _, rows in SETTING_GROUPS for row in rows]
        await run.pilot.press(*["down"] * titles.index("Model"), "enter")
        await run.see("No endpoint is set: enter the base URL first")


async def test_the_chosen_local_model_is_visible_in_a_small_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [DetectedLocalServer("ollama", "http://127.0.0.1:9/v1", tuple(f"model-{number}" for number in range(7)))]
    monkeypatch.setattr("app.llm.endpoint_doctor.find_local_servers", AsyncMock(return_value=found))
    async with running(tmp_path, size=(40, 15)) as run:
        await run.screen("ModelSetupScreen")
        await run.see("7 models")
        await run.pilot.press("end")
        await run.see("The demo model")
