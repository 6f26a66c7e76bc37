"""No path that a tool names, and no link on the way, leads out of the workspace."""

import os
import resource
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.workspace.path_rules import (
    FileTooLarge,
    UnsafePath,
    WorkspaceError,
    has_path_at_or_below,
    split_and_check_path,
    version_control_of_folder,
)
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file
from tests.unit.proposals.faults import in_child
from tests.users import OTHER, can_become

SECRET = b"the world outside"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace in it, and things outside that must stay out of reach."""
    base = tmp_path_factory.mktemp("world")
    (base / "outside").mkdir()
    (base / "outside/secret").write_bytes(SECRET)
    (base / "ws2").mkdir()
    (base / "ws2/secret").write_bytes(SECRET)
    root = base / "ws"
    (root / "src/deep").mkdir(parents=True)
    (root / "src/a.py").write_bytes(b"inside a")
    (root / "src/deep/b.py").write_bytes(b"inside b")
    (root / ".git").mkdir()
    (root / ".git/config").write_bytes(SECRET)
    (root / "lib/.git").mkdir(parents=True)
    (root / "lib/.git/config").write_bytes(SECRET)
    links = {
        "out": "../outside",
        "out_file": "../outside/secret",
        "out_absolute": str(base / "outside"),
        "out_twice": "src/back/../outside",
        "src/back": "../..",
        "to_git": ".git",
        "src/to_git": "../lib/.git",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "nowhere/at/all",
        "dangling_out": "nowhere/../../outside/secret",
        "in": "src",
        "in_absolute": str(root / "src"),
        "in_file": "src/a.py",
        "chain": "in/deep",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return base


@pytest.fixture
def workspace(world: Path) -> Workspace:
    return Workspace(world / "ws")


OUT_OF_REACH = r"""
.. ../outside/secret src/../../outside/secret /etc/passwd / //etc/passwd ~/x C:/Windows/system.ini
..\outside\secret src\a.py .git .git/config .GIT/config lib/.git/config lib/.Git git~1 GIT~1/config .git./config
.git::$INDEX_ALLOCATION/config out out/secret out_file out_absolute/secret out_twice/secret
src/back/outside/secret src/back/ws2/secret to_git to_git/config src/to_git/config loop loop/x ping dangling_out
out/new_file
"""
ODD = ["", "src/a.py\0.txt", "src/a\n.py", "src/\x1b[31m.py", "src/\x9b31m.py", "src/\udc80.py", "src/\ud800.py"]
WIDE = ["x" * 256, "é" * 128, "x/" * 3000, ".g\u200cit/config", "．ｇｉｔ/config", ".gıt/../.git/config"]


def test_refuses_what_is_not_in_reach(workspace: Workspace, world: Path) -> None:
    for path in (*OUT_OF_REACH.split(), *ODD, *WIDE, ".git /config"):
        for method in (workspace.normalize_path, workspace.resolve, workspace.read):
            with pytest.raises(UnsafePath):
                method(path)
    with pytest.raises(UnsafePath):
        workspace.normalize_path(str(world / "ws2/secret"))


@pytest.mark.parametrize(
    ("written", "located", "real"),
    [
        ("src/a.py", "src/a.py", "src/a.py"),
        ("./src//deep/./b.py", "src/deep/b.py", "src/deep/b.py"),
        ("src/deep/../a.py", "src/a.py", "src/a.py"),
        ("src/new.py", "src/new.py", "src/new.py"),
        ("new/folder/x", "new/folder/x", "new/folder/x"),
        (".", ".", "."),
        ("src/", "src", "src"),
        ("in/a.py", "in/a.py", "src/a.py"),
        ("in_absolute/a.py", "in_absolute/a.py", "src/a.py"),
        ("in_file", "in_file", "src/a.py"),
        ("chain/b.py", "chain/b.py", "src/deep/b.py"),
        ("dangling", "dangling", "nowhere/at/all"),
        ("src/a.py/below", "src/a.py/below", "src/a.py/below"),
        (".github/workflows/ci.yml", ".github/workflows/ci.yml", ".github/workflows/ci.yml"),
        (".gitignore", ".gitignore", ".gitignore"),
        ("a:b", "a:b", "a:b"),
        ("weiß/ñ.py", "weiß/ñ.py", "weiß/ñ.py"),
    ],
)
def test_locates_what_lies_inside(workspace: Workspace, written: str, located: str, real: str) -> None:
    assert workspace.normalize_path(written) == located
    assert workspace.resolve(located) == real


def test_takes_absolute_paths_inside_also_by_another_name_of_the_workspace(workspace: Workspace, world: Path) -> None:
    assert workspace.normalize_path(str(workspace.root / "src/a.py")) == "src/a.py"
    assert workspace.normalize_path(str(workspace.root)) == "."
    assert workspace.normalize_path(f"{workspace.root}/src/../src/a.py") == "src/a.py"
    for path in ("../outside/secret", ".git/config"):
        with pytest.raises(UnsafePath):
            workspace.normalize_path(f"{workspace.root}/{path}")
    (world / "alias").symlink_to("ws")
    alias = Workspace(world / "alias")
    assert alias.root == (world / "ws").resolve()
    assert alias.normalize_path(str(world / "alias/src/a.py")) == "src/a.py"


def test_reads_through_links_that_stay_inside_and_says_what_a_path_leads_to(workspace: Workspace) -> None:
    for path in ("src/a.py", "in/a.py", "in_file", "in_absolute/a.py"):
        assert workspace.read(path) == b"inside a"
        assert workspace.kind(path) == "file"
    assert {workspace.kind(path) for path in ("src", "chain", ".")} == {"folder"}
    assert {workspace.kind(path) for path in ("nowhere", "dangling", "src/a.py/x")} == {"missing"}


def test_read_raises_the_usual_errors(workspace: Workspace) -> None:
    for missing in ("nope", "nope/x", "src/a.py/x", "dangling"):
        with pytest.raises(FileNotFoundError, match=f"^{missing} does not exist$"):
            workspace.read(missing)
    for folder in ("src", ".", "chain"):
        with pytest.raises(IsADirectoryError, match=f"^{folder} is a folder$"):
            workspace.read(folder)


def test_an_entry_is_not_reached_through_a_link(workspace: Workspace) -> None:
    workspace.check_folder_entry("in")
    with pytest.raises(UnsafePath, match=r"in/a\.py is reached through a link"):
        workspace.check_folder_entry("in/a.py")


def test_a_path_that_is_too_long_is_refused() -> None:
    name = "a" * 199
    assert len(split_and_check_path("/".join([name] * 20))) == 20
    with pytest.raises(UnsafePath, match="too long"):
        split_and_check_path("/".join([name] * 20) + "/b")


@pytest.mark.skipif(os.geteuid() == 0 and not can_become(OTHER), reason="root may enter every folder")
def test_a_folder_without_access_is_refused() -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "shut").mkdir(mode=0)

        def look() -> None:
            if can_become(OTHER):
                os.setuid(OTHER)
            with pytest.raises(UnsafePath, match="no access to the folder shut"):
                Workspace(root).resolve("shut/in")

        assert in_child(look) == 0


def test_a_folder_that_cannot_be_opened_does_not_count_as_missing(workspace: Workspace) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            workspace.resolve("src/deep/new.py")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_read_has_a_limit_and_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "larger").write_bytes(b"x" * 11)
    (tmp_path / "fits").write_bytes(b"x" * 10)
    os.mkfifo(tmp_path / "pipe")
    workspace = Workspace(tmp_path, read_limit=10)
    assert len(workspace.read("fits")) == 10
    with pytest.raises(FileTooLarge):
        workspace.read("larger")
    with pytest.raises(UnsafePath, match="not a regular file"):
        workspace.read("pipe")
    os.truncate(tmp_path / "larger", 64 << 20)
    tracemalloc.start()
    with pytest.raises(OSError, match="larger than"):
        read_regular_file(tmp_path / "larger", 32 << 20)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_tools_cannot_reach_the_programs_own_state(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/signoff.db").write_bytes(SECRET)
    (tmp_path / "link").symlink_to("state")
    (tmp_path / "notes").write_text("x")
    workspace = Workspace(tmp_path, off_limits=[tmp_path / "state"])
    for path in ("state", "state/signoff.db", "link/signoff.db", "state/new"):
        with pytest.raises(UnsafePath, match="signoff"):
            workspace.read(path)
    assert list(workspace.walk_files()) == ["notes"]


def test_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(WorkspaceError):
            Workspace(root)


def test_leaves_no_descriptor_open(workspace: Workspace) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for path in ("src/a.py", "src", "out/secret", "loop", "chain/b.py", "nope/x", "src/a.py/b", "..", "dangling_out"):
        for method in (workspace.read, workspace.normalize_path, workspace.kind):
            with suppress(OSError, UnsafePath):
                method(path)
    # Garbage collection may close what earlier tests have left.
    assert len(list(Path("/dev/fd").iterdir())) <= before


PIECES = (
    st.sampled_from(
        ["..", ".", "", "src", "deep", "a.py", "b.py", "out", "in", "chain", "src/back", "back", "to_git"]
    )
    | st.sampled_from([".git", ".GIT", "git~1", "outside", "secret", "ws", "ws2", "lib", "config", "out_absolute"])
    | st.sampled_from(["dangling", "dangling_out", "loop", "in_absolute", "out_twice", "new", "~", "\\", "\0"])
    | st.sampled_from(["\u202e", "．．", "．/", "%2e%2e", "..;", "...", ".. "])
    | st.text(max_size=6)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=8), start=st.sampled_from(["", "/", "./", "//", "ROOT/", "ROOT/../"])
)
def test_no_path_leads_out(workspace: Workspace, pieces: list[str], start: str) -> None:
    text = start.replace("ROOT", str(workspace.root)) + "/".join(pieces)
    try:
        located = workspace.normalize_path(text)
    except UnsafePath:
        return
    assert workspace.normalize_path(located) == located, "a located path is its own normal form"
    real = Path(os.path.realpath(workspace.root / located))
    assert real.is_relative_to(workspace.root)
    assert not any(version_control_of_folder(part) for part in real.relative_to(workspace.root).parts)
    assert real == workspace.root / workspace.resolve(located)
    try:
        content = workspace.read(located)
    except OSError:
        return
    assert content != SECRET


@given(st.text(alphabet=st.sampled_from(".gitGIT \u200b\u200c\ufeff\u00ad:~1İı．ｇ"), max_size=10))
def test_names_equivalent_to_git_are_refused(name: str) -> None:
    bare = "".join(letter for letter in name if letter not in "\u200b\u200c\ufeff\u00ad").lower().rstrip(". ")
    if bare in (".git", "git~1") or bare.startswith(".git:"):
        assert version_control_of_folder(name)


@pytest.mark.parametrize("folder", [".git", ".hg", ".svn", ".jj", ".bzr", ".sl"])
def test_repository_folders_are_refused(workspace: Workspace, folder: str) -> None:
    for spelling in ("{}", "{}.", "{} ", "{}::$INDEX_ALLOCATION", "\u200b{}", "{}~1"):
        for name in (spelling.format(folder), spelling.format(folder.upper())):
            with pytest.raises(UnsafePath, match="belongs to"):
                workspace.normalize_path(f"src/{name}/hooks")
    (workspace.root / folder).mkdir(exist_ok=True)
    (workspace.root / folder / "config").write_text("x")
    assert not any(folder in path for path in workspace.walk_files())


def test_ordinary_names_are_not_git() -> None:
    ordinary = [".gitignore", ".github", ".gitattributes", "git", "gitk", "foo.git", "git~x", "legit", ".hgignore"]
    assert not any(version_control_of_folder(name) for name in (*ordinary, "a.svn", "jj"))


@pytest.mark.parametrize("victim", ["d", "f"])
def test_a_link_planted_late_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(SECRET)
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_bytes(b"inside")
    workspace = Workspace(root)
    ask = os.readlink
    planted: list[str] = []

    def readlink(path: str, *, dir_fd: int | None = None) -> str:
        """Answers, and plants the link once the answer is known."""
        try:
            return ask(path, dir_fd=dir_fd)
        finally:
            if path == victim and not planted:
                planted.append(path)
                if victim == "d":
                    (root / "d").rename(root / "moved")
                    (root / "d").symlink_to("../outside")
                else:
                    (root / "d/f").unlink()
                    (root / "d/f").symlink_to("../../outside/f")

    monkeypatch.setattr(os, "readlink", readlink)
    with pytest.raises(UnsafePath, match="turned into a link"):
        workspace.read("d/f")
    assert planted


@pytest.fixture
def flipping(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which another thread keeps exchanging a folder and a file for links to the outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(SECRET)
    root = tmp_path / "ws"
    (root / "real").mkdir(parents=True)
    (root / "real/f").write_bytes(b"inside")
    stop = threading.Event()

    def flip() -> None:
        targets = ["real", "../outside"]
        files = ["real/f", "../outside/f"]
        turn = 0
        while not stop.is_set():
            turn += 1
            for link, target in (("d", targets[turn % 2]), ("g", files[turn % 2])):
                (root / f"{link}.new").symlink_to(target)
                (root / f"{link}.new").replace(root / link)

    thread = threading.Thread(target=flip)
    thread.start()
    yield root
    stop.set()
    thread.join()


def test_nothing_outside_is_read_while_links_flip(flipping: Path) -> None:
    workspace = Workspace(flipping)
    seen: dict[str, int] = {}
    for _ in range(1500):
        for path in ("d/f", "g"):
            try:
                outcome = workspace.read(path).decode()
            except UnsafePath:
                outcome = "refused"
            except FileNotFoundError:
                outcome = "missing"
            seen[outcome] = seen.get(outcome, 0) + 1
    assert SECRET.decode() not in seen
    assert seen.get("inside"), "the race must have been run from both sides"
    assert seen.get("refused"), "the race must have been run from both sides"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a regular file that says it is empty")
def test_a_file_larger_than_its_size_is_refused_or_cut() -> None:
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular_file("/proc/self/status", 10)
    assert len(read_regular_file("/proc/self/status", 10, allow_truncated=True)[0]) == 10


@given(st.sets(st.text("a-/", min_size=1, max_size=3)), st.text("a-", min_size=1, max_size=2))
@settings(deadline=None)
def test_a_path_or_one_below_it_is_found_in_a_sorted_list(paths: set[str], path: str) -> None:
    wanted = any(each == path or each.startswith(f"{path}/") for each in paths)
    assert has_path_at_or_below(sorted(paths), path) == wanted
