"""Opens a workspace: the one place where configuration, store, desk, tools and client come together."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.config import ConfigError, Configuration, Settings, load, origin
from app.storage.allowed_commands import AllowedCommandStore
from app.storage.database import Database
from app.storage.errors import StorageError
from app.storage.places import Places, places
from app.storage.sessions import SessionStore
from app.storage.signals import Signal
from app.workspace import trust
from app.workspace.paths import Workspace, WorkspaceError

if TYPE_CHECKING:
    from app.proposals.desk import ProposalDesk
    from app.storage.proposals import SqliteProposalStore


@dataclass(slots=True)
class Runtime:
    """One open workspace, without a session and without a model."""

    places: Places
    configuration: Configuration
    workspace: Workspace
    database: Database
    sessions: SessionStore
    signal: Signal
    flags: Mapping[str, Any] = field(default_factory=dict)
    """What the command line set."""
    environment: Mapping[str, str] = field(default_factory=dict)
    _proposals: "SqliteProposalStore | None" = None
    _desk: "ProposalDesk | None" = None
    _making: threading.RLock = field(default_factory=threading.RLock)

    @property
    def proposals(self) -> "SqliteProposalStore":
        """Where proposals are kept; made when first asked for, as the end of a session is shown without it."""
        from app.storage.proposals import SqliteProposalStore

        with self._making:
            if self._proposals is None:
                self._proposals = SqliteProposalStore(self.database, self.sessions.workspace, self.signal)
            return self._proposals

    @property
    def desk(self) -> "ProposalDesk":
        """Where proposals are staged and decided; made when first asked for, as it takes long to import."""
        from app.proposals.desk import ProposalDesk

        with self._making:
            if self._desk is None:
                lock = self.places.locks / f"{self.signal.path.name}.lock"
                self._desk = ProposalDesk(self.workspace, self.proposals, lock)
            return self._desk

    @property
    def allowed_commands(self) -> AllowedCommandStore:
        """The forms of commands that the user has allowed for good here."""
        return AllowedCommandStore(self.database, self.sessions.workspace)

    @property
    def settings(self) -> Settings:
        """The merged settings."""
        return self.configuration.settings

    def reload(self) -> Configuration:
        """Read all configuration anew, with the trust that the user gives now; raises ConfigError."""
        self.configuration = _load(self.places, self.workspace, self.sessions, self.flags, self.environment)
        return self.configuration

    def origin_of(self, key: str) -> str:
        """Where a setting comes from: `--model`, `$SIGNOFF_MODEL`, a file's name; empty for its default."""
        return origin(
            key,
            user_file=self.places.config_file,
            from_workspace=self.configuration.from_workspace,
            flags=self.flags,
            environment=self.environment,
        )

    def close(self) -> None:
        """Close the database."""
        self.database.close()


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
        sessions = SessionStore(database, name, signal)
        configuration = _load(where, workspace, sessions, flags or {}, environment)
        where.locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        database.close()
        raise StorageError(
            f"{where.state} cannot be used: {error.strerror or error}. Set SIGNOFF_HOME to a folder that you own."
        ) from error
    except BaseException:
        database.close()
        raise
    return Runtime(where, configuration, workspace, database, sessions, signal, flags or {}, environment)


def _load(
    where: Places,
    workspace: Workspace,
    sessions: SessionStore,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Configuration:
    # Read once: what trust is decided on must be what is parsed, whoever rewrites the file in between.
    try:
        project = trust.configuration(workspace)
    except WorkspaceError as error:
        raise ConfigError(f"{error}; move it away.") from error
    except OSError as error:
        raise ConfigError(f"{trust.FILE_NAME} cannot be read: {error.strerror or 'it is a folder'}.") from error
    return load(
        user_file=where.config_file,
        project=project,
        flags=flags,
        environment=environment,
        trusted=trust.is_trusted(project, sessions),
    )
