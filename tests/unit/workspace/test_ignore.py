"""The walk leaves out what git would leave out, and what signoff's own ignore files name."""

import os
import pwd
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.sandbox.path_policy import GitIgnoreRules
from app.workspace.broad_folder import describe_broad_folder
from app.workspace.path_rules import MAX_PATH_DEPTH, UnsafePath, WorkspaceClosedDuringWalk
from app.workspace.paths import Workspace


def make(root: Path, files: dict[str, str], empty: str = "") -> Workspace:
    """Return a workspace with files of these texts, and with empty ones of these names."""
    for path, text in (dict.fromkeys(empty.split(), "") | files).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Workspace(root)


def listed(workspace: Workspace, under: str = ".") -> list[str]:
    return [path for path in workspace.walk_files(under) if not path.rpartition("/")[2].endswith("ignore")]


def test_patterns_of_all_kinds(tmp_path: Path) -> None:
    rules = "*.pyc\n/build\nnode_modules/\n!keep.pyc\ndocs/**/draft.md\n# comment\n\\#odd\n[bad\n"
    empty = "a.py a.pyc keep.pyc build/x src/build/x node_modules/m/index.js src/node_modules #odd"
    docs = " docs/draft.md docs/a/b/draft.md docs/a/ready.md"
    workspace = make(tmp_path, {".gitignore": rules}, empty + docs)
    assert listed(workspace) == ["a.py", "docs/a/ready.md", "keep.pyc", "src/build/x", "src/node_modules"]


def test_a_nearer_ignore_file_wins_but_not_inside_an_ignored_folder(tmp_path: Path) -> None:
    rules = {".gitignore": "*.log\nout/\n", "pkg/.gitignore": "!wanted.log\n/only_here\n", "out/.gitignore": "!x\n"}
    workspace = make(tmp_path, rules, "pkg/wanted.log pkg/other.log pkg/only_here pkg/sub/only_here out/x")
    assert listed(workspace) == ["pkg/sub/only_here", "pkg/wanted.log"]


def test_own_ignore_files_are_stronger(tmp_path: Path) -> None:
    rules = {".gitignore": "*.gen\n", ".ignore": "!shown.gen\nvendor/\n", ".signoffignore": "private/\n!vendor/\n"}
    workspace = make(tmp_path, rules, "shown.gen hidden.gen vendor/lib.c private/notes")
    assert listed(workspace) == ["shown.gen", "vendor/lib.c"]


def test_rules_of_the_repository_around_the_workspace_hold(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    make(tmp_path, {".gitignore": "*.o\n/pkg/gen\n", ".git/info/exclude": "mine.txt\n"})
    workspace = make(tmp_path / "pkg", {"a.c": "", "a.o": "", "gen/x": "", "mine.txt": ""})
    assert listed(workspace) == ["a.c"]


def test_git_and_unsafe_names_never_show(tmp_path: Path) -> None:
    workspace = make(
        tmp_path,
        {".git/config": "", "sub/.git/config": "", "new\nline": "", "back\\slash": "", "sub/ok": "", "git~1": ""},
    )
    assert listed(workspace) == ["sub/ok"]


def test_links_are_shown_only_to_files_inside_and_not_followed_as_ignore_files(tmp_path: Path) -> None:
    workspace = make(tmp_path / "ws", {}, "src/a.py .git/config")
    (tmp_path / "outside").write_text("x")
    (tmp_path / "rules").write_text("*.py\n")
    links = {"file": "src/a.py", "folder": "src", "out": "../outside", "broken": "nope", "git": ".git/config"}
    for name, target in {**links, ".gitignore": "../rules"}.items():
        (workspace.root / name).symlink_to(target)
    assert listed(workspace) == ["file", "src/a.py"]
    assert listed(workspace, "folder") == ["src/a.py"]


def test_starting_points(tmp_path: Path) -> None:
    workspace = make(tmp_path, {".gitignore": "build/\n*.o\n", "build/a.txt": "", "build/a.o": "", "src/x/y": ""})
    assert listed(workspace, "build") == ["build/a.txt"], "asked for by name, but the rules inside still hold"
    assert listed(workspace, "src/x/y") == ["src/x/y"]
    with pytest.raises(FileNotFoundError):
        workspace.walk_files("nope")
    with pytest.raises(UnsafePath):
        workspace.walk_files("..")


NAMES = st.sampled_from(["a", "b", "ab", "c.txt", "d.log", "build", "x y", "été"])
PATTERN = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "!", "/", "!/", "**/", "!**/"]),
        st.sampled_from(
            [
                *("a", "b", "*.log", "a/b", "build", "*", "?", "[ab]", "a*", "**", "x y", "été", "c.txt", "a/**/b"),
                *("a/*.log", "*b", "b*d", "*/ab", "b/**/*.txt", "[!a]*", "\\a", "a/?", "*/**"),
            ]
        ),
        st.sampled_from(["", "", "/", "/*", "/**", " "]),
    ),
)
PATTERNS = st.lists(PATTERN, max_size=5)
SIGNED = st.lists(
    st.tuples(PATTERN, PATTERN).map(lambda pair: [pair[0], f"!{pair[1].lstrip('!')}"]), max_size=12
).map(lambda pairs: [pattern for pair in pairs for pattern in pair])
"""Patterns that ignore, each followed by one that takes back."""
TREES = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=14)


