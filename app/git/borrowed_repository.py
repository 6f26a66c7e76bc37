"""A temporary repository that reads only the objects and the index of the user's repository.

The configuration of a repository can make git run programs: hooks, filters, a file system monitor, an external diff,
an ssh command, and more with every version. So git never runs in the workspace's repository. It runs in an empty
temporary repository that has the user's objects as its alternates (gitrepository-layout). Of the user's configuration
it gets only settings that are plain data.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from app.git.run_git import GitFailed, find_git, run_git
from app.sandbox.environment import environment_without_workspace
from app.workspace.git_repository import GitRepositoryFolders, find_repository
from app.workspace.reading import read_regular_file

_DATA_SETTINGS = frozenset(
    {
        "core.autocrlf",
        "core.eol",
        "core.excludesfile",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
    }
)
"""Settings that decide how git compares a file with a blob; none of them runs a program."""
_IDENTITY_SETTINGS = frozenset(
    {"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email"}
)
_REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Environment variables that lead git to another repository."""
_DISABLE_PROGRAMS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.alternateRefsCommand=true"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "submodule.recurse=false"),
)
_NO_REVISION_EXIT_CODE = 128
_AMBIGUOUS_NAME = re.compile(rb"refname '(?!HEAD'|refs/|[0-9a-f]{40}'|[0-9a-f]{64}').* is ambiguous")
"""Git's warning about a name that it resolves by precedence; HEAD, full references and full ids always win."""
_MAX_COPIED_BYTES = 16 << 20
"""Maximum bytes of a file that is copied from the user's repository."""


