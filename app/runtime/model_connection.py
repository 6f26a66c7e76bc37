"""Connects an open workspace to a model: the client, its learned profile, and sessions with both."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import date
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from pydantic import SecretStr

from app.agent.gate import GateClosingPolicy
from app.agent.limits import SessionLimits
from app.agent.ports import ModelPort, OtherSession, SessionPorts, TurnSettings
from app.agent.prompts import FILE_NAME, find_guidance_files, make_system_prompt
from app.agent.session import Session
from app.agent.turn_state import find_oldest_open_question
from app.agent.updates import PermissionRequested, PermissionResolved, Update
from app.automation.draft_checks import DraftCheckRunner
from app.config.config_tables import ModelOverridesTable
from app.config.settings import Settings
from app.conversation.events import Event, ProposalDecided
from app.conversation.payload.render_trials import make_chat_template_trials
from app.llm.capabilities.model_list import ListedModel, find_price
from app.llm.capabilities.profiles import InvalidProfileSetting, resolve_profile
from app.llm.client import ModelClient
from app.llm.failures.request_errors import STANDARD_RETRY, RetryPolicy
from app.llm.transport import Timeouts
from app.llm.values.endpoint import is_private, split_base_url_and_secrets
from app.llm.values.requests_and_updates import Endpoint, RequestOptions
from app.proposals.values.models import Proposal
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.prompt_sources import load_skills
from app.sandbox.process import run_shielded
from app.storage import StorageError
from app.storage.process_coordination import SessionLock, is_session_open, read_lock_note
from app.storage.session_store import SessionRecord, SessionStore
from app.text.safe_text import escape_unsafe
from app.tools.tool_registry import ToolSource, make_standard_tools
from app.workspace.git_repository import current_branch_or_commit

_MAX_SEARCHED_FILES = 5_000
"""Largest number of files that are searched for nested guidance, so that a huge tree costs no time."""
_MAX_SEARCH_SECONDS = 3.0
"""Longest time of that search, for slow trees with few files."""
_OPENAI_URL, _ANTHROPIC_URL = "https://api.openai.com/v1", "https://api.anthropic.com"
"""Base URLs for a key without a configured base URL."""


class ModelNotConfigured(Exception):
    """No usable endpoint or model is configured; the message says what to set."""


NO_SESSION = "No session is open yet: send a message to choose a model."


def find_base_url(settings: Settings) -> str:
    """Return the base URL of the endpoint; if none is set, that of the key's vendor."""
    if settings.base_url:
        return settings.base_url
    claude = settings.model.startswith("claude") or not settings.api_key
    return _ANTHROPIC_URL if settings.anthropic_api_key and claude else _OPENAI_URL


def make_endpoint(
    settings: Settings, origin_of: Callable[[str], str] = lambda setting: "", model_origin: str = ""
) -> Endpoint:
    """Return the endpoint of the settings, with the key for it.

    Args:
        origin_of: Returns the origin of a setting (`OpenWorkspace.setting_origin`).
        model_origin: Origin of the model, for messages.

    Raises:
        ModelNotConfigured: there is neither a key nor a base URL, or no model.
    """
    if not settings.has_endpoint:
        keys = "OPENAI_API_KEY or ANTHROPIC_API_KEY"
        raise ModelNotConfigured(f"No model is set up: set {keys}, or --base-url for a local server, or try --demo.")
    if not settings.model:
        raise ModelNotConfigured(
            "No model is chosen: give --model, or set SIGNOFF_MODEL or `model` in the configuration; "
            "`signoff doctor` lists those of the endpoint."
        )
    settings = settings.with_model_tables
    options = RequestOptions(settings.reasoning_effort, settings.request)
    base_url, price = find_base_url(settings), find_price(settings.model, settings.price)
    setting = "anthropic_api_key" if settings.anthropic_api_key and _is_anthropic_url(base_url) else "api_key"
    key: SecretStr | None = getattr(settings, setting)
    key_from = origin_of(setting) if key else ""
    return Endpoint(base_url, settings.model, key, dict(settings.headers), options, price, key_from, model_origin)


