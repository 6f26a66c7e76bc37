"""Permission requests of tools, and the permissions that the user granted for the session or the project."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from app.agent.updates import PermissionRequested, PermissionResolved, SessionFailed, Update
from app.concurrency import WaitInterrupted
from app.conversation.events import CallDeniedWithFeedback
from app.conversation.log import EventLog
from app.copies import replace
from app.tools.base.command_forms import AllowableCommandPattern, AllowableMcpTool, load_permission_form
from app.tools.base.contract import PermissionAnswer, PermissionDuration, PermissionRequest

Form = AllowableCommandPattern | AllowableMcpTool


class PermanentPermissionStore(Protocol):
    """Stores the forms of commands and MCP tools that are allowed permanently; its methods block."""

    def forms(self) -> Sequence[str]:
        """Return the allowed forms as text."""

    def add(self, form: str) -> None:
        """Allow a form permanently."""


class GrantedPermissions:
    """Permissions granted in one session or for the project.

    Args:
        store: Stores permanent permissions; without it none are stored.
    """

    def __init__(self, store: PermanentPermissionStore | None = None) -> None:
        self._store = store
        self._allowed_requests: set[PermissionRequest] = set()
        self._forms: list[Form] = []

    async def describe_earlier_permission(self, permission_request: PermissionRequest) -> str:
        """Return a description of the earlier permission that covers the request; empty if the user must be asked."""
        if permission_request.kind in ("changes", "ignored"):
            return ""
        if permission_request in self._allowed_requests:
            return "this session"
        if form := next((form for form in self._forms if _covers(form, permission_request)), None):
            return f"{form} in this session"
        texts = await asyncio.to_thread(self._store.forms) if self._store is not None else ()
        project_forms = [load_permission_form(text) for text in texts]
        form = next((form for form in project_forms if _covers(form, permission_request)), None)
        return f"{form} in this project" if form else ""

    async def remember_answer(self, permission_request: PermissionRequest, answer: PermissionAnswer) -> None:
        """Store a permission that outlasts this request; raise StorageError if the store fails."""
        if not answer.allowed or answer.duration is PermissionDuration.ONCE:
            return
        if answer.form is None:
            self._allowed_requests.add(permission_request)
            return
        # Also for a permanent permission: it holds in this session even if the store fails.
        self._forms.append(answer.form)
        if answer.duration is PermissionDuration.PROJECT and self._store is not None:
            await asyncio.to_thread(self._store.add, answer.form.dump())


def _covers(form: Form, permission_request: PermissionRequest) -> bool:
    if isinstance(form, AllowableCommandPattern):
        is_coverable = permission_request.kind == "command" and not permission_request.only_once
        return is_coverable and form.matches(permission_request.detail)
    return form == permission_request.form


_MAX_SUBJECT_CHARACTERS = 200
"""Characters of the denied subject in the event; the call has the full text."""


class _OpenRequest(Struct, frozen=True):
    call: str
    permission_request: PermissionRequest
    answer: asyncio.Future[PermissionAnswer]


class PermissionRequestService:
    """Asks the user for tools' permissions and waits for the answers; records feedback on a denial.

    Feedback on a denial is recorded as the user's; the tool does not get it.
    """

    def __init__(self, publish: Callable[[Update], None], granted: GrantedPermissions, log: EventLog) -> None:
        self._publish = publish
        self._granted = granted
        self._log = log
        self._numbers = itertools.count(1)
        self._open_requests: dict[str, _OpenRequest] = {}

    @property
    def open_requests(self) -> dict[str, PermissionRequest]:
        """Return the open requests by key, oldest first."""
        return {key: waiting.permission_request for key, waiting in self._open_requests.items()}

    async def ask(self, call: str, permission_request: PermissionRequest) -> PermissionAnswer:
        """Wait for the user's answer, unless an earlier permission covers the request.

        Raises:
            WaitInterrupted: the turn ended before the user answered.
        """
        if earlier_permission := await self._describe_earlier_permission(permission_request):
            return PermissionAnswer(allowed=True, unasked=earlier_permission)
        key = f"confirm-{next(self._numbers)}"
        future: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()
        self._open_requests[key] = _OpenRequest(call, permission_request, future)
        self._publish(PermissionRequested(key, call, permission_request))
        try:
            answer = await future
        finally:
            del self._open_requests[key]
            self._publish(PermissionResolved(key, call))
        if not answer.allowed:
            # Store the user's feedback before the tool continues.
            await self._log.append()
        try:
            await self._granted.remember_answer(permission_request, answer)
        except Exception as error:
            # The store failed; the permission still holds for this session.
            self._publish(SessionFailed(f"Allowed in this session; it could not be kept for the project: {error}"))
        return answer

    async def _describe_earlier_permission(self, permission_request: PermissionRequest) -> str:
        try:
            return await self._granted.describe_earlier_permission(permission_request)
        except Exception as error:
            self._publish(
                SessionFailed(f"What is allowed in this project could not be read, so you are asked: {error}")
            )
            return ""

    def answer(self, key: str, answer: PermissionAnswer) -> None:
        """Resolve a request with the user's answer; ignore a request that is no longer open."""
        if (waiting := self._open_requests.get(key)) and not waiting.answer.done():
            if not answer.allowed and answer.feedback.strip():
                self._log.append_deferred(_denial_event(waiting, answer.feedback))
            waiting.answer.set_result(replace(answer, feedback=""))

    def withdraw_all(self) -> None:
        """Withdraw all open requests because the turn ended; `ask` raises `WaitInterrupted`."""
        for waiting in self._open_requests.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(WaitInterrupted())


def _denial_event(waiting: _OpenRequest, feedback: str) -> CallDeniedWithFeedback:
    permission_request = waiting.permission_request
    # The first line of the detail names the command, its changes or the server's tool.
    subject = permission_request.detail.removeprefix("$ ").strip().partition("\n")[0]
    if len(subject) > _MAX_SUBJECT_CHARACTERS:
        subject = f"{subject[:_MAX_SUBJECT_CHARACTERS]}…"
    return CallDeniedWithFeedback(
        call=waiting.call, asked=permission_request.kind, subject=subject, feedback=feedback
    )
