"""Skills over the wire: told in the prompt, read on demand, and nothing of them where there are none."""

from pathlib import Path

import pytest

from tests.wire.bench import bench, of_role
from tests.wire.server import Request, WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def tools_of(request: Request) -> list[str]:
    return [tool["function"]["name"] for tool in request.body["tools"]]


async def test_a_skill_outside_the_workspace_is_read_and_nothing_beside_it(
    tmp_path: Path, home: Path, server: WireServer
) -> None:
    folder = home / "config/skills/release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: How we release.\n---\nTag it, then run scripts/tag.sh.\n")
    (folder / "tag.sh").write_text("git tag")
    (folder / ".env").write_text("TOKEN=abc")
    for file in (None, "tag.sh", "../../config.toml", ".env"):
        server.call("read_skill", {"name": "release", **({"file": file} if file else {})})
    server.call("read_skill", {"name": "none"})
    server.say("Done.")
    async with bench(server, tmp_path) as table:
        await table.say("Release it")
        assert "- release: How we release." in of_role(server.requests[0], "system")[0]
        read, file, out, secret, none = of_role(server.requests[-1], "tool")
        assert "Tag it, then run scripts/tag.sh." in read and "tag.sh" in read.splitlines()[1]
        assert str(folder) in read.splitlines()[0]
        assert "git tag" in file
        assert "not in the folder" in out and "secret" in secret and "The skills are: release" in none
        prompts = {of_role(request, "system")[0] for request in server.requests}
        assert len(prompts) == 1, "the beginning of each request is the same"
        table.check()


async def test_without_skills_nothing_of_them_is_said(tmp_path: Path, server: WireServer) -> None:
    server.say("Hello.")
    async with bench(server, tmp_path) as table:
        await table.say("Hi")
        assert "skill" not in of_role(server.requests[0], "system")[0].lower()
        assert "read_skill" not in tools_of(server.requests[0])


async def test_the_workspaces_need_no_trust(tmp_path: Path, server: WireServer) -> None:
    folder = tmp_path / "workspace/.agents/skills/style"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: How we write.\n---\nBriefly.\n")
    server.call("read_skill", {"name": "style"})
    server.say("Done.")
    async with bench(server, tmp_path) as table:
        await table.say("Write")
        (read,) = of_role(server.requests[-1], "tool")
        assert "Briefly." in read and ".agents/skills/style" in read
