"""Which way is chosen for a workspace, and why it is none of the better ones."""

import subprocess
from pathlib import Path

import pytest

from app.sandbox import mounting
from app.sandbox import sandbox as choosing
from app.sandbox.sandbox import Sandbox
from app.sandbox.ways import Means, Way
from app.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


async def chosen(root: Path, runs: Path, *ways: Way) -> Means:
    return await Sandbox(Workspace(root), runs, own=(), ways=ways).means()


async def test_it_is_a_layer_wherever_an_overlay_can_be_mounted(root: Path, tmp_path: Path) -> None:
    for name in ("upper", "work", "runs"):
        (tmp_path / name).mkdir()
    over = f"lowerdir={root},upperdir={tmp_path}/upper,workdir={tmp_path}/work,userxattr"
    mount = ["unshare", "-Urm", "mount", "-t", "overlay", "overlay", "-o", over, str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("there is none here")
    assert await chosen(root, tmp_path / "runs", *Way) == Means(Way.OVERLAY)


@pytest.mark.parametrize("way", [Way.OVERLAY, Way.CLONE, Way.CLONE_APART])
async def test_without_room_for_runs_it_is_in_place(root: Path, tmp_path: Path, way: Way) -> None:
    (tmp_path / "runs").write_text("no folder")
    means = await chosen(root, tmp_path / "runs", way)
    assert means.way is Way.IN_PLACE
    assert way is not Way.OVERLAY or "File exists" in means.why_not


@pytest.mark.layer
async def test_a_layer_on_which_nothing_can_be_tried_is_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    means = await chosen(root, tmp_path / "runs", Way.OVERLAY)
    assert means.why_not == "a layer over this file system does not hold what is written"


@pytest.mark.usefixtures("clones")
async def test_what_holds_the_runs_themselves_is_not_cloned(root: Path) -> None:
    assert (await chosen(root, root / "runs", Way.CLONE, Way.CLONE_APART)).way is Way.IN_PLACE


@pytest.mark.usefixtures("clones")
async def test_without_landlock_there_is_no_clone_apart_and_nothing_read_only(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own=(), ways=[Way.CLONE_APART])
    assert "write-below" in sandbox.read_only_steps()
    monkeypatch.setattr(choosing, "can_confine", lambda: False)
    means = await sandbox.means()
    assert (means.way, means.confined) == (Way.IN_PLACE, False)
    assert sandbox.read_only_steps() == []


def test_where_nothing_tells_of_mounts_there_are_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounting, "_MOUNTS", tmp_path / "none")
    assert mounting.mounts_below(root) == []
