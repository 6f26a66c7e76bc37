"""Opens a workspace: the one place where configuration, stores, services, tools and sandbox are created."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.storage import StorageError
from app.storage.app_dirs import AppDirs, find_app_dirs
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.workspace import trust
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.agent.trace import TraceFileWriter
    from app.automation.check_runner import CheckRunner
    from app.automation.event_hooks import HookRunner
    from app.automation.evidence.evidence_runner import HunkTestEvidenceCollector
    from app.automation.evidence.proposal_evidence import CommandReproductionResult
    from app.config.config_tables import EventHookTable
    from app.config.settings import Configuration, Settings
    from app.conversation.events import Event
    from app.prompts.skills import SkillCatalogue
    from app.proposals.proposal_service import ProposalService
    from app.proposals.values.models import Proposal
    from app.sandbox.captured_changes import PathChange, PendingFiles
    from app.sandbox.confinement import ConfiguredCommandAccess
    from app.sandbox.sandbox import Sandbox
    from app.storage.captured_edit_store import CapturedEditStore
    from app.storage.database import AllowedCommandStore
    from app.storage.seen_lines_store import SeenLinesStore
    from app.storage.session_search import SessionSearch
    from app.storage.session_store import SessionStore
    from app.storage.sqlite_proposal_store import SqliteProposalStore


class HookDispatcher:
    """Runs the user's hooks for written session events and newly staged proposals, on any thread.

    Args:
        hooks: Returns the configured and trusted hooks.
    """

    def __init__(
        self, root: Path, environment: Mapping[str, str], hooks: "Callable[[], Sequence[EventHookTable]]"
    ) -> None:
        self._root = root
        self._environment = environment
        self._load_hooks = hooks
        self._runner: HookRunner | None = None
        self._runner_lock = threading.Lock()
        self.notify: Callable[[str], None] = lambda line: None
        """Receives a line for the user if a hook fails, on any thread."""
        self.patience: float | None = None
        """Seconds that `close` waits for running hooks; None for no limit besides their timeouts."""

    def on_events_written(self, session: str, events: "Sequence[Event]") -> None:
        """Run the hooks for events that were written to a session; `session` is empty for a decision without one."""
        with self._report_errors():
            if hooks := self._active_hooks():
                from app.automation.event_hooks import event_document

                for event in events:
                    if document := event_document(event, session, str(self._root), time.time()):
                        self._get_runner().queue_event(hooks, document)

    def on_proposal_staged(self, proposal: "Proposal") -> None:
        """Run the hooks for a new proposal."""
        with self._report_errors():
            if hooks := self._active_hooks():
                from app.automation.event_hooks import proposal_document

                self._get_runner().queue_event(hooks, proposal_document(proposal, str(self._root)))

    def close(self) -> None:
        """Wait for running hooks up to `patience`, then end them."""
        if self._runner is not None:
            self._runner.patience = self.patience
            self._runner.close()

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        """Report errors of hooks to the user instead of raising them: the write itself has succeeded."""
        try:
            yield
        except Exception as error:
            self.notify(f"Hooks could not be told: {type(error).__name__}: {error}")

    def _active_hooks(self) -> "Sequence[EventHookTable]":
        # A `signoff` that a hook runs must not run hooks: they would start each other without end.
        return () if self._environment.get("SIGNOFF_IN_HOOK") else self._load_hooks()

    def _get_runner(self) -> "HookRunner":
        from app.automation.event_hooks import HookRunner

        with self._runner_lock:
            if self._runner is None:
                self._runner = HookRunner(self._root, self._environment)
                self._runner.report = lambda line: self.notify(line)
            return self._runner


@dataclass(slots=True)
class OpenWorkspace:
    """The settings, stores and services of an open workspace, without a session and a model.

    Slow imports happen on first use of a property, so that each command loads only what it uses.
    """

    dirs: AppDirs
    workspace: Workspace
    database: Database
    signal: DatabaseChangeSignal
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Settings from the command line."""
    environment: Mapping[str, str] = field(default_factory=dict)
    hook_dispatcher: HookDispatcher = field(init=False, repr=False)
    """Runs hooks for writes to the stores."""
    skills: "SkillCatalogue | None" = None
    """The skills in the system prompt of the session that was opened last."""
    trace_file: "TraceFileWriter | None" = None
    """Writes a trace of each opened session."""
    _configuration: "Configuration | None" = None
    _sessions: "SessionStore | None" = None
    _proposals: "SqliteProposalStore | None" = None
    _service: "ProposalService | None" = None
    _sandbox: "Sandbox | None" = None
    _checks: "CheckRunner | None" = None
    _evidence: "HunkTestEvidenceCollector | None" = None
    _creation_lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.hook_dispatcher = HookDispatcher(self.workspace.root, self.environment, self._hooks_in_force)

    @property
    def name(self) -> str:
        """Return the name of the workspace in the store."""
        return self.workspace.name

    @property
    def configuration(self) -> "Configuration":
        """Return the merged configuration. Raises ConfigError."""
        with self._creation_lock:
            if self._configuration is None:
                self._configuration = self._load_configuration()
            return self._configuration

    @property
    def sessions(self) -> "SessionStore":
        """Return the store of sessions."""
        from app.storage.session_store import SessionStore

        with self._creation_lock:
            if self._sessions is None:
                self._sessions = SessionStore(self.database, self.name, self.signal)
                self._sessions.on_events_written = self.hook_dispatcher.on_events_written
            return self._sessions

    @property
    def session_search(self) -> "SessionSearch":
        """Return the search over all sessions."""
        from app.storage.session_search import SessionSearch

        return SessionSearch(self.database, self.name)

    @property
    def proposals(self) -> "SqliteProposalStore":
        """Return the store of proposals."""
        from app.storage.sqlite_proposal_store import SqliteProposalStore

        with self._creation_lock:
            if self._proposals is None:
                self._proposals = SqliteProposalStore(
                    self.database, self.name, self.signal, self._user_name, self.unread_limit
                )
                self._proposals.on_proposal_staged = self.hook_dispatcher.on_proposal_staged
            return self._proposals

    @property
    def service(self) -> "ProposalService":
        """Return the proposal service."""
        from app.proposals.proposal_service import ProposalService

        with self._creation_lock:
            if self._service is None:
                lock = self.dirs.locks / f"{self.signal.path.name}.lock"
                self._service = ProposalService(
                    self.workspace, self.proposals, lock, in_use=self._is_command_running, permit=self._check_policy
                )
            return self._service

    def _user_name(self) -> str:
        """Return the name of the user who decides."""
        from app.git.run_git import read_git_author_identity

        return read_git_author_identity(self.workspace.root)

    def unread_limit(self) -> int:
        """Return how many changed lines may wait unread before an edit; 0 for any number. Raises ConfigError.

        Only the user's own file sets this, so an unreadable file of the workspace does not block staging.
        """
        if self._configuration is not None:
            return self.settings.reading.unseen_lines or 0
        from app.config.toml_files import read_max_unread_lines

        try:
            return read_max_unread_lines(self.dirs.config_file)
        except (OSError, ValueError) as error:
            from app.config.settings import ConfigError

            raise ConfigError(str(error)) from error

    def check_unread_limit(self) -> None:
        """Raise TooManyUnreadLinesToStage if more lines wait unread than the reading budget allows."""
        from app.proposals.values.proposal_errors import TooManyUnreadLinesToStage

        if (limit := self.unread_limit()) and (unread := self.seen_lines_store.unread_line_count()) > limit:
            raise TooManyUnreadLinesToStage(unread)

    @property
    def seen_lines_store(self) -> "SeenLinesStore":
        """Return the store of seen lines."""
        from app.storage.seen_lines_store import SeenLinesStore

        return SeenLinesStore(self.database, self.name, self.signal)

    def _hooks_in_force(self) -> "Sequence[EventHookTable]":
        """Return the hooks in force. Raises ConfigError."""
        if self._configuration is None and not self._has_configuration_file():
            return ()
        return self.settings.hook

    def _has_configuration_file(self) -> bool:
        return any(map(os.path.lexists, (self.dirs.config_file, self.workspace.root / trust.FILE_NAME)))

    def _check_policy(self, changes: "Iterable[PathChange]") -> None:
        """Raise ProposalError if the repository's policy requires approvals of other people before these changes."""
        from app.workspace.git_repository import find_repository

        repository = find_repository(self.workspace.root)
        if repository is not None and (repository.top / ".signoff/review-policy.toml").exists():
            # Most repositories have no policy: import only now.
            from app.attestation.commit_verification import require_approvals_by_other_people

            require_approvals_by_other_people(self.workspace.root, changes)

    def _is_command_running(self) -> bool:
        """Return whether a command runs directly on the files; first restore what an interrupted one left.

        Raises:
            DiskFailed: the files can't be restored.
        """
        if not self.dirs.runs.exists():
            return False
        from app.sandbox.captured_changes import FilesNotRestored
        from app.sandbox.workspace_backup import InPlaceCommandAlreadyRunning, locate_workspace_backup

        if not locate_workspace_backup(self.workspace.root, self.dirs.runs).marker_file.exists():
            return False
        try:
            if line := self.sandbox.restore_after_crash(wait_for_lock=False):
                self.service.notify(line)
        except InPlaceCommandAlreadyRunning:
            return True
        except FilesNotRestored as error:
            from app.proposals.values.proposal_errors import DiskFailed

            raise DiskFailed(f"{error}.") from error
        return False

    @property
    def captured_edits(self) -> "CapturedEditStore":
        """Return the store of edits that the hooks of other agents captured."""
        from app.storage.captured_edit_store import CapturedEditStore

        return CapturedEditStore(self.database, self.name, self.signal)

    @property
    def sandbox(self) -> "Sandbox":
        """Return the sandbox of commands. Raises `ConfigError`."""
        from app.sandbox.enclosed_process import process_limits
        from app.sandbox.sandbox import Sandbox

        with self._creation_lock:
            if self._sandbox is None:
                self._sandbox = Sandbox(
                    self.workspace,
                    self.dirs.runs,
                    own_folders=self.dirs.own_folders,
                    permissions=self._command_permissions(),
                    kept=self.dirs.kept_versions,
                    limits=process_limits(self.settings.command_memory, self.settings.command_processes),
                )
            return self._sandbox

    def _command_permissions(self) -> "ConfiguredCommandAccess":
        from app.config.settings import ConfigError
        from app.sandbox.confinement import ConfiguredCommandAccess
        from app.sandbox.outside_access import SOCKET_SERVICES

        settings = self.settings
        for name in settings.command_sockets:
            if name not in SOCKET_SERVICES and not name.startswith(("/", "~/")):
                raise ConfigError(
                    f"command_sockets: there is no service {name!r}; write the path of its socket, or one of "
                    f"{', '.join(SOCKET_SERVICES)}."
                )
        return ConfiguredCommandAccess(
            settings.command_writable, settings.command_sockets, settings.command_environment
        )

    @property
    def checks(self) -> "CheckRunner":
        """Return the runner of checks."""
        from app.automation.check_runner import CheckRunner

        with self._creation_lock:
            if self._checks is None:
                self._checks = CheckRunner(lambda: self.sandbox, self.workspace)
            return self._checks

    def tree_id(self, pending: "PendingFiles") -> str:
        """Return the id of the workspace's tree with pending changes applied. Thread-safe. Raises OSError."""
        from app.automation.workspace_tree import WorkspaceTreeReader

        return WorkspaceTreeReader(self.workspace).read_trees(pending)[0].id

    def describe_model_reads(self, proposal_id: str) -> list[str]:
        """Return lines of text on what the model had read before it wrote a proposal. Blocks on the disk.

        Raises ProposalError and StorageError.
        """
        from app.agent.read_history import find_reads_before_proposal
        from app.proposals.risk.read_reasons import format_read_history
        from app.runtime.agent_reads import find_agent_reads_before_proposal

        proposal = self.service.get(proposal_id)
        paths = [change.old_path or change.path for change in proposal.files]
        if proposal.session:
            history = find_reads_before_proposal(self.sessions.events(proposal.session), proposal_id, paths)
        else:
            history = find_agent_reads_before_proposal(self.captured_edits, self.proposals, proposal_id, paths)
        return format_read_history(history, paths) if history is not None else ["This is not known of its author."]

    async def reproduce(self, proposal_id: str) -> "CommandReproductionResult":
        """Run the command of a waiting proposal again; if the result replaces the proposal's, add a note for its
        model.

        Raises CommandNotRepeatable, ProposalError, StorageError and OSError.
        """
        import asyncio

        from app.automation.evidence.command_reproducer import CommandReproducer

        reproducer = await asyncio.to_thread(lambda: CommandReproducer(self.checks, self.service, self.tree_id))
        result = await reproducer.reproduce(proposal_id)
        if result.outcome == "replaced":
            await asyncio.to_thread(self._add_replaced_note, proposal_id, result.differing)
        return result

    def _add_replaced_note(self, proposal_id: str, paths: "Sequence[str]") -> None:
        """Add a note on the new result to the session of a proposal, if it has one."""
        from app.agent.interventions import user_reran_command_note

        session = self.service.get(proposal_id).session
        if session and self.sessions.exists(session):
            self.sessions.append_events(session, [user_reran_command_note(proposal_id, paths)])

    @property
    def evidence(self) -> "HunkTestEvidenceCollector":
        """Return the runner that collects evidence."""
        from app.automation.evidence.evidence_runner import HunkTestEvidenceCollector
        from app.review.review_stores import ProposalEvidenceStore

        with self._creation_lock:
            if self._evidence is None:
                store = ProposalEvidenceStore(self.sessions)
                self._evidence = HunkTestEvidenceCollector(self.checks, self.service, self.workspace, store)
            return self._evidence

    @property
    def allowed_commands(self) -> "AllowedCommandStore":
        """Return the store of the command forms that the user has allowed permanently in this workspace."""
        from app.storage.database import AllowedCommandStore

        return AllowedCommandStore(self.database, self.name)

    @property
    def settings(self) -> "Settings":
        """Return the merged settings. Raises ConfigError."""
        return self.configuration.settings

    def reload(self) -> "Configuration":
        """Read the configuration files again, with the trust that the user has given by now. Raises ConfigError."""
        configuration = self._load_configuration()
        with self._creation_lock:
            self._configuration = configuration
        return configuration

    def setting_origin(self, key: str) -> str:
        """Return the origin of a setting: `--model`, `$SIGNOFF_MODEL`, a file; empty if it has its default."""
        from app.config.settings import setting_origin

        return setting_origin(
            key,
            user_file=self.dirs.config_file,
            from_workspace=self.configuration.from_workspace,
            flags=self.flags,
            environment=self.environment,
        )

    def close(self) -> None:
        """Stop background work and running hooks, and close the database."""
        self.workspace.close()
        self.hook_dispatcher.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self.database.close()

    def _load_configuration(self) -> "Configuration":
        from app.config.settings import ConfigError, load_configuration

        # Read once: the bytes that trust is checked for must be the bytes that are parsed.
        try:
            project = trust.read_untrusted_workspace_configuration(self.workspace)
        except WorkspaceError as error:
            raise ConfigError(f"{error}; move it away.") from error
        except OSError as error:
            raise ConfigError(f"{trust.FILE_NAME} cannot be read: {error.strerror or 'it is a folder'}.") from error
        return load_configuration(
            user_file=self.dirs.config_file,
            workspace_file_content=project,
            flags=self.flags,
            environment=self.environment,
            trusted=trust.is_trusted(project, self.sessions),
        )


def open_workspace(
    root: Path, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> OpenWorkspace:
    """Open a workspace folder with its database and configuration, and return its stores and services.

    Raises:
        ConfigError: a configuration file is wrong.
        StorageError: the database cannot be used.
        WorkspaceError: `root` is not a folder that can be opened.
    """
    dirs = find_app_dirs()
    workspace = Workspace(root, off_limits=dirs.own_folders)
    database = Database(dirs.database)
    try:
        signal = DatabaseChangeSignal(dirs.signals, workspace.name)
        dirs.locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        runtime = OpenWorkspace(dirs, workspace, database, signal, flags or {}, environment)
        if misplaced := dirs.misplaced_config_file:
            from app.config.settings import ConfigError

            raise ConfigError(f"{misplaced} is not read there; move it to {dirs.config_file}.")
        if runtime._has_configuration_file() or "SIGNOFF_GATE" in environment:
            # Report errors in them now, whether or not this command needs the configuration.
            _ = runtime.configuration
    except OSError as error:
        database.close()
        raise StorageError(
            f"{dirs.state} cannot be used: {error.strerror or error}. Set SIGNOFF_HOME to a folder that you own."
        ) from error
    except BaseException:
        database.close()
        raise
    return runtime
