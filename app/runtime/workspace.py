"""Opens a workspace: the one place where configuration, store, service, tools and client come together."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.runtime.hooked import Hooked
from app.storage import at_rest
from app.storage.database import Database
from app.storage.errors import StorageError
from app.storage.places import Places, places
from app.storage.signals import Signal
from app.workspace import trust
from app.workspace.paths import Workspace, WorkspaceError

if TYPE_CHECKING:
    from app.agent.trace import DebugFile
    from app.checks.runner import CheckRunner
    from app.config.hook_table import Hook
    from app.config.settings import Configuration, Settings
    from app.proposals.service import ProposalService
    from app.sandbox.mode import CommandPermissions
    from app.sandbox.sandbox import Sandbox
    from app.skills.finding import Skills
    from app.storage.allowed_commands import AllowedCommandStore
    from app.storage.captured import CapturedEdits
    from app.storage.proposals import SqliteProposalStore
    from app.storage.search import SessionSearch
    from app.storage.sessions import SessionStore


@dataclass(slots=True)
class Runtime:
    """One open workspace, without a session and without a model.

    What takes long to import is made when it is first asked for, so that a command pays for what it uses.
    """

    places: Places
    workspace: Workspace
    database: Database
    name: str
    """What the store calls the workspace."""
    signal: Signal
    flags: Mapping[str, Any] = field(default_factory=dict)
    """What the command line set."""
    environment: Mapping[str, str] = field(default_factory=dict)
    hooked: Hooked = field(init=False, repr=False)
    """Tells hooks of what is written to the stores."""
    skills: "Skills | None" = None
    """Those that the session that was opened last has been told of."""
    debug: "DebugFile | None" = None
    """Follows each session that is opened."""
    _configuration: "Configuration | None" = None
    _sessions: "SessionStore | None" = None
    _proposals: "SqliteProposalStore | None" = None
    _service: "ProposalService | None" = None
    _sandbox: "Sandbox | None" = None
    _checks: "CheckRunner | None" = None
    _making: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.hooked = Hooked(self.workspace.root, self.environment, self._hooks)

    @property
    def configuration(self) -> "Configuration":
        """The merged configuration; raises ConfigError."""
        with self._making:
            if self._configuration is None:
                self._configuration = self._load()
            return self._configuration

    @property
    def sessions(self) -> "SessionStore":
        """Where sessions are kept."""
        from app.storage.sessions import SessionStore

        with self._making:
            if self._sessions is None:
                self._sessions = SessionStore(self.database, self.name, self.signal)
                self._sessions.happened = self.hooked.happened
            return self._sessions

    @property
    def search(self) -> "SessionSearch":
        """The search over all sessions."""
        from app.storage.search import SessionSearch

        return SessionSearch(self.database, self.name)

    @property
    def proposals(self) -> "SqliteProposalStore":
        """Where proposals are kept."""
        from app.storage.proposals import SqliteProposalStore

        with self._making:
            if self._proposals is None:
                self._proposals = SqliteProposalStore(self.database, self.name, self.signal, self._who)
                self._proposals.staged = self.hooked.staged
            return self._proposals

    @property
    def service(self) -> "ProposalService":
        """Where proposals are staged and decided."""
        from app.proposals.service import ProposalService

        with self._making:
            if self._service is None:
                lock = self.places.locks / f"{self.signal.path.name}.lock"
                self._service = ProposalService(self.workspace, self.proposals, lock, in_use=self._in_use)
            return self._service

    def _who(self) -> str:
        """The name of the user who decides."""
        from app.git.identity import git_identity

        return git_identity(self.workspace.root)

    def _hooks(self) -> "Sequence[Hook]":
        """The hooks in force; raises ConfigError."""
        if self._configuration is None and not self._is_configured():
            return ()
        return self.settings.hook

    def _is_configured(self) -> bool:
        return any(map(os.path.lexists, (self.places.config_file, self.workspace.root / trust.FILE_NAME)))

    def _in_use(self) -> bool:
        """Whether a command runs directly on the files; what one has left that was cut off is put back first."""
        if not self.places.runs.exists():
            return False
        from app.sandbox.guard import Busy, guard_of

        if not guard_of(self.workspace.root, self.places.runs).mark.exists():
            return False
        try:
            if line := self.sandbox.put_back(patient=False):
                self.service.tell(line)
        except Busy:
            return True
        return False

    @property
    def captured(self) -> "CapturedEdits":
        """What the hooks of other agents have taken."""
        from app.storage.captured import CapturedEdits

        return CapturedEdits(self.database, self.name, self.signal)

    @property
    def sandbox(self) -> "Sandbox":
        """Where commands run; raises ConfigError."""
        from app.sandbox.limits import limits
        from app.sandbox.sandbox import Sandbox

        with self._making:
            if self._sandbox is None:
                self._sandbox = Sandbox(
                    self.workspace,
                    self.places.runs,
                    own=(self.places.state, self.places.config),
                    permissions=self._command_permissions(),
                    kept=self.places.kept,
                    bounds=limits(self.settings.command_memory, self.settings.command_processes),
                )
            return self._sandbox

    def _command_permissions(self) -> "CommandPermissions":
        from app.config.settings import ConfigError
        from app.sandbox.mode import CommandPermissions
        from app.sandbox.sockets import SERVICES

        settings = self.settings
        for name in settings.command_sockets:
            if name not in SERVICES and not name.startswith(("/", "~/")):
                raise ConfigError(
                    f"command_sockets: there is no service {name!r}; write the path of its socket, or one of "
                    f"{', '.join(SERVICES)}."
                )
        return CommandPermissions(settings.command_writable, settings.command_sockets, settings.command_environment)

    @property
    def checks(self) -> "CheckRunner":
        """What runs the checks."""
        from app.checks.runner import CheckRunner

        with self._making:
            if self._checks is None:
                self._checks = CheckRunner(lambda: self.sandbox, self.workspace)
            return self._checks

    @property
    def allowed_commands(self) -> "AllowedCommandStore":
        """The forms of commands that the user has allowed for good here."""
        from app.storage.allowed_commands import AllowedCommandStore

        return AllowedCommandStore(self.database, self.name)

    @property
    def settings(self) -> "Settings":
        """The merged settings; raises ConfigError."""
        return self.configuration.settings

    @property
    def at_rest(self) -> bool:
        """Whether nothing awaits a decision and nothing was left unfinished."""
        return at_rest.is_at_rest(self.database, self.name)

    def waiting_above(self) -> list[str]:
        """Folders above this workspace that were opened as workspaces themselves and have waiting proposals."""
        return at_rest.waiting_above(self.database, self.name)

    def reload(self) -> "Configuration":
        """Read all configuration anew, with the trust that the user gives now; raises ConfigError."""
        configuration = self._load()
        with self._making:
            self._configuration = configuration
        return configuration

    def origin_of(self, key: str) -> str:
        """Where a setting comes from: `--model`, `$SIGNOFF_MODEL`, a file's name; empty for its default."""
        from app.config.settings import origin

        return origin(
            key,
            user_file=self.places.config_file,
            from_workspace=self.configuration.from_workspace,
            flags=self.flags,
            environment=self.environment,
        )

    def close(self) -> None:
        """End what looks through the workspace and what hooks run, and close the database."""
        self.workspace.close()
        self.hooked.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self.database.close()

    def _load(self) -> "Configuration":
        from app.config.settings import ConfigError, load

        # Read once: what trust is decided on must be what is parsed, whoever rewrites the file in between.
        try:
            project = trust.configuration(self.workspace)
        except WorkspaceError as error:
            raise ConfigError(f"{error}; move it away.") from error
        except OSError as error:
            raise ConfigError(f"{trust.FILE_NAME} cannot be read: {error.strerror or 'it is a folder'}.") from error
        return load(
            user_file=self.places.config_file,
            project=project,
            flags=self.flags,
            environment=self.environment,
            trusted=trust.is_trusted(project, self.sessions),
        )


