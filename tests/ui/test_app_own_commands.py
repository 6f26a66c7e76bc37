"""Commands of the user's own in the app: offered, trusted, called, shown."""

import shutil
from pathlib import Path

import pytest
from textual.widgets import Input

from app.prompts.custom_commands import CommandCatalogue
from tests.oracles.reading import images
from tests.ui.running_app import Running, running
from tests.unit.images.pictures import png
from tests.wire.bench import of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer

REVIEW = """\
---
description: Look [/] [bold]with care
argument-hint: "[file]"
effort: high
---
Review $1 and say what !`git status` says.
Be brief.
"""


def put(folder: Path, path: str, text: str = REVIEW) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def catalogue(run: Running) -> CommandCatalogue:
    return run.app.controllers.commands.custom_commands.catalogue


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    put(tmp_path, "workspace/greet.py", "x = 1\n")
    return tmp_path / "workspace"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    put(tmp_path, "user/.claude/commands/git/review.md")
    return tmp_path / "user"


async def test_help_and_palette_list_custom_commands_and_the_keys_of_actions(
    tmp_path: Path, user: Path, workspace: Path, server: WireServer
) -> None:
    put(user, ".claude/commands/help.md")
    put(user, ".claude/commands/broken.md", "---\nnot closed")
    async with running(
        tmp_path, server, environment={"HOME": str(user)}, size=(160, 60), keys={"review.ask": "Q"}
    ) as run:
        await run.command("help")
        await run.screen("HelpScreen")
        await run.pilot.press(*"your own", *"git:")
        await run.pilot.press("ctrl+u", *"review")
        await run.see("/git:review [file]", "~/.claude/commands/git/review.md")
        await run.pilot.press("ctrl+u")
        screen = run.app.screen
        await run.until(lambda: screen.query("#help-text"), "the text")
        screen.query_one("#help-text").scroll_end(animate=False)
        await run.see("/help is signoff's own command", "its front matter has no end")
        await run.screen("CommandPalette", "escape", "ctrl+p")
        await run.pilot.press(*"git:rev")
        await run.see("/git:review", "Look [/] [bold]with care")
        for search, line in (("prev", "Review: Previous hunk  ["), ("w: ask", "Review: Ask  Q")):
            run.app.screen.query_one(Input).value = search
            await run.see(line)
        await run.pilot.press("escape")
        put(user, ".claude/commands/late.md", "---\nnot closed")
        run.app.workbench.composer.editor.paste("/late and pasted")
        await run.until(lambda: "late" in catalogue(run).commands, "the command of a pasted line")
        await run.pilot.press("enter")
        await run.see("/late cannot be used")
        await run.command("broken now")
        await run.see("/broken cannot be used", "no end")
        assert server.requests == []


async def test_workspace_commands_are_reported_once_and_need_trust_in_their_content(
    tmp_path: Path, workspace: Path, server: WireServer
) -> None:
    put(workspace, ".signoff/commands/ship.md", "Ship it.")
    server.script([Turn("Shipped.")])
    async with running(tmp_path, server) as run:
        await run.see("commands of its own: /ship")
    async with running(tmp_path, server) as run:
        await run.until(lambda: catalogue(run).untrusted, "the look")
        await run.painted()
        assert "/ship" not in run.text
        await run.command("ship")
        await run.see("/ship is a command")
        await run.command("trust")
        await run.screen("ConfigTrustScreen")
        await run.see(".signoff/commands/ship.md", "Ship it.", "Commands not trusted yet: /ship")
        await run.pilot.press("y")
        await run.until(lambda: "ship" in catalogue(run).commands, "the command")
        await run.say("/ship")
        assert of_role(server.requests[0], "user") == ["Ship it."]
        put(workspace, ".signoff/commands/ship.md", "Ship it to me.")
        await run.command("ship")
        await run.see("/ship is a command")
        assert len(server.requests) == 1
        await run.command("trust")
        await run.screen("ConfigTrustScreen")
        await run.pilot.press("y")
        await run.until(lambda: "ship" in catalogue(run).commands, "the command")
        await run.command("trust")
        await run.screen("ConfigTrustScreen")
        await run.see("withdraw trust")
        await run.pilot.press("d")
        await run.until(
            lambda: run.app.controllers.commands.custom_commands.catalogue.untrusted == ("ship",), "no trust"
        )


async def test_a_custom_command_is_offered_read_when_used_and_shown(
    tmp_path: Path, user: Path, workspace: Path, server: WireServer
) -> None:
    put(user, ".claude/commands/look.md", "Look at @$1 closely.")
    (workspace / "shot.png").write_bytes(png(4, 3))
    server.script([Turn("All is well."), Turn("A button.")])
    server.call("ask_user", {"question": "Which one?"})
    async with running(tmp_path, server, environment={"HOME": str(user)}) as run:
        await run.write("/git")
        await run.see("› /git:review", "[file] · Look [/] [bold]with care")
        await run.pilot.press("tab")
        await run.write("@greet.py")
        await run.pilot.press("escape", "enter")
        await run.see("All is well.", "not run")
        assert of_role(server.requests[0], "user") == ["Review @greet.py and say what !`git status` says.\nBe brief."]
        assert server.requests[0].body["reasoning_effort"] == "high"
        await run.see("/git:review @greet.py", "2 lines to the model · high")
        assert "Be brief" not in run.text
        await run.pilot.press("shift+tab", "home", "enter")
        await run.see("Be brief.")
        # Files are read on use.
        put(user, ".claude/commands/newest.md", "New.")
        await run.pilot.press("f2")
        await run.write("/")
        await run.until(lambda: "newest" in catalogue(run).commands, "the second look")
        await run.write("newe")
        await run.see("› /newest")
        # Files it names are attached.
        await run.say("/look shot.png")
        assert images(server.last.body) == [("image/png", png(4, 3))]
        # A command answers no question.
        await run.say("Go")
        await run.see("Which one?")
        await run.command("git:review x")
        await run.see("answer it first")
        assert run.app.require_session().question is not None and len(server.requests) == 3


async def test_skills_are_listed_with_their_origin(tmp_path: Path, server: WireServer) -> None:
    for path, text in {
        "user/.claude/skills/release/SKILL.md": "---\ndescription: How [/] we release.\n---\n",
        "user/.agents/skills/broken/SKILL.md": "---\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    async with running(tmp_path, server, environment={"HOME": str(tmp_path / "user")}) as run:
        await run.command("skills")
        await run.screen("SkillsScreen")
        await run.see("1 skill: about", "release", "How [/] we release.", "~/.claude/skills/release/SKILL.md")
        await run.see("~/.agents/skills/broken/SKILL.md: its front matter has no end")
        await run.pilot.press("escape")
        (tmp_path / "user/.agents/skills/new").mkdir()
        (tmp_path / "user/.agents/skills/new/SKILL.md").write_text("---\ndescription: New.\n---\n")
        await run.command("skills")
        await run.see("2 skills", "/new loads the present ones")
        await run.pilot.press("escape")
        shutil.rmtree(tmp_path / "user")
        await run.command("skills")
        await run.told("There are none. A skill is a folder with a SKILL.md")
