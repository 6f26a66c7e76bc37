"""The list of skills on the screen."""

import shutil
from pathlib import Path

from tests.ui.running_app import running
from tests.wire.server import WireServer


async def test_skills_are_listed_with_where_they_are_from(tmp_path: Path, server: WireServer) -> None:
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
