"""Which way is chosen for a workspace, and why it is none of the better ones."""

import subprocess
from pathlib import Path

import pytest

from app.sandbox import overlay_layer
from app.sandbox import sandbox as choosing
from app.sandbox.sandbox import Sandbox
from app.sandbox.sandbox_mode import ProbeResult, SandboxMode, landlock_version
from app.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


async def chosen(root: Path, runs: Path, *ways: SandboxMode) -> ProbeResult:
    return await Sandbox(Workspace(root), runs, own=(), modes=ways).probe()


async def test_it_is_a_layer_wherever_an_overlay_can_be_mounted(root: Path, tmp_path: Path) -> None:
    for name in ("upper", "work", "runs"):
        (tmp_path / name).mkdir()
    over = f"lowerdir={root},upperdir={tmp_path}/upper,workdir={tmp_path}/work,userxattr"
    mount = ["unshare", "-Urm", "mount", "-t", "overlay", "overlay", "-o", over, str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("there is none here")
    assert await chosen(root, tmp_path / "runs", *SandboxMode) == ProbeResult(
        SandboxMode.OVERLAY, landlock=landlock_version()
    )


async def test_without_room_for_runs_it_is_in_place(root: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    probe = await chosen(root, tmp_path / "runs", *SandboxMode)
    assert probe.mode is SandboxMode.IN_PLACE and "File exists" in probe.why_not


@pytest.mark.layer
async def test_a_layer_on_which_nothing_can_be_tried_is_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    probe = await chosen(root, tmp_path / "runs", SandboxMode.OVERLAY)
    assert probe.why_not == "a layer over this file system does not hold what is written"


async def test_without_landlock_nothing_is_confined(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own=(), modes=[SandboxMode.IN_PLACE])
    monkeypatch.setattr(choosing, "landlock_version", lambda: 0)
    probe = await sandbox.probe()
    assert (probe.mode, probe.is_confined) == (SandboxMode.IN_PLACE, False)


def test_where_nothing_tells_of_mounts_there_are_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay_layer, "_MOUNTS", tmp_path / "none")
    assert overlay_layer.mounts_below(root) == []
