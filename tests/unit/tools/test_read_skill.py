"""`read_skill`: the folder of a skill and nothing else, and an answer in words to whatever is asked for."""

from pathlib import Path

import pytest

from app.prompts.skills import find_skills
from app.tools.base.contract import ToolError
from app.tools.tool_registry import standard_tools
from tests.unit.tools.memory_draft import Bench


@pytest.fixture
def skilled(bench: Bench, tmp_path: Path) -> Bench:
    folder = tmp_path / "user/release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: How we release.\n---\nTag it.\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0")
    (folder / "loop").symlink_to("loop")
    skills = find_skills(bench.workspace, [("skills", tmp_path / "user")])
    bench.tools = standard_tools(lambda: bench.sandbox, skills=skills)
    return bench


async def test_what_is_no_text_is_named_and_not_shown(skilled: Bench) -> None:
    output = await skilled.call("read_skill", name="release", file="logo.png")
    assert output.text == "logo.png is a binary file of 6 bytes."
    assert output.summary == "binary, 6 bytes"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("gone.md", r"^The skill release has no file gone\.md\.$"),
        ("../../ws", "^Not done: .* not in the folder"),
        (".", "can't be read: "),
        ("loop", "can't be read: "),
        ("a\0b", "can't be read: "),
    ],
)
async def test_what_cannot_be_read_is_a_line_for_the_model(skilled: Bench, file: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await skilled.call("read_skill", name="release", file=file)