def _is_anthropic_url(base_url: str) -> bool:
    """Return whether the URL is Anthropic's API over HTTPS."""
    try:
        parts = urlsplit(base_url.strip())
    except ValueError:
        return False
    return parts.scheme == "https" and parts.hostname == "api.anthropic.com"


def connect_model(
    runtime: OpenWorkspace,
    settings: Settings | None = None,
    *,
    timeouts: Timeouts | None = None,
    retry: RetryPolicy = STANDARD_RETRY,
) -> ModelClient:
    """Return a client for the configured endpoint, with its learned profile. Raises ModelNotConfigured."""
    settings = settings or runtime.settings
    endpoint = make_endpoint(settings, runtime.setting_origin)
    cache = LearnedProfileStore(runtime.sessions)
    overrides = settings.with_model_tables.profile_overrides
    _check_model_tables(settings.models)
    try:
        profile = resolve_profile(endpoint.base_url, endpoint.model, cache=cache, overrides=overrides)
    except InvalidProfileSetting as error:
        raise ModelNotConfigured(str(error)) from error

    def another(model: str, effort: str) -> ModelClient:
        other_settings = settings.model_copy(update={"model": model})
        other_settings = other_settings.with_effort(effort) if effort else other_settings
        return connect_model(runtime, other_settings, timeouts=timeouts, retry=retry)

    # In trials the server renders short test conversations. Send them only to a private endpoint, and not if the user
    # has configured where system messages go.
    can_run_trials = is_private(endpoint.base_url) and "mid_system" not in (overrides or {})
    return ModelClient(
        endpoint,
        profile,
        cache=cache,
        timeouts=timeouts,
        retry=retry,
        another=another,
        trials=make_chat_template_trials if can_run_trials else None,
    )


async def list_models(runtime: OpenWorkspace, settings: Settings) -> list[ListedModel]:
    """Return the models of the endpoint in these settings. Raises RequestError or ModelNotConfigured."""
    # The client requires a model name; the list does not depend on it.
    client = connect_model(runtime, settings.model_copy(update={"model": settings.model or "any"}))
    try:
        return await client.list_models()
    finally:
        await client.aclose()


def _check_model_tables(tables: Mapping[str, ModelOverridesTable]) -> None:
    """Raise ModelNotConfigured if the table of a model is invalid: a later turn of the session may use that model."""
    for name, table in tables.items():
        try:
            resolve_profile("", name, overrides=table.profile)
        except InvalidProfileSetting as error:
            raise ModelNotConfigured(f"models.{escape_unsafe(name, keep='')}.{error}") from error