def open_runtime(
    root: Path, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> Runtime:
    """Open a workspace.

    Raises:
        ConfigError: a configuration file is wrong.
        StorageError: the database cannot be used, or `root` is not a folder.
    """
    if not root.is_dir():
        raise StorageError(f"{root} is not a folder; give the workspace to open.")
    where = places()
    workspace = Workspace(root, off_limits=(where.state, where.config))
    name = str(workspace.root).encode("utf-8", "backslashreplace").decode("utf-8")
    database = Database(where.database)
    try:
        signal = Signal(where.signals, name)
        where.locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        runtime = Runtime(where, workspace, database, name, signal, flags or {}, environment)
        if misplaced := where.misplaced_config_file:
            from app.config.settings import ConfigError

            raise ConfigError(f"{misplaced} is not read there; move it to {where.config_file}.")
        if os.path.lexists(where.config_file) or os.path.lexists(workspace.root / trust.FILE_NAME):
            # What is wrong with a file is said at once, whatever the command needs of it.
            _ = runtime.configuration
    except OSError as error:
        database.close()
        raise StorageError(
            f"{where.state} cannot be used: {error.strerror or error}. Set SIGNOFF_HOME to a folder that you own."
        ) from error
    except BaseException:
        database.close()
        raise
    return runtime