def plant(root: Path, tree: list[str]) -> None:
    """Make an empty repository anew, with these files as far as one is not the folder of another."""
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("objects", "refs", "info"):
        (root / ".git" / folder).mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for path in tree:
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()


def seen_by_git(root: Path, excludes: str = "") -> list[str]:
    """The files that git does not ignore; `excludes` is the file of the user's own patterns."""
    command = ["git", "-c", f"core.excludesFile={excludes}", "ls-files", "-coz", "--exclude-standard"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(filter(None, output.split("\0")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, top=PATTERNS | SIGNED, below=PATTERNS, exclude=PATTERNS)
def test_agrees_with_git(
    tmp_path: Path, tree: list[str], top: list[str], below: list[str], exclude: list[str]
) -> None:
    # One difference is wanted and not tried: for git, `?` is one byte; here it is one character.
    root = tmp_path / "repository"
    plant(root, tree)
    (root / ".gitignore").write_text("\n".join(top))
    (root / ".git/info/exclude").write_text("\n".join(exclude))
    if (root / "a").is_dir():
        (root / "a/.gitignore").write_text("\n".join(below))
    assert list(Workspace(root).walk_files()) == seen_by_git(root)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, top=PATTERNS, exclude=PATTERNS, own=PATTERNS | SIGNED)
def test_ignored_paths_agree_with_git_and_user_patterns_are_weakest(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tree: list[str],
    top: list[str],
    exclude: list[str],
    own: list[str],
) -> None:
    root, home = tmp_path / "repository", tmp_path / "home"
    plant(root, tree)
    (root / ".gitignore").write_text("\n".join(top))
    (root / ".git/info/exclude").write_text("\n".join(exclude))
    (home / "git").mkdir(parents=True, exist_ok=True)
    (home / "git/ignore").write_text("\n".join(own))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    left_alone = GitIgnoreRules(root)

    def seen(folder: str) -> Iterator[str]:
        for entry in (root / folder).iterdir():
            path = f"{folder}/{entry.name}".removeprefix("/")
            if entry.name == ".git" or left_alone.is_ignored(path, is_folder=entry.is_dir()):
                continue
            yield from seen(path) if entry.is_dir() else [path]

    assert sorted(seen("")) == seen_by_git(root, str(home / "git/ignore"))


def test_a_cancelled_walk_ends_at_once(tmp_path: Path) -> None:
    workspace = make(tmp_path, {f"d{number}/f": "" for number in range(5)})
    found: list[str] = []
    for path in workspace.walk_files(is_cancelled=lambda: len(found) == 2):
        found.append(path)
    assert found == ["d0/f", "d1/f"]


def test_a_walk_through_folders_without_files_ends_too(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"d{number}/e").mkdir(parents=True)
    asked = iter(range(60))
    assert list(Workspace(tmp_path).walk_files(is_cancelled=lambda: next(asked) >= 55)) == []
    assert next(asked) < 60, "no folder was looked into after that"


def test_a_cancelled_walk_ends_inside_a_folder(tmp_path: Path) -> None:
    workspace = make(tmp_path, {f"f{number}": "" for number in range(20)})
    asked = iter(range(20))
    assert list(workspace.walk_files(is_cancelled=lambda: next(asked) >= 10)) == []
    assert next(asked) < 15, "the rest of it was not looked at"


def test_closing_the_workspace_ends_every_walk(tmp_path: Path) -> None:
    workspace = make(tmp_path, {"a/f": "", "b/f": ""})
    walk = workspace.walk_files()
    assert next(walk) == "a/f"
    workspace.close()
    with pytest.raises(WorkspaceClosedDuringWalk):
        next(walk)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_folder_removed_or_swapped_for_a_link_during_a_walk_is_not_entered(tmp_path: Path, swapped: bool) -> None:
    outside = make(tmp_path / "outside", {"secret": "x", ".gitignore": ""})
    workspace = make(tmp_path / "ws", {}, "a.py b/c.py d.py")
    walked = workspace.walk_files()
    assert next(walked) == "a.py"
    shutil.rmtree(workspace.root / "b")
    if swapped:
        (workspace.root / "b").symlink_to(outside.root)
    assert list(walked) == ["d.py"]


def test_the_last_match_decides_among_names_and_paths(tmp_path: Path) -> None:
    files = {"a/x": "", "b/x": "", "c": "", "d": "", ".gitignore": "/a/x\n!x\nb/x\n/c\n!c\n!d\n/d\n"}
    assert list(make(tmp_path, files).walk_files()) == [".gitignore", "a/x", "c"]


def test_folders_nest_deeper_than_descriptors_last(tmp_path: Path) -> None:
    workspace = make(tmp_path, {})
    folder, found, limit = tmp_path, [], MAX_PATH_DEPTH - 1
    for depth in range(MAX_PATH_DEPTH + 3):
        folder = folder / "d"
        folder.mkdir()
        (folder / "f").touch()
        (folder / "z").mkdir()
        (folder / "z/f").touch()
        found += [f"{'d/' * (depth + 1)}f"] * (depth < limit) + [f"{'d/' * (depth + 1)}z/f"] * (depth < limit - 1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 64, before[1]))
    try:
        walked = list(workspace.walk_files())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert walked == sorted(found), "as deep as a tool may name them"
    for path in walked[:: len(walked) // 7]:
        assert workspace.read(path) == b""


def test_broad_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "homes/me"
    (home / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    assert describe_broad_folder(Path("/")) == "the whole machine"
    assert describe_broad_folder(home) == describe_broad_folder(tmp_path / "link") == "your home folder"
    assert describe_broad_folder(home.parent) == describe_broad_folder(Path("/etc")) == "a folder of the system"
    assert not describe_broad_folder(home / "project") and not describe_broad_folder(tmp_path / "homes/other")
    monkeypatch.setenv("HOME", "/")
    assert not describe_broad_folder(tmp_path)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert not describe_broad_folder(tmp_path)


def test_kernel_files_are_not_read_in_a_root_workspace() -> None:
    for path in ("proc/self/environ", "sys/kernel/notes", "dev/null", "dev/../proc/self/environ"):
        with pytest.raises(UnsafePath, match="belongs to the kernel"):
            Workspace(Path("/")).read(path)
    assert Workspace(Path("/proc/self")).read("status"), "a workspace on such a file system has files"


PATHS_FOR_GIT = ("home.txt", "xdg.txt", "standard.txt", "instead.txt", "kept.txt")
"""Each but the last is ignored by the file that is called so."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a file of ignore rules for each place that may name one, and a repository."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    (tmp_path / "xdg/git").mkdir(parents=True)
    for name in ("home", "xdg", "instead"):
        (tmp_path / name).with_suffix(".rules").write_text(f"{name}.txt\n")
    (tmp_path / "xdg/git/ignore").write_text("standard.txt\n")
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    for name in PATHS_FOR_GIT:
        (tmp_path / "repository" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "configs",
    [{}, {"home": ".gitconfig"}, {"xdg": "xdg/git/config"}, {"home": ".gitconfig", "xdg": "xdg/git/config"}],
    ids=" ".join,
)
def test_the_ignore_rules_are_those_of_git(
    places: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, str]
) -> None:
    for name, path in {**configs, "instead": "instead.config"}.items():
        (places / path).write_text(f"[core]\n\texcludesFile = ~/{name}.rules\n")
    root = places / "repository"
    command = ["git", "-C", str(root), "ls-files", "-oi", "--exclude-standard"]
    for instead in ("", str(places / "instead.config"), os.devnull, str(places / "absent")):
        if instead:
            monkeypatch.setenv("GIT_CONFIG_GLOBAL", instead)
        ignored = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        mine = GitIgnoreRules(root)
        assert [name for name in sorted(PATHS_FOR_GIT) if mine.is_ignored(name, is_folder=False)] == ignored
        assert len(ignored) == 1
