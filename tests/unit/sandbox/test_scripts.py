"""Whatever a script does to files: the workspace stays, and the proposal is what the script does when run bare."""

import asyncio
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.proposal_service import ProposalService
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import READ_LIMIT, Workspace
from tests.examples import scale_examples
from tests.unit.proposals.memory_store import MemoryStore

FILES = ("a.txt", "crlf.txt", "run.sh", "link", "d/x", "d/y.bin", "d/e/z", "new", "n/m", "n/o/p")
FOLDERS = ("d", "d/e", "n", "n/o", "k", "k/l")
TEXTS = (r"one\ntwo\nthree\n", r"one\r\ntwo\r\n", r"no newline", r"", r"\000\377binary", r"caf\303\251\n\351")
paths = st.sampled_from(FILES)
folders = st.sampled_from(FOLDERS)
OPERATIONS = st.one_of(
    st.builds("mkdir -p $(dirname {0}); printf '{1}' > {0}".format, paths, st.sampled_from(TEXTS)),
    st.builds("printf 'more\\n' >> {0}".format, paths),
    st.builds("sed -i s/two/2/ {0}".format, paths),
    st.builds("touch {0}".format, paths),
    st.builds("rm -f {0}".format, paths),
    st.builds("rm -rf {0}".format, folders),
    st.builds("mv {0} {1}".format, paths, paths),
    st.builds("mkdir -p $(dirname {1}); mv -T {0} {1}".format, folders, folders),
    st.builds("cp {0} {1}".format, paths, paths),
    st.builds("chmod {1}x {0}".format, paths, st.sampled_from("+-")),
    st.builds("ln -sfn {1} {0}".format, paths, st.sampled_from(("a.txt", "d", "nowhere", "../out"))),
    st.builds("ln {0} {1}".format, paths, paths),
    st.builds("mkdir -p {0}".format, folders),
    # Into itself, cp goes by the order in which the disk names things.
    st.builds("case {1} in {0}|{0}/*) ;; *) cp -r {0} {1};; esac".format, folders, folders),
)

State = dict[str, tuple[str, bytes]]


def state(root: Path) -> State:
    """Every file and link: what it is, and its bytes. Of the mode what git knows."""
    found: State = {}
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        for name in (*files, *(each for each in names if Path(folder, each).is_symlink())):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            kind = "link" if stat.S_ISLNK(mode) else "755" if mode & stat.S_IXUSR else "644"
            data = os.fsencode(path.readlink()) if kind == "link" else path.read_bytes()
            found[path.relative_to(root).as_posix()] = (kind, data)
    return found


def make(root: Path) -> None:
    for folder in ("d/e", "k"):
        (root / folder).mkdir(parents=True)
    (root / "a.txt").write_bytes(b"one\ntwo\nthree\n")
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\ntrue\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "d/x").write_bytes(b"x\n")
    (root / "d/y.bin").write_bytes(bytes(range(256)))
    (root / "d/e/z").write_bytes(b"one\ntwo\nlast")
    (root / "k/two").write_bytes(b"two\n")


def shell(script: str) -> list[str]:
    return ["/bin/bash", "--noprofile", "--norc", "-c", script]


def service_of(root: Path, folder: Path) -> ProposalService:
    return ProposalService(Workspace(root), MemoryStore(), folder / "lock")


async def in_sandbox(
    service: ProposalService, root: Path, folder: Path, script: str, ways: list[CommandWriteMode]
) -> str:
    """Run a script over what waits, and stage what it changes; returns the proposal's id, empty if there is none."""
    sandbox = Sandbox(Workspace(root), folder / "runs", own_folders=(), modes=ways)
    draft = service.new_draft("s")
    async with sandbox.open_run(draft.pending_files()) as run:
        await run.execute(shell(script), folder=".", seconds=60, output=lambda data: None)
        found = await run.find_changes()
        assert not found.unsupported and not found.ignored_paths
        changes = [run.read_change(each.path, READ_LIMIT) for each in found.touched]
    if not changes:
        return ""
    draft.add_changes(changes)
    return service.stage(draft, "").id


def script_of(operations: list[str]) -> str:
    return "umask 022\n" + "\n".join(f"{{ {each}; }} 2>/dev/null" for each in operations)


def ways_from(way: CommandWriteMode) -> list[CommandWriteMode]:
    return list(CommandWriteMode)[list(CommandWriteMode).index(way) :]


def run_bare(root: Path, script: str) -> None:
    subprocess.run(shell(script), cwd=root, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("way", list(CommandWriteMode))
@settings(max_examples=scale_examples(8), suppress_health_check=list(HealthCheck))
@given(operations=st.lists(OPERATIONS, min_size=1, max_size=8))
def test_a_proposal_is_what_the_script_does_when_run_bare(way: CommandWriteMode, operations: list[str]) -> None:
    script = script_of(operations)
    with tempfile.TemporaryDirectory() as folder:
        root, bare, patched = (Path(folder, name) for name in ("ws", "bare", "patched"))
        make(root)
        before = state(root)
        for copy in (bare, patched):
            shutil.copytree(root, copy, symlinks=True)
        run_bare(bare, script)
        service = service_of(root, Path(folder))
        proposal = asyncio.run(in_sandbox(service, root, Path(folder), script, ways_from(way)))
        assert state(root) == before
        wanted = state(bare)
        if not proposal:
            assert wanted == before
            return
        patch = service.unified_diff(proposal).encode("utf-8", "surrogateescape")
        subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=patched, input=patch, check=True)
        assert state(patched) == wanted
        service.approve(proposal)
        assert state(root) == wanted
        service.undo(proposal)
        assert state(root) == before


@pytest.mark.parametrize("way", list(CommandWriteMode))
@settings(max_examples=scale_examples(4), suppress_health_check=list(HealthCheck))
@given(first=st.lists(OPERATIONS, min_size=1, max_size=5), second=st.lists(OPERATIONS, min_size=1, max_size=5))
def test_a_script_sees_pending_edits(way: CommandWriteMode, first: list[str], second: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, bare = Path(folder, "ws"), Path(folder, "bare")
        make(root)
        before = state(root)
        shutil.copytree(root, bare, symlinks=True)
        service = service_of(root, Path(folder))
        for operations in (first, second):
            # A folder without a file is nothing that could be proposed.
            run_bare(bare, f"{script_of(operations)}\nfind . -mindepth 1 -type d -empty -delete")
            # Nor is that two names are of one file.
            bare = shutil.copytree(bare, Path(folder, f"{bare.name}-"), symlinks=True)
            asyncio.run(in_sandbox(service, root, Path(folder), script_of(operations), ways_from(way)))
            assert state(root) == before
        for proposal in service.pending():
            service.approve(proposal.id)
        assert state(root) == state(bare)