def create_or_resume_session(
    runtime: OpenWorkspace,
    model: ModelPort,
    record: SessionRecord | None = None,
    settings: Settings | None = None,
    *,
    attended: bool = False,
    source: ToolSource | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Session:
    """Return a session with a model: a new one, or a stored one.

    If another process has the session open, this one only follows it (`Session.is_follower`).

    Args:
        record: The stored session; None for a new one.
        settings: The settings in force; None for those of the runtime.
        attended: Whether a user is present, so that their allowed commands apply.
        source: Source of further tools.
        notify: Receives lines for the user.
    """
    settings = settings or runtime.settings
    record = record or runtime.sessions.create(model=settings.model)
    claim = SessionLock(runtime.dirs.session_lock(record.id))
    # Lock the session before reading it, so that no other process starts a turn in between.
    claim.acquire()
    with ExitStack() as on_error:
        on_error.callback(claim.release)
        events = runtime.sessions.events(record.id)
        runtime.skills = load_skills(runtime)
        ports = SessionPorts(
            sink=SessionEventStoreOnThread(runtime.sessions, record.id),
            other_sessions=OtherSessionEventLogWriter(runtime),
            claim=claim,
            service=runtime.service,
            tools=make_standard_tools(lambda: runtime.sandbox, source, runtime.skills),
            workspace=runtime.workspace,
            model=model,
            check_unread_limit=runtime.check_unread_limit,
            commit=make_commit_function(runtime, settings),
            run_checks=DraftCheckRunner(
                lambda: runtime.checks, lambda: runtime.settings.check, runtime.service.draft_versions_to_check
            ),
            tree_id=runtime.tree_id,
            read_image=runtime.proposals.read_blob,
            save_images=runtime.proposals.put_blobs,
            allowed_forms=runtime.allowed_commands if attended else None,
            side_questions=runtime.sessions.side_questions,
        )
        session = Session(record.id, ports, make_turn_settings(runtime, settings, record, notify), events)
        session.subscribe(partial(_note_permission_request, session, claim))
        if runtime.trace_file is not None:
            session.subscribe(runtime.trace_file)
        on_error.pop_all()
        return session


def _note_permission_request(session: Session, claim: SessionLock, update: Update) -> None:
    """Write into the session's lock whether a permission request is open, for other windows."""
    if isinstance(update, PermissionRequested | PermissionResolved):
        claim.write_lock_note(_PERMISSION_NOTE if session.permission_requests.open_requests else "")


def make_commit_function(runtime: OpenWorkspace, settings: Settings) -> Callable[[Proposal], str] | None:
    """Return the function that commits an approved proposal; None if commits are not configured."""
    if not settings.commit:
        return None
    from app.runtime.commit_records import commit_with_trailers

    return partial(commit_with_trailers, runtime)


def make_turn_settings(
    runtime: OpenWorkspace,
    settings: Settings,
    record: SessionRecord,
    notify: Callable[[str], None] = lambda line: None,
) -> TurnSettings:
    """Return prompt, limits and gate policy of a session; `notify` receives lines for the user."""
    policy = GateClosingPolicy(settings.gate, settings.chain_steps)
    prompt = partial(
        make_system_prompt,
        workspace=runtime.workspace.root.name,
        start_date=date.fromtimestamp(record.created),
        branch=current_branch_or_commit(runtime.workspace.root),
        guidance=_load_guidance(runtime, notify),
        skills=runtime.skills.prompt_text() if runtime.skills else "",
    )
    hold = settings.ignored == "hold"
    return TurnSettings(
        lambda steps: prompt(max_staging_steps=steps),
        policy,
        settings.max_steps,
        settings.plan,
        make_session_limits(settings),
        hold,
    )


def make_session_limits(settings: Settings) -> SessionLimits:
    """Return the limits of a session in cost and time."""
    return SessionLimits(settings.max_cost, settings.max_time)


def _load_guidance(runtime: OpenWorkspace, notify: Callable[[str], None]) -> str:
    """Return the text of the workspace's AGENTS.md files, each below its path, the deepest first."""
    deadline = time.monotonic() + _MAX_SEARCH_SECONDS
    files = itertools.islice(
        runtime.workspace.walk_files(is_cancelled=lambda: time.monotonic() > deadline), _MAX_SEARCHED_FILES
    )
    nested = [path for path in files if path.endswith("/" + FILE_NAME)]
    guidance_files = find_guidance_files(runtime.workspace, nested, notify)
    return "\n\n".join(f"## {file.path}\n\n{file.text}" for file in guidance_files)


class SessionEventStoreOnThread:
    """Writes a session's events to the store, and reads events of other processes, on a thread."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        """Store events; a started write is completed even if the caller is cancelled."""
        return await run_shielded(asyncio.to_thread(self._store.append_events, self._session_id, events, after))

    async def read_after(self, after: int) -> Sequence[Event]:
        """Return the events after the event with number `after`."""
        return await asyncio.to_thread(self._store.events, self._session_id, after)


class OtherSessionEventLogWriter:
    """Appends events to the stored logs of other sessions of the workspace, open or not."""

    def __init__(self, runtime: OpenWorkspace) -> None:
        self._store = runtime.sessions
        self._dirs = runtime.dirs

    async def record(self, session_id: str, events: Sequence[Event]) -> OtherSession | None:
        """Append events to the log of another session; return None if it does not exist any more."""
        return await asyncio.to_thread(self._record, session_id, events)

    def _record(self, session_id: str, events: Sequence[Event]) -> OtherSession | None:
        if not session_id:
            for event in events:
                if isinstance(event, ProposalDecided):
                    self._store.record_decision(event)
            return OtherSession("", is_open=False)
        if not self._store.exists(session_id):
            return None
        self._store.append_events(session_id, events)
        return OtherSession(self._store.get(session_id).title, is_session_open(self._dirs.session_lock(session_id)))


class LearnedProfileStore:
    """Stores learned profiles of endpoints; implements `app.llm.capabilities.profiles.CorrectionStore`.

    Storage errors are ignored: the profile is then learned again.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def get(self, key: str, /) -> Mapping[str, Any] | None:
        """Return the value of a key; None if it is missing or unreadable."""
        with suppress(StorageError, ValueError):
            value = self._store.setting(f"profile:{key}", shared=True)
            return cast(dict[str, Any], json.loads(value)) if value else None
        return None

    def __setitem__(self, key: str, value: dict[str, Any], /) -> None:
        """Store a value; ignore storage errors."""
        with suppress(StorageError):
            self._store.set_setting(f"profile:{key}", json.dumps(value), shared=True)


_PICKED_MODEL_PREFIX = "picked_model "


def endpoint_url_without_credentials(settings: Settings) -> str:
    """Return the endpoint's URL without credentials, to show and to store."""
    return split_base_url_and_secrets(find_base_url(settings)).url


def read_picked_model(store: SessionStore, endpoint: str) -> str:
    """Return the model that the user last picked at an endpoint, in any workspace; empty if unknown."""
    with suppress(StorageError):
        return store.setting(f"{_PICKED_MODEL_PREFIX}{endpoint}", shared=True) or ""
    return ""


def save_picked_model(store: SessionStore, endpoint: str, model: str) -> None:
    """Store the model that the user picked at an endpoint; ignore storage errors."""
    with suppress(StorageError):
        store.set_setting(f"{_PICKED_MODEL_PREFIX}{endpoint}", model, shared=True)


def fill_in_picked_model(runtime: OpenWorkspace) -> Settings:
    """Return the settings in force; if they name an endpoint but no model, with the model last picked there."""
    settings = runtime.settings
    if settings.model or not settings.has_endpoint:
        return settings
    return settings.model_copy(
        update={"model": read_picked_model(runtime.sessions, endpoint_url_without_credentials(settings))}
    )


def describe_model_origin(runtime: OpenWorkspace, settings: Settings) -> str:
    """Return the origin of the model in these settings, for the user."""
    if settings.model == runtime.settings.model:
        return runtime.setting_origin("model")
    return "your last pick in the app"


class SessionAwaitingUserReply(NamedTuple):
    """A session whose model waits for the user's answer or permission."""

    id: str
    title: str
    is_open: bool
    """Whether a window has the session open."""
    wants_permission: bool = False
    """Whether a tool call waits for permission, which the user can give only in the window of the session."""


_MAX_SEARCHED_SESSIONS = 20
"""Number of latest sessions that are searched."""
_PERMISSION_NOTE = "asks for permission"
"""Note in the lock of a session while a permission request is open."""


def find_session_awaiting_user_reply(
    runtime: OpenWorkspace, excluded_session: str
) -> SessionAwaitingUserReply | None:
    """Return the latest other session with an open permission request or an unanswered question.

    Returns None if there is none. Raises StorageError.
    """
    for record in runtime.sessions.all()[:_MAX_SEARCHED_SESSIONS]:
        if record.id == excluded_session:
            continue
        note = read_lock_note(runtime.dirs.session_lock(record.id))
        if note == _PERMISSION_NOTE:
            return SessionAwaitingUserReply(record.id, record.title, is_open=True, wants_permission=True)
        if find_oldest_open_question(runtime.sessions.last_turns(record.id)) is not None:
            return SessionAwaitingUserReply(record.id, record.title, note is not None)
    return None