class ObjectBorrowingRepository:
    """A temporary git repository that reads the user's objects, so that git runs no program the user's one names.

    It is a context manager, and also writes notes and references into the workspace's repository.

    Args:
        root: The root folder of the workspace.
        work_tree: Whether git may read the files on disk, the index and the attributes of paths.

    Raises:
        GitFailed: there is no repository around the workspace.
    """

    def __init__(self, root: Path, *, work_tree: bool = True) -> None:
        found = _find_hook_repository(root) or find_repository(root)
        if found is None:
            if (root / "HEAD").is_file() and (root / "objects").is_dir():
                raise GitFailed(f"{root} is a bare repository: use a clone, or set GIT_DIR for `signoff verify`.")
            raise GitFailed(f"{root} is not in a git repository.")
        self._user_repository = found
        self._has_work_tree = work_tree
        self.top = found.top
        """The folder that contains `.git`."""
        self.path_prefix = "" if found.top == root else f"{root.relative_to(found.top).as_posix()}/"
        """Path of the workspace relative to `top`, with a slash at its end; empty if both are the same."""
        self.environment = environment_without_workspace(root)
        """signoff's environment with a PATH that leads to no program inside the workspace."""
        self._temporary = tempfile.TemporaryDirectory(prefix="signoff-git-", ignore_cleanup_errors=True)
        self.own = Path(self._temporary.name)
        self._settings: dict[str, list[str]] | None = None
        self._is_sha256 = False

    def __enter__(self) -> "ObjectBorrowingRepository":
        """Create the temporary repository; raise GitFailed if it cannot be written or git is not installed."""
        find_git(self.environment)
        try:
            self._create_repository()
        except OSError as error:
            self._temporary.cleanup()
            raise GitFailed(f"No room for git to work in {self.own.parent} ({error.strerror}).") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the temporary repository."""
        self._temporary.cleanup()

    @property
    def settings(self) -> Mapping[str, Sequence[str]]:
        """Return the merged git configuration (system, user, repository) by lower-case key."""
        if self._settings is None:
            output = run_git(
                self.own, ["config", "--list", "-z"], self._user_environment(self._user_repository.folder)
            )
            self._settings = {}
            for entry in output.decode("utf-8", "surrogateescape").split("\0"):
                key, _, value = entry.partition("\n")
                section, _, rest = key.partition(".")
                middle, dot, name = rest.rpartition(".")
                full_key = f"{section.lower()}.{middle}{dot}{name.lower()}"
                self._settings.setdefault(full_key, []).append(value)
        return self._settings

    def setting(self, key: str) -> str:
        """Return the last value of a setting; empty if it is not set."""
        return (self.settings.get(key) or [""])[-1]

    def run_query(
        self, *arguments: str, data: bytes = b"", index: Path | None = None, max_exit_code: int = 0
    ) -> bytes:
        """Run a git command that leaves the user's repository unchanged, with settings that are plain data.

        Args:
            index: The index file to use; None for that of the user's repository.
            max_exit_code: The highest exit code that is an answer rather than a failure.
        """
        environment = {
            **self._isolated_environment,
            "GIT_DIR": str(self.own),
            "GIT_WORK_TREE": str(self.top if self._has_work_tree else self.own),
            "GIT_INDEX_FILE": str(
                index or (self._user_repository.folder if self._has_work_tree else self.own) / "index"
            ),
        }
        folder = self.top if self._has_work_tree else self.own
        options = [*_DISABLE_PROGRAMS, *self._copy_settings(_DATA_SETTINGS)]
        return run_git(folder, [*options, *arguments], environment, data=data, max_exit_code=max_exit_code)

    def copy_index(self) -> Path:
        """Copy the user's index into the temporary repository, for a command that changes it; return the copy."""
        copy = self.own / "index"
        try:
            with suppress(FileNotFoundError):
                # With the time of the index: git compares the contents of files that were written later.
                shutil.copy2(self._user_repository.folder / "index", copy)
            return copy
        except OSError as error:
            raise GitFailed(f"The index cannot be copied to {self.own} ({error.strerror}).") from error

    def resolve_object_id(self, name: str, kind: str = "commit") -> str:
        """Return the object id of a name in the user's repository; empty if there is none.

        Git looks the name up in the user's repository itself; this runs no program.

        Raises:
            GitFailed: The name is ambiguous: a fetched tag may have the name of a branch.
        """
        return self._parse_revision("--verify", "--end-of-options", f"{name}^{{{kind}}}")

    def full_reference_name(self, name: str) -> str:
        """Return the full reference of a short name, such as `refs/heads/main`; empty if there is none."""
        return self._parse_revision("--symbolic-full-name", "--verify", "--end-of-options", name)

    def run_remote_command(self, *arguments: str, seconds: float) -> bytes:
        """Run a git command that connects to another repository, with the user's own configuration and credentials.

        The repository's own configuration is not used: neither its credential helpers nor its ssh command.
        """
        protocols = os.environ.get("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
        environment = {**self._user_environment(self.own), "GIT_ALLOW_PROTOCOL": protocols}
        return run_git(self.own, [*_DISABLE_PROGRAMS, *arguments], environment, seconds=seconds)

    def write_object(self, *arguments: str, data: bytes) -> bytes:
        """Run a git command that writes an object into the temporary repository, with the user's identity."""
        return self._run_with_identity(self.own, *arguments, data=data)

    def write_note(self, reference: str, commit: str, text: str) -> None:
        """Write a note on a commit into the user's repository; it replaces an earlier note."""
        add = ("notes", f"--ref={reference}", "add", "--force", "--file=-", commit)
        self._run_with_identity(self._user_repository.folder, *add, data=text.encode("utf-8", "surrogateescape"))

    def read_blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of blobs by their full ids; raise GitFailed if one is missing."""
        if not names:
            return {}
        output = self.run_query("cat-file", "--batch", data="".join(f"{name}\n" for name in names).encode())
        contents, position = {}, 0
        for name in names:
            end = output.index(b"\n", position)
            _, _, size = output[position:end].decode("ascii", "replace").rpartition(" ")
            if not size.isdecimal():
                raise GitFailed(f"The object {name[:12]} is missing here: `git fetch --refetch --no-filter`.")
            position = end + 1 + int(size) + 1
            contents[name] = output[end + 1 : position - 1]
        return contents

    def commit_files_to_reference(self, reference: str, files: Mapping[str, bytes], message: str) -> None:
        """Add a commit with these files to a reference of the user's repository; other files of the reference stay.

        Args:
            reference: For example `refs/notes/x`; created if it does not exist.
            files: Contents by path; the paths are plain ASCII.

        Raises:
            GitFailed: git cannot write the commit, or another process changed the reference meanwhile.
        """
        identity = run_git(self.top, ["var", "GIT_COMMITTER_IDENT"], {**self.environment, **_QUIET_ENVIRONMENT})
        lines = [b"commit %s\ncommitter %s\n" % (reference.encode(), identity.strip())]
        lines.append(b"data %d\n%s\n" % (len(message), message.encode()))
        if tip := self.resolve_object_id(reference):
            lines.append(b"from %s\n" % tip.encode())
        for path, content in sorted(files.items()):
            lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))
        environment = self._user_environment(self._user_repository.folder)
        run_git(self.own, [*_DISABLE_PROGRAMS, "fast-import", "--quiet"], environment, data=b"".join(lines))

    @property
    def git_common_dir(self) -> Path:
        """Return the folder with the repository's configuration and hooks, which linked worktrees share."""
        return self._user_repository.shared

    @property
    def shallow_commits(self) -> frozenset[str]:
        """Return the commits whose parents were not fetched."""
        return frozenset(_read_small_file(self.own / "shallow").decode("ascii", "replace").split())

    def list_references(self, *patterns: str) -> list[str]:
        """Return the references of the user's repository that match patterns of git for-each-ref."""
        arguments = ["--git-dir", str(self._user_repository.folder), "for-each-ref", "--format=%(refname)", *patterns]
        output = run_git(self.own, [*_DISABLE_PROGRAMS, *arguments], self._isolated_environment).decode(
            "utf-8", "surrogateescape"
        )
        return output.split("\n")[:-1]

    def merge_notes(self, reference: str, other: str) -> None:
        """Merge other notes into a notes reference of the user's repository, line by line; raise GitFailed on
        failure.
        """
        merge = ("notes", f"--ref={reference}", "merge", "--quiet", "--strategy=cat_sort_uniq", other)
        self._run_with_identity(self._user_repository.folder, *merge)

    def _run_with_identity(self, git_dir: Path, *arguments: str, data: bytes = b"") -> bytes:
        """Run a git command that connects to no other repository, with the user's identity."""
        environment = {**self._user_environment(git_dir), "GIT_ALLOW_PROTOCOL": "none"}
        options = self._copy_settings(_IDENTITY_SETTINGS)
        return run_git(self.own, [*_DISABLE_PROGRAMS, *options, *arguments], environment, data=data)

    def _copy_settings(self, keys: frozenset[str]) -> list[str]:
        """Return the options that give git these settings of the user, as far as they are set."""
        return [part for key in sorted(keys) if key in self.settings for part in ("-c", f"{key}={self.setting(key)}")]

    def add_reference(self, reference: str, commit: str) -> None:
        """Add a reference to the temporary repository; a fetch then skips the objects that it reaches."""
        path = self.own / reference
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{commit}\n", encoding="ascii")

    @property
    def object_format(self) -> str:
        """Return the hash by which the repository names objects: `sha1` or `sha256`."""
        return "sha256" if self._is_sha256 else "sha1"

    def _parse_revision(self, *arguments: str) -> str:
        options = ["-c", "core.warnAmbiguousRefs=true", "--git-dir", str(self._user_repository.folder)]
        output = run_git(
            self.own,
            [*_DISABLE_PROGRAMS, *options, "rev-parse", *arguments],
            self._isolated_environment,
            max_exit_code=_NO_REVISION_EXIT_CODE,
            refused_warning=_AMBIGUOUS_NAME,
        )
        return output.decode("utf-8", "surrogateescape").strip()

    @property
    def _isolated_environment(self) -> dict[str, str]:
        """Return an environment in which git reads no configuration and contacts no other machine."""
        without_git = {name: value for name, value in self.environment.items() if not name.startswith("GIT_")}
        return {
            **without_git,
            **_QUIET_ENVIRONMENT,
            "HOME": str(self.own),
            "XDG_CONFIG_HOME": str(self.own),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quarantine_folder(),
        }

    def _user_environment(self, git_dir: Path) -> dict[str, str]:
        """Return the user's environment for a git command in a repository."""
        kept = {name: value for name, value in self.environment.items() if name not in _REPOSITORY_VARIABLES}
        return {**kept, **_QUIET_ENVIRONMENT, "GIT_DIR": str(git_dir)}

    def _create_repository(self) -> None:
        user_repository = self._user_repository
        for folder in ("objects/info", "refs", "info"):
            (self.own / folder).mkdir(parents=True)
        self._is_sha256 = b"objectformat = sha256" in _read_small_file(user_repository.shared / "config").lower()
        kind = "[extensions]\n\tobjectformat = sha256\n" if self._is_sha256 else ""
        config = f"[core]\n\trepositoryformatversion = {int(self._is_sha256)}\n{kind}"
        (self.own / "config").write_text(config, encoding="ascii")
        (self.own / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        objects = [os.fsencode(user_repository.shared.resolve() / "objects"), os.fsencode(_quarantine_folder())]
        (self.own / "objects/info/alternates").write_bytes(b"".join(folder + b"\n" for folder in objects if folder))
        for name in ("shallow", *(("info/exclude", "info/attributes") if self._has_work_tree else ())):
            if content := _read_small_file(user_repository.shared / name):
                (self.own / name).write_bytes(content)
        for shared_index in user_repository.folder.glob("sharedindex.*"):
            # A split index keeps its larger part in a second file.
            (self.own / shared_index.name).symlink_to(shared_index.resolve())


_QUIET_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
}


def _quarantine_folder() -> str:
    """Return git's quarantine folder for pushed objects while the hook pre-receive runs; empty otherwise.

    https://git-scm.com/docs/git-receive-pack#_quarantine_environment
    """
    return str(Path(folder).resolve()) if (folder := os.environ.get("GIT_QUARANTINE_PATH")) else ""


def _find_hook_repository(root: Path) -> GitRepositoryFolders | None:
    """Return `root` as a bare repository if this process runs in its hook; None otherwise."""
    if Path(os.environ.get("GIT_DIR", os.devnull)).resolve() != root or not (root / "HEAD").is_file():
        return None
    return GitRepositoryFolders(root, root, root)


def _read_small_file(path: Path) -> bytes:
    """Return the bytes of a small file of the user's repository; empty if it cannot be read."""
    try:
        return read_regular_file(path, _MAX_COPIED_BYTES)[0]
    except OSError:
        return b""
