"""What holds of commands on a layer and of commands in place."""

from pathlib import Path

import pytest

from app.sandbox import workspace_backup
from app.sandbox.captured_changes import Leaf
from app.sandbox.sandbox import Sandbox
from app.sandbox.sandbox_mode import SandboxMode, SandboxRun
from app.tools.base.contract import ConfirmationAnswer
from app.workspace.paths import Workspace
from tests.unit.sandbox.test_scripts import shell
from tests.unit.tools.memory_draft import Bench, MemoryDraft


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


async def sandbox_of(root: Path, way: SandboxMode) -> Sandbox:
    sandbox = Sandbox(Workspace(root), root.parent / "state/runs", own=(root.parent / "state",), modes=[way])
    probe = await sandbox.probe()
    if probe.mode is not way:
        pytest.skip(probe.why_not)
    return sandbox


async def printed(run: SandboxRun, command: str) -> str:
    parts: list[bytes] = []
    await run.execute(shell(f"exec 2>&1\n{command}"), folder=".", seconds=30, output=parts.append)
    return b"".join(parts).decode()


async def test_what_waits_is_not_laid_through_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gone").write_text("stays")
    (tmp_path / "folder/d").symlink_to(tmp_path / "out")
    workspace_backup._write_pending({"d/gone": None}, tmp_path / "folder")
    workspace_backup._write_pending({"d/new": Leaf(b"", 0o644)}, tmp_path / "folder")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gone"]
    assert (tmp_path / "folder/d/new").exists()


@pytest.mark.parametrize("way", list(SandboxMode))
async def test_what_is_signoffs_own_is_never_what_a_command_has_changed(root: Path, way: SandboxMode) -> None:
    (root / ".gitignore").write_text("own/ignored/\n")
    workspace = Workspace(root, off_limits=[root / "own"])
    sandbox = Sandbox(workspace, root.parent / "runs", own=(), modes=[way])
    if (await sandbox.probe()).mode is not way:
        pytest.skip((await sandbox.probe()).why_not)
    async with sandbox.open({}) as run:
        await printed(run, "mkdir -p own/ignored; echo x > own/file; echo x > own/ignored/file; echo y > kept")
        found = await run.changes()
        assert [each.path for each in found.touched] == ["kept"]
        await run.write_back(found.ignored_paths)
    assert way is SandboxMode.IN_PLACE or not (root / "own").exists()


@pytest.mark.parametrize("way", list(SandboxMode))
@pytest.mark.parametrize("name", ["d", "d" * 250])
async def test_folders_without_end_end_nothing_and_are_left_out(root: Path, way: SandboxMode, name: str) -> None:
    sandbox = await sandbox_of(root, way)
    nest = f"for _ in range(1100 if {len(name)} < 2 else 20): os.mkdir('{name}'); os.chdir('{name}')"
    async with sandbox.open({}) as run:
        await printed(run, f"echo x > kept; exec python3 -c \"import os\n{nest}\nopen('z', 'w')\"")
        found = await run.changes()
        assert [each.path for each in found.touched] == ["kept"]
        assert way is SandboxMode.IN_PLACE or [
            one for one in found.unsupported if one.endswith(f"/{name}: nested too deep")
        ]
    assert list(root.iterdir()) == []
    sandbox.close()
    assert not list((root.parent / "state/runs").glob("run-*")) and not sandbox.restore_workspace()


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_what_git_ignores_and_cannot_be_written_takes_nothing_else_along(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    bench = Bench(
        Workspace(root), MemoryDraft(Workspace(root)), ConfirmationAnswer(True), modes=[SandboxMode.OVERLAY]
    )
    (root / "sub").mkdir(mode=0o500)
    bench.draft.held["sub/waits"] = b"waits\n"
    output = await bench.call("run_command", command="chmod 700 sub; echo 1 > sub/a.log; echo 2 > b; cat sub/waits")
    assert "\nwaits\n" in output.text and output.staged and bench.draft.held["b"] == b"2\n"
    assert "not all of it could be written, permission denied: sub/a.log" in output.text


def test_a_folder_with_more_in_it_than_what_is_gone_stays(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    for name in ("d/kept", "d/e/gone"):
        (tmp_path / name).touch()
    workspace_backup._write_pending({"d/e/gone": None}, tmp_path)
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["kept"]
