"""Which skills there are: by name, bounded, and none that leads elsewhere."""

from pathlib import Path

import pytest

from app.prompts import skills as finding
from app.prompts.skills import SkillCatalogue, find_skills
from app.tools.base.contract import ToolError
from app.tools.tool_registry import make_standard_tools
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench


def put(root: Path, path: str, text: str = "---\ndescription: Does it.\n---\nText.\n") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def found(root: Path, user: Path) -> SkillCatalogue:
    return find_skills(Workspace(root), [("skills", user)])


def test_skills_are_listed_by_name_in_a_stable_order(root: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    put(user, "b/SKILL.md")
    put(user, "both/SKILL.md", "---\ndescription: Mine.\n---\n")
    put(user, "no-skill/README.md")
    put(root, ".agents/skills/a/SKILL.md", "---\nname: zed\ndescription: >\n  Folded:\n  twice\u202e.\n---\n")
    put(root, ".claude/skills/both/SKILL.md", "---\ndescription: Theirs.\n---\n")
    put(root, ".claude/skills/both/examples/SKILL.md")
    put(root, ".claude/skills/byhand/SKILL.md", "---\ndescription: x\ndisable-model-invocation: true\n---\n")
    skills = found(root, user)
    assert skills.prompt_text() == "- b: Does it.\n- both: Mine.\n- zed: Folded: twice."
    assert skills.problems == (".claude/skills/both/SKILL.md: both is skills/both/SKILL.md already",)
    assert found(root, user).prompt_text() == skills.prompt_text()


def test_a_loop_of_links_is_one_line(root: Path, tmp_path: Path) -> None:
    put(tmp_path / "user", "good/SKILL.md")
    (tmp_path / "user/loop").mkdir()
    (tmp_path / "user/loop/SKILL.md").symlink_to("SKILL.md")
    skills = found(root, tmp_path / "user")
    assert list(skills.by_name) == ["good"]
    (line,) = skills.problems
    assert line.startswith("skills/loop/SKILL.md cannot be read")


@pytest.mark.parametrize("where", ["workspace/.agents/skills", "user"])
def test_no_file_of_a_skill_is_a_secret_or_leads_out_of_its_folder(root: Path, tmp_path: Path, where: str) -> None:
    base = tmp_path / where
    put(base, "s/SKILL.md")
    put(base, "s/.env", "TOKEN=x")
    put(base.parent, "outside.txt", "secret")
    put(base, "outside.txt", "secret")
    for name, target in (("notes.md", ".env"), ("link.txt", base / "outside.txt"), ("linked", base)):
        (base / "s" / name).symlink_to(target)
    folder = found(root, tmp_path / "user").by_name["s"].folder
    for file in (".env", "notes.md"):
        with pytest.raises(WorkspaceError, match="looks like a secret"):
            folder.read(file)
    for file in ("../../outside.txt", "/etc/passwd", "link.txt", "linked/outside.txt", "..", "."):
        with pytest.raises((OSError, WorkspaceError)):
            folder.read(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no front matter", "no description"),
        ("---\ndescription: x", "no end"),
        ("---\nname: ../x\ndescription: x\n---\n", "name"),
        ("---\nname: a\\nb c\ndescription: x\n---\n", "name"),
        ("---\ndescription: x\n---\n-----BEGIN RSA PRIVATE KEY-----\nabc\n", "kept from the model"),
    ],
)
def test_what_is_wrong_is_one_line(root: Path, tmp_path: Path, text: str, problem: str) -> None:
    put(root, ".agents/skills/x/SKILL.md", text)
    skills = found(root, tmp_path / "none")
    assert not skills.by_name
    (line,) = skills.problems
    assert problem in line and "\n" not in line


def test_the_list_of_skills_is_bounded(root: Path, tmp_path: Path) -> None:
    for number in range(finding.MAX_SKILLS + 3):
        put(tmp_path / "user", f"s{number:03}/SKILL.md", f"---\ndescription: {'x' * 5_000}\n---\n")
    skills = found(root, tmp_path / "user")
    assert len(skills.by_name) == finding.MAX_SKILLS and len(skills.problems) == 3
    assert len(skills.prompt_text()) < finding.MAX_SKILLS * (finding.MAX_DESCRIPTION_CHARACTERS + 20)


def test_a_skill_folder_of_the_user_may_be_a_link(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "dotfiles/s/SKILL.md")
    put(tmp_path, "dotfiles/s/scripts/run.sh", "echo")
    (tmp_path / "user").mkdir()
    (tmp_path / "user/s").symlink_to(tmp_path / "dotfiles/s")
    folder = found(root, tmp_path / "user").by_name["s"].folder
    assert folder.read("scripts/run.sh") == b"echo" and folder.list_files() == ["SKILL.md", "scripts/run.sh"]


@pytest.mark.parametrize("target", ["../../elsewhere", "../x/SKILL.md"])
def test_a_link_to_a_file_or_out_of_the_workspace_is_no_skill_folder(root: Path, tmp_path: Path, target: str) -> None:
    put(tmp_path, "elsewhere/s/SKILL.md")
    put(root, "x/SKILL.md")
    (root / ".agents").mkdir()
    (root / ".agents/skills").symlink_to(target)
    put(root, ".claude/skills/good/SKILL.md")
    skills = found(root, tmp_path / "none")
    assert (list(skills.by_name), skills.problems) == (["good"], ())


def test_a_huge_folder_is_listed_to_a_limit(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_MAX_WALKED_FOLDERS", 3)
    put(tmp_path / "user", "s/SKILL.md")
    put(tmp_path / "user", "s/" + "deep/" * 20 + "lost.txt")
    put(tmp_path / "user", "s/deep/deep/near.txt")
    assert found(root, tmp_path / "user").by_name["s"].folder.list_files() == ["SKILL.md", "deep/deep/near.txt"]


async def test_what_is_no_text_or_cannot_be_read_is_a_line_for_the_model(bench: Bench, tmp_path: Path) -> None:
    put(tmp_path, "user/release/SKILL.md")
    (tmp_path / "user/release/logo.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "user/release/loop").symlink_to("loop")
    bench.tools = make_standard_tools(lambda: bench.sandbox, skills=found(bench.workspace.root, tmp_path / "user"))
    output = await bench.call("read_skill", name="release", file="logo.png")
    assert (output.text, output.summary) == ("logo.png is a binary file of 6 bytes.", "binary, 6 bytes")
    for file, message in (
        ("gone.md", r"^The skill release has no file gone\.md\.$"),
        ("../../ws", "^Not done: .* not in the folder"),
        *((unreadable, "can't be read: ") for unreadable in (".", "loop", "a\0b")),
    ):
        with pytest.raises(ToolError, match=message):
            await bench.call("read_skill", name="release", file=file)
