"""The screens over the workbench: what they show, what they write, and how they are left."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from textual.command import CommandList
from textual.widgets import Input

from app.agent.limits import SessionLimits
from app.keys.actions import ACTIONS
from app.keys.keymap import effective_keys, key_display_name
from app.llm.endpoint_doctor import CHECKS, DoctorCheckResult, EndpointDiagnosis
from app.llm.values.endpoint import EndpointProfile
from app.proposals.values.proposal_errors import InvalidUserEdit
from app.storage.process_coordination import SessionLock
from app.tools.base.command_forms import AllowableCommandPattern
from app.ui.screens.edit_screens import EditProposedFileScreen
from app.ui.screens.report_screens import describe_diagnosis_conclusion
from app.ui.screens.sessions_screen import SessionPickerScreen, format_age
from app.ui.screens.settings_screen import SETTING_GROUPS
from app.ui.themes.first_theme import STANDARD_THEME
from app.workspace import trust
from tests.pilots import wait_until_idle
from tests.ui.running_app import Running, running, staged
from tests.ui.test_input_order import hand_in
from tests.wire.replies import Turn
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE
from widgets.common.key_hints import WrappedKeyHints
from widgets.review.review_messages import EditProposedFile

HOSTILE = "x[/]y [@click=app.bell]z[/] [red]r[/] a[0] \x1b]0;owned\x07 \u202egnp [link=https://e]l[/link]"


def test_the_age_of_a_session_is_shown_in_its_largest_unit() -> None:
    told = {59: "just now", 60: "1 minute ago", 7_199: "1 hour ago", 7_200: "2 hours ago", 400_000: "4 days ago"}
    assert {seconds: format_age(seconds) for seconds in told} == told


async def test_store_errors_are_shown_and_leave_the_session_open(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.say("An answer.")
        await run.say("about the moon")
        await run.app.controllers.commands.run("new")
        with run.without("sessions"):
            await run.command("sessions")
            await run.told("no such table: sessions")
            await run.pilot.press("escape")
        await run.command("sessions", "SessionPickerScreen")
        await run.see("An answer.")
        with run.without("events"):
            await run.write("moon")
            await run.told("no such table: events")
        for key, table in (("ctrl+t", "sessions"), ("ctrl+d", "sessions")):
            await run.pilot.press("backspace")
            await run.see("An answer.")
            with run.without(table):
                await run.pilot.press(key)
                if key == "ctrl+d":
                    await run.screen("ConfirmScreen")
                    await run.screen("SessionPickerScreen", "y")
                await run.told(f"no such table: {table}")
        (kept,) = run.runtime.sessions.all()
        assert not kept.pinned
        await run.pilot.press("escape")
        session = run.app.require_session()
        with run.without("sessions"):
            await run.command("new")
            await run.notified("no such table: sessions")
        assert run.app.require_session() is session
        await run.write("a draft")
        await run.until(lambda: "a draft" in str(run.runtime.sessions.settings(f"draft:{session.id}")), "the draft")


async def test_a_setting_takes_effect_keeps_comments_and_is_refused_if_invalid(
    tmp_path: Path, server: WireServer, home: Path
) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(before := '# mine\nnotify = "off"  # quiet\n')
    rows = [row.key for _, group in SETTING_GROUPS for row in group]
    async with running(tmp_path, server, size=(160, 45)) as run:

        async def enter(text: str, *seen: str) -> None:
            run.app.screen.query_one("#setting-field", Input).value = text
            await run.pilot.press("enter")
            await run.see(*seen)

        await run.pilot.press("f3")
        await run.until(lambda: run.reviewed, "the review")
        session, model = run.app.require_session(), run.app.workbench.review.view.model
        await run.command("settings", "SettingsScreen")
        await run.pilot.press(*["down"] * rows.index("chain_steps"), "enter")
        await enter("many", "Chain takes a number.")
        await enter("999", "Not saved", "less than or equal to 50")
        assert run.app.settings.chain_steps == 3 and file.read_text() == before
        await run.screen("Workbench", "escape", "escape")
        await run.command("settings", "SettingsScreen")
        await run.pilot.press("down", "down", "enter")
        await run.see("Saved")
        assert run.app.settings.wrap is model.wrap is False
        assert file.read_text() == f"{before}wrap = false\n"
        await run.pilot.press("down", "enter")
        await run.until(lambda: model.shows_white_space is False, "the setting in force")
        await run.pilot.press(*["down"] * (rows.index("max_cost") - 3), "enter")
        await enter("cheap", "Cost of a session takes an amount")
        await enter("0", "Not saved", "greater than 0")
        await enter("2.5", "Cost of a session: 2.50. Saved.")
        await run.pilot.press("down", "enter")
        await enter("soon", "Not saved", "90s")
        await enter("1h30m", "Time of a session: 1h30m. Saved.")
        assert 'max_cost = 2.5\nmax_time = "1h30m"\n' in file.read_text()
        assert session.settings.limits == SessionLimits(2.5, 5400.0)
        await run.pilot.press("enter")
        assert run.app.screen.query_one("#setting-field", Input).value == "1h30m"
        await enter("", "Time of a session: –. Saved.")
        assert session.settings.limits == SessionLimits(2.5, None)


async def test_allowed_commands_can_be_revoked_and_trust_covers_the_shown_content(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        allowed = run.runtime.allowed_commands
        for words in (("pytest",), ("git", "diff", HOSTILE)):
            allowed.add(AllowableCommandPattern(words, open=True).dump())
        await run.command("settings", "SettingsScreen")
        titles = [row.title for _, group in SETTING_GROUPS for row in group]
        await run.pilot.press(*["down"] * titles.index("Allowed commands"), "right")
        assert type(run.app.screen).__name__ == "SettingsScreen", "there is no next value"
        with run.without("allowed_commands"):
            await run.screen("AllowedCommandsScreen", "enter")
            await run.told("no such table: allowed_commands")
            await run.pilot.press("ctrl+d", "escape")
        await run.screen("AllowedCommandsScreen", "enter")
        await run.see("pytest …", "git diff", "a[0]", "2 allowed")
        await run.write("pyt")
        with run.without("allowed_commands"):
            await run.pilot.press("ctrl+d")
            await run.told("no such table: allowed_commands")
        await run.pilot.press("ctrl+d")
        await run.see("1 allowed")
        assert [AllowableCommandPattern.load(text).words[0] for text in allowed.forms()] == ["git"]
        await run.screen("Workbench", "escape", "escape")
        file = run.runtime.workspace.root / ".signoff.toml"
        await run.command("wrap off")
        for text, said in (("", "there is nothing to trust"), ("max_steps = [", ".signoff.toml cannot be used")):
            if text:
                file.write_text(text)
            await run.command("trust", "ConfigTrustScreen")
            await run.told(said)
            assert "trust exactly" not in run.text and "It sets nothing" not in run.text
            await run.screen("Workbench", "y", "escape")
        await wait_until_idle(run.pilot)
        assert run.runtime.sessions.settings("trust") == {}
        assert run.app.settings.wrap is False, "what was set for the moment is still in force"
        # Trust is given to the very bytes that were shown.
        file.write_text("max_steps = 7\n")
        await run.command("trust", "ConfigTrustScreen")
        await run.see("max_steps = 7", "Not trusted yet: max_steps")
        assert "In force without trust" not in run.text and "Never taken" not in run.text
        with run.without("settings"):
            await run.pilot.press("y")
            await run.told("no such table: settings")
        file.write_text("max_steps = 900\n")
        await run.pilot.press("y")
        await run.until(lambda: trust.is_trusted(b"max_steps = 7\n", run.runtime.sessions), "the trust")
        await run.screen("Workbench")
        await wait_until_idle(run.pilot)
        assert run.app.settings.max_steps == 50, "what came after the look is not trusted"
        assert not trust.is_trusted(file.read_bytes(), run.runtime.sessions)
        file.write_text("max_steps = 7\n")
        await run.app.controllers.preferences.reload()
        assert run.app.settings.max_steps == 7


async def test_themes_are_previewed_at_the_cursor_and_a_broken_one_is_reported(
    tmp_path: Path, server: WireServer, home: Path
) -> None:
    themes = home / "config" / "themes"
    themes.mkdir(parents=True)
    (themes / "bad.toml").write_text('name = "bad"\nprimary = "no colour"\n')
    (themes / "mine.toml").write_text('name = "mine"\nprimary = "#ff00ff"\n')
    async with running(tmp_path, server) as run:
        await run.see("bad.toml")
        assert "mine" in run.app.available_themes and "bad" not in run.app.available_themes
        run.app.clear_notifications()
        await run.command("theme", "ThemePickerScreen")
        await run.see("model must wait", "low = high()")
        tried: list[str] = []
        run.app.theme_changed_signal.subscribe(run.app.screen, lambda theme: tried.append(theme.name))
        hand_in(run.app, "mono")
        await run.until(lambda: tried, "another theme")
        assert tried == ["monokai"]
        hand_in(run.app, "down", "escape")
        await run.screen("Workbench")
        await run.until(lambda: all(one.group != "try on" for one in run.app.workers), "the trial to be over")
        assert run.app.theme == STANDARD_THEME
        # A theme is tried on and taken off again.
        before = run.app.theme
        await run.command("theme", "ThemePickerScreen")
        await run.pilot.press("f3", "f1", "down")
        await run.until(lambda: run.app.theme != before, "another theme")
        assert type(run.app.screen).__name__ == "ThemePickerScreen", "the keys of the panes are not its"
        await run.screen("Workbench", "escape")
        assert run.app.theme == before and run.app.focused is run.app.workbench.composer.editor
        await run.command("theme signoff-light")
        await run.until(lambda: run.app.theme == "signoff-light")
        assert 'theme = "signoff-light"' in (home / "config" / "config.toml").read_text()


async def test_help_and_greeting_show_the_keys_of_the_keymap(tmp_path: Path, server: WireServer) -> None:
    keymap = {
        "review.approve": "ctrl+y",
        "app.new": "ctrl+f8,ctrl+f9,ctrl+f10,ctrl+f11",
        "app.settings": "f9",
        "app.previous_pane": "f8",
    }
    async with running(tmp_path, server, size=(120, 200), keys=keymap) as run:
        await run.see("you sign off", "Ctrl+Y approve", "n deny")
        server.say("Hello.")
        await run.say("hello")
        assert "you sign off" not in run.text
        await run.screen("SettingsScreen", "f9")
        await run.pilot.press("escape")
        await run.command("help", "HelpScreen")
        run.app.screen.query_one("#dialog").styles.height = 198
        await run.see(
            "Ctrl+Y",
            "F9",
            "F8",
            "Tab",
            "Mention a file.",
            "go back to what you sent before",
            *(key_display_name(key) for action in ACTIONS for key in effective_keys(action, keymap)),
        )
        rows = run.text.splitlines()
        at = next(number for number, row in enumerate(rows) if "Ctrl+F11" in row)
        assert ["Start a new session." in row for row in rows[at : at + 2]] == [False, True], (
            "many keys have their own line"
        )
        assert run.text.count("Pick an earlier session") == 1, "what has no key stands among the commands alone"
        await run.pilot.resize_terminal(40, 200)
        await run.see("  Write the chosen")
        await run.screen("Workbench", "escape")
        for key, reaches_transcript in (("shift+tab", False), ("f8", True), ("tab", False)):
            await run.pilot.press(key)
            assert run.app.workbench.chat.transcript.has_focus is reaches_transcript


def is_bound(run: Running, action: str) -> bool:
    """Whether a key does this where the focus is."""
    return any(active.binding.id == action for active in run.app.screen.active_bindings.values())


async def test_a_keymap_with_conflicting_decision_keys_is_refused(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, keys={"review.approve": "n", "app.settings": "f9"}) as run:
        await run.see("standard keys are in force")
        await run.pilot.press("f9")
        assert type(run.app.screen).__name__ == "Workbench"


async def test_doctor_examines_the_wire_of_the_configuration(tmp_path: Path, server: WireServer) -> None:
    server.always(Turn("ok"))
    server.wires = {"chat": NOT_THERE, "anthropic": None, "responses": NOT_THERE}
    async with running(tmp_path, server, wire="anthropic") as run:
        await run.command("doctor", "EndpointDoctorScreen")
        await run.until(lambda: "examining" not in run.text, "the end")
        await run.see("Anthropic messages; ")
    assert {request.wire for request in server.requests} == {"anthropic"}


async def test_doctor_shows_findings(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    server.always(Turn("ok"))
    async with running(tmp_path, server) as run:
        await run.command("doctor", "EndpointDoctorScreen")
        await run.see("Reachable", "Streaming", "System messages", "Commands", server.base_url)
        # What becomes of what they change depends on whether there can be a layer.
        await run.until(lambda: "proposal" in run.text or "is put back" in run.text, "what commands may do")
        await run.until(lambda: "examining" not in run.text, "the end")
        await run.see("Learned")
        with monkeypatch.context() as short:
            short.setattr(asyncio, "to_thread", no_thread)
            await run.pilot.press("r")
            await run.told("The examination ended early: can't start new thread")
        await run.screen("Workbench", "escape")


def test_the_doctor_lists_workarounds_only_if_some_are_needed() -> None:
    checks = tuple(DoctorCheckResult(name, True, "") for name in CHECKS)
    assert (
        describe_diagnosis_conclusion(EndpointDiagnosis(checks, EndpointProfile(), False, "Nothing answers.")).plain
        == "Nothing answers."
    )
    assert (
        describe_diagnosis_conclusion(EndpointDiagnosis(checks, EndpointProfile(), True, "")).plain
        == "Everything works."
    )
    assert (
        "works around"
        in describe_diagnosis_conclusion(
            EndpointDiagnosis((*checks, DoctorCheckResult("usage", None, "")), EndpointProfile(), True, "")
        ).plain
    )


def found_first(found: CommandList) -> str:
    """What Enter would open in the palette."""
    option = found.highlighted_option if found.option_count == 1 else None
    return str(option.prompt) if option else ""


async def test_a_dialog_is_closed_by_mouse_and_opened_from_the_palette(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    async with running(tmp_path, server) as run:
        await run.command("gate", "GatePolicyPickerScreen")
        hints = run.app.screen.query_one(WrappedKeyHints)
        at = str(hints.render()).index("cancel")
        await run.pilot.click(WrappedKeyHints, offset=(0, 0))
        assert type(run.app.screen).__name__ == "GatePolicyPickerScreen", "beside the keys"
        await run.pilot.click(WrappedKeyHints, offset=(at + 1, 0))
        await run.screen("Workbench")
        await run.command("gate", "GatePolicyPickerScreen")
        await run.pilot.click(offset=(1, 1))
        await run.screen("Workbench")
        await wait_until_idle(run.pilot)
        assert not run.app._notifications, "there is nothing to tell"
        # No editor is one line.
        await run.write("some words")
        await run.pilot.press("ctrl+g")
        await run.see("No editor is set")
        assert run.app.workbench.composer.draft == "some words"
        # The palette offers the same commands.
        await run.screen("CommandPalette", "ctrl+p")
        await run.write("gate policy")
        found = run.app.screen.query_one(CommandList)
        await run.until(lambda: "gate policy" in found_first(found).lower(), "what was looked for")
        await run.screen("GatePolicyPickerScreen", "enter")
        await run.pilot.press("down", "down", "enter")
        await run.until(lambda: run.app.settings.gate == "chain", "the policy")


async def test_sessions_are_filtered_and_deleted_except_the_open_one(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        # Empty and filtered lists say so.
        await run.command("sessions", "SessionPickerScreen")
        await run.see("No session here yet")
        await run.pilot.press("ctrl+d", "ctrl+r", "ctrl+t")
        await run.painted()
        assert isinstance(run.app.screen, SessionPickerScreen)
        await run.pilot.press("escape")
        await run.command("theme", "ThemePickerScreen")
        await run.write("zzqq")
        await run.see("Nothing matches")
        # Sessions are searched looked into and deleted.
        await run.screen("Workbench", "escape")
        for question in ("about the moon", "about the sea"):
            server.say(f"An answer {question}.")
            await run.app.controllers.commands.run("new")
            await run.say(question)
        await run.command("sessions", "SessionPickerScreen")
        await run.see("about the moon", "about the sea")
        # A change keeps the cursor on the session.
        await run.pilot.press("down", "ctrl+t")
        await run.until(lambda: run.runtime.sessions.all()[1].pinned)
        await run.see("pinned")
        await run.pilot.press("ctrl+t")
        await run.until(lambda: not any(one.pinned for one in run.runtime.sessions.all()), "unpinned")
        await run.write("moon")
        await run.see("An answer about the moon.")
        assert "about the sea" not in run.text.split("Sessions")[1].split("type to search")[0]
        elsewhere = SessionLock(run.runtime.dirs.session_lock(run.runtime.sessions.all()[1].id))
        elsewhere.acquire()
        await run.pilot.press("ctrl+d")
        await run.see("this one is open in another window")
        elsewhere.release()
        await run.screen("ConfirmScreen", "ctrl+d")
        await run.screen("SessionPickerScreen", "n")
        assert len(run.runtime.sessions.all()) == 2
        await run.screen("ConfirmScreen", "ctrl+d")
        await run.pilot.press("y")
        await run.until(lambda: len(run.runtime.sessions.all()) == 1, "the deletion")
        assert run.runtime.sessions.all()[0].title == "about the sea"
        # The open session is not deleted.
        await run.screen("Workbench", "escape")
        server.say("An answer.")
        await run.say("a question")
        await run.command("sessions", "SessionPickerScreen")
        await run.see("a question")
        await run.pilot.press("ctrl+d")
        await run.see("this one is open")
        assert isinstance(run.app.screen, SessionPickerScreen)


async def test_keys_listed_in_help_are_bound_and_escape_confirms_after_an_edit(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    async with staged(tmp_path, server) as run:
        await run.review()
        assert run.app.controllers.review is not None
        with pytest.raises(InvalidUserEdit, match=r"P1 has no text to edit at gone\.py"):
            await run.app.controllers.review.actions.edit_file(EditProposedFile("P1", "gone.py", 0))
        await run.until(run.can_decide, "the picture")
        await run.screen("EditProposedFileScreen", "e")
        await run.see("greet.py", "line 2, column 1")
        await run.write("x")
        await run.see("changed, not saved")
        await run.pilot.press("ctrl+g")
        await run.see("No editor is set")
        with run.without("proposals"):
            await run.pilot.press("ctrl+s")
            await run.told("no such table")
        assert isinstance(run.app.screen, EditProposedFileScreen) and run.app.screen.has_changes, (
            "it can be saved again"
        )
        await run.screen("ConfirmScreen", "escape")
        await run.screen("EditProposedFileScreen", "n")
        await run.screen("ConfirmScreen", "escape")
        await run.screen("Workbench", "y")
        assert run.proposals[0].revision == 1
        # The keys of help are bound.
        # What takes back, answers a tool that asks or is about checks is bound once there is something for it.
        of_other_times = {
            *("review.undo", "review.redo", "review.allow_session", "review.allow_project"),
            *("review.narrower", "review.wider", "review.next_origin"),
            *("review.checks", "review.run_checks", "review.send_findings", "review.reproduce"),
        }
        for scopes, key in ((("app", "composer"), "f2"), (("app", "review", "diff"), "f3"), (("review",), "f4")):
            await run.pilot.press(key)
            expected = {action.id for action in ACTIONS if action.scope in scopes and action.keys}
            for action in sorted(expected - of_other_times):
                await run.until(partial(is_bound, run, action), f"{action} after {key}")
        await run.review()
        for key, taken_back in (("y", "review.undo"), ("u", "review.redo")):
            assert not is_bound(run, taken_back)
            await run.pilot.press(key)
            if key == "y":
                # Nothing waits any more, so the keys are the chat's again.
                await run.until(lambda: run.app.focused is run.app.workbench.composer.editor, "the keys in the chat")
                await run.pilot.press("f4")
            await run.until(partial(is_bound, run, taken_back), taken_back)
            await run.until(run.can_decide, "the moment to decide")
