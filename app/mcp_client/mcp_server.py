"""One MCP server: started, called and stopped, with its current state."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import __version__
from app.config.config_tables import McpServerTable
from app.mcp_client.configured_servers import (
    InvalidServerDefinition,
    ServerDefinition,
    WriteAccess,
    classify_write_access,
)
from app.mcp_client.json_rpc import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, Message
from app.mcp_client.mcp_connection import (
    ConnectionLost,
    McpConnection,
    McpServerError,
    McpServerTimeout,
    SessionEnded,
    SignInNeeded,
)
from app.mcp_client.server_program import RunningMcpServer, start_server_program
from app.mcp_client.token_store import TokenStore
from app.mcp_client.tool_listing import McpServerLog, ToolDefinition, ToolListRefresher
from app.sandbox.captured_changes import PendingFiles
from app.sandbox.environment import without_search_paths_into
from app.sandbox.overlay_layer import PersistentProcessOverlay
from app.sandbox.sandbox import Sandbox
from app.text.safe_text import escape_unsafe
from app.tools.tool_registry import UnavailableMcpServer

if TYPE_CHECKING:
    from app.mcp_client.oauth import ConfirmOrigins, OAuthSession, ShowSignIn

VERSION, _OLDEST_VERSION, STATELESS = "2025-11-25", "2024-11-05", "2026-07-28"
"""The protocol version requested in `initialize`, the one for servers that refuse it, and the one for servers that
don't support `initialize`."""
_VERSION_PATTERN = re.compile(r"[\w.-]{1,40}", re.ASCII)
_META_PREFIX = "io.modelcontextprotocol/"
_CLIENT_INFO = {"name": "signoff", "title": "signoff", "version": __version__}
_PING_SECONDS = 2.0
"""Seconds in which an idle server answers a ping."""
_MAX_REASON_CHARACTERS = 400
"""Maximum number of characters of a reason in a line for the user."""
_REPLACED_OR_OFF = "it was switched off or replaced; the next turn has the current servers"
_SHOWN_ERRORS = (ConnectionLost, McpServerError, InvalidServerDefinition, OSError)
"""Errors whose messages may be shown to the user."""


def server_display_name(name: str) -> str:
    """Return the name of a server for a line to the user or the model."""
    return escape_unsafe(name, keep="")[:80]


class McpServerState(StrEnum):
    """State of an MCP server: off, starting, ready, failed, or waiting for the user to sign in."""

    OFF = "off"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    SIGN_IN = "sign in"
    """The user has to sign in."""


class McpServer:
    """Starts, calls and stops one MCP server of a workspace, and keeps its state and tools; for one event loop."""

    def __init__(
        self,
        definition: ServerDefinition,
        sandbox: Callable[[], Sandbox],
        root: Path,
        environment: Mapping[str, str],
        tokens: TokenStore,
        on_change: Callable[[], None],
        remembered: tuple[ToolDefinition, ...] = (),
    ) -> None:
        self.definition = definition
        self.state = McpServerState.OFF
        self.problem = ""
        """Why it cannot be used; may contain text of the server."""
        self.cause = ""
        """The same without text of the server."""
        self.started_at = 0.0
        """Start time of the last start, by the loop's clock."""
        self.log = McpServerLog()
        self.listing = ToolListRefresher(
            definition.name, definition.table.start_timeout, self.log, on_change, remembered
        )
        """Its tools."""
        self.call_lock = asyncio.Lock()
        """Held during a call: a layer serves one call at a time."""
        self._sandbox = sandbox
        self._root = root
        self._environment = environment
        self._on_change = on_change
        self._program: RunningMcpServer | None = None
        self._connection: McpConnection | None = None
        self._starting: asyncio.Task[None] | None = None
        self._tokens = tokens
        self._oauth_session: OAuthSession | None = None
        self._challenge = ""
        self._call_was_cancelled = False
        """The user has stopped a call, and the server may still be working on it."""
        self._start_timed_out = False
        """The last start timed out; calls don't try again in the same turn."""
        self._is_wanted = False
        """Whether it should run: it is enabled and was not replaced by another definition."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """Return the name in the configuration."""
        return self.definition.name

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return its tools, as last listed."""
        return self.listing.tools

    @property
    def startup_wait_label(self) -> str:
        """Return the name and the start timeout, e.g. `docs (up to 60 s)`."""
        return f"{server_display_name(self.name)} (up to {self.definition.table.start_timeout:g} s)"

    @property
    def unavailable_reason(self) -> UnavailableMcpServer | None:
        """Return why its tools cannot be used now; None if they can or the server is switched off."""
        subject, state = f"The MCP server {server_display_name(self.name)}", self.state
        reason, instruction = escape_unsafe(self.problem, keep="")[:_MAX_REASON_CHARACTERS], ""
        if state is McpServerState.STARTING and not self.tools:
            limit = f"{self.definition.table.start_timeout:g} s"
            reason = "it is still starting"
            notice = f"{subject} is still starting, which may take up to {limit}: its tools are not there yet."
            instruction = (
                f"{subject} is still starting. Its tools are not available in this turn; if the task needs them, say "
                "so."
            )
        elif state is McpServerState.SIGN_IN:
            notice = f"{subject} can't be used: {reason}."
            instruction = (
                f"{subject} can't be used before the user has signed in to it. If the task needs it, say so."
            )
        elif state is McpServerState.FAILED and not self.tools:
            advice = "Its tools are not there; see its log and start it again with /mcp in the app."
            notice = f"{subject} can't be used: {reason}. {advice}"
            instruction = (
                f"{subject} can't be used: {self.cause}. Its tools are not available. If the task needs them, tell "
                "the user, who can look at its log and start it again."
            )
        elif state is McpServerState.FAILED:
            notice = f"{subject} is not running: {reason}. The next call of one of its tools starts it again."
        else:
            return None
        return UnavailableMcpServer(self.name, state, reason, notice, instruction)

    async def write_access(self) -> WriteAccess:
        """Return where the server can write."""
        return await classify_write_access(self.definition, self._sandbox())

    def start_in_background(self) -> None:
        """Start it in the background unless it runs or is starting."""
        self._is_wanted = True
        if self.state is not McpServerState.READY and (self._starting is None or self._starting.done()):
            self._start_timed_out = False
            self.started_at = asyncio.get_running_loop().time()
            self._set_state(McpServerState.STARTING)
            self._starting = asyncio.create_task(self._start())
            # Callers that wait get the exception; the user sees the state.
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def start_and_wait(self) -> None:
        """Start it and wait until it is ready. Raises ConnectionLost, also if it should not run."""
        if not self._is_wanted:
            raise ConnectionLost(_REPLACED_OR_OFF)
        if self._start_timed_out:
            raise ConnectionLost(self.problem)
        self.start_in_background()
        if self.state is McpServerState.READY or (starting := self._starting) is None:
            return
        # Not awaited directly: `stop` cancels the start task, but not the tasks that wait for it.
        await asyncio.wait({starting})
        if starting.cancelled():
            raise ConnectionLost(_REPLACED_OR_OFF)
        starting.result()

    def allow_restart(self) -> None:
        """Let calls start the server again, also after a start that timed out."""
        self._start_timed_out = False

    async def wait_until_ready_or_failed(self) -> None:
        """Wait until a running start has succeeded or failed."""
        if self._starting is not None:
            await asyncio.wait({self._starting})

    async def start_with_files(self, pending: PendingFiles) -> list[str]:
        """Make the server ready, with these pending changes over the workspace.

        Returns:
            The paths that it has written outside of calls; these changes are discarded.

        Raises:
            ConnectionLost: The server cannot be used.
        """
        for _ in range(2):
            await self.start_and_wait()
            if self._call_was_cancelled:
                await self._ping_after_cancel()
            if self._program is None:
                return []
            try:
                return await self._program.replace_overlay(pending)
            except ProcessLookupError:
                # The program has just ended: try once more with a new one.
                await self._fail("it has ended")
            except OSError as error:
                # The server may see wrong files now.
                reason = f"its layer could not be set up: {error.strerror or error}"
                await self._fail(reason)
                raise ConnectionLost(reason) from error
        raise ConnectionLost("it ends as soon as it has started")

    @asynccontextmanager
    async def read_changes(self) -> AsyncIterator[PersistentProcessOverlay | None]:
        """Yield the files that the server has written, as a snapshot; None without a layer. Raises `OSError`."""
        if self._program is None or self._program.layer is None:
            yield None
            return
        async with self._program.read_changes() as layer:
            yield layer

    async def _ping_after_cancel(self) -> None:
        """Check that the server answers again; if not, replace its program. Raises ConnectionLost."""
        self._call_was_cancelled = False
        try:
            if self._connection is not None:
                await self._connection.request("ping", {}, _PING_SECONDS)
        except McpServerError:
            return
        except (McpServerTimeout, ConnectionLost):
            await self._fail("it is still busy with the call that the user stopped")
            await self.start_and_wait()

    async def call_tool(self, tool: ToolDefinition, arguments: Mapping[str, object]) -> Message:
        """Call a tool.

        Raises:
            McpServerError: The server responded with an error.
            ConnectionLost: The server cannot be reached, or did not answer and was ended.
            ToolWithdrawnOrChanged: The server does not offer exactly this tool any more; it was not called.
        """
        params: Message = {"name": tool.tool, "arguments": dict(arguments)}
        for is_second_attempt in (False, True):
            self.listing.require_offered(tool)
            try:
                result = await self._request("tools/call", params)
                break
            except (SessionEnded, SignInNeeded) as error:
                # The server did nothing; it needs a new session.
                if is_second_attempt or (isinstance(error, SignInNeeded) and not await self._refresh_sign_in(error)):
                    await self._fail_for(error)
                    raise
                await self._fail(str(error))
                await self.start_and_wait()
        if result.get("resultType", "complete") != "complete":
            raise McpServerError(0, "it asks for input of the user, which signoff does not offer")
        return result

    async def _request(self, method: str, params: Message) -> Message:
        if self._connection is None:
            raise ConnectionLost(self.problem or "it is not running")
        try:
            return await self._connection.request(method, params, self.definition.table.timeout)
        except asyncio.CancelledError:
            self._call_was_cancelled = True
            raise
        except McpServerTimeout as slow:
            # The call may never end; the next one gets a new program.
            await self._fail(str(slow))
            raise ConnectionLost(f"{slow}, its time limit; it was ended") from slow
        except (SessionEnded, SignInNeeded):
            raise
        except ConnectionLost as error:
            await self._fail(str(error))
            raise

    async def stop(self) -> None:
        """Stop it; only `start_in_background` starts it again."""
        self._is_wanted = False
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})
        await self._close()
        self._set_state(McpServerState.OFF)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self.definition.table.start_timeout):
                try:
                    await self._connect()
                except SignInNeeded as error:
                    if not await self._refresh_sign_in(error):
                        raise
                    await self._connect()
        except SignInNeeded as error:
            await self._fail_for(error)
            raise
        except Exception as error:
            # Defects of ours must not leave the state at STARTING; their messages could contain a secret.
            reason = str(error) if isinstance(error, _SHOWN_ERRORS) else f"it can't be used ({type(error).__name__})"
            cause = reason
            timed_out = isinstance(error, TimeoutError | McpServerTimeout)
            if timed_out:
                reason = cause = f"it did not start within {self.definition.table.start_timeout:g} s"
            elif isinstance(error, McpServerError):
                cause = "it answers with an error"
            elif self.definition.is_remote:
                cause = "it cannot be used at its address"
            await self._fail(reason, cause=cause)
            self._start_timed_out = timed_out
            raise ConnectionLost(reason) from error
        self._set_state(McpServerState.READY)
        if self._connection is not None:
            self.listing.refetch_on_changes(self._connection)

    async def _connect(self) -> None:
        await self._close()
        table = self.definition.expand_variables(self._environment)
        write_access = await self.write_access()
        self.log.add_note(f"starting {self.definition.origin}")
        if self.definition.is_remote:
            self._connection = await asyncio.to_thread(self._connect_to_url, table)
        else:
            environment = self._environment
            if not self.definition.of_workspace or write_access is WriteAccess.DIRECT:
                # Commands write to `.venv/bin`; a program there would get the keys in `env` or write to the files.
                environment = without_search_paths_into(environment, self._root)
            self._program = program = await start_server_program(
                self.name,
                table,
                write_access,
                self._sandbox(),
                self._root,
                environment,
                on_notification=self._handle_notification,
                log=self.log.add_output,
            )
            self._connection = program.connection
            self._spawn(self._fail_when_ended(program))
        await self._initialize(self._connection)
        await self.listing.fetch_tools(self._connection)

    def _connect_to_url(self, table: McpServerTable) -> McpConnection:
        # This imports an HTTP client, which takes a moment.
        from app.mcp_client.http_connection import HttpConnection

        return HttpConnection(
            table.url, table.headers, self._root, self._handle_notification, self._authorization_headers
        )

    async def _refresh_sign_in(self, error: SignInNeeded) -> bool:
        """Return whether the token could be refreshed, so that the request may be sent again."""
        return not error.needs_more_scopes and await self._get_oauth_session().refresh()

    async def _authorization_headers(self) -> Mapping[str, str]:
        return await self._get_oauth_session().headers()

    def _get_oauth_session(self) -> "OAuthSession":
        if self._oauth_session is None:
            from app.mcp_client.oauth import OAuthSession

            table = self.definition.expand_variables(self._environment)
            self._oauth_session = OAuthSession(table.url, self._tokens, table.client_id)
        return self._oauth_session

    async def sign_in(self, show: "ShowSignIn", confirm: "ConfirmOrigins | None" = None) -> None:
        """Sign the user in like `OAuthSignIn.sign_in`, or raise ConnectionLost; then start the server."""
        from app.mcp_client.oauth import SignInFailed

        try:
            await self._get_oauth_session().sign_in(self._challenge, show, confirm)
        except (SignInFailed, InvalidServerDefinition) as error:
            raise ConnectionLost(str(error)) from error
        if self._is_wanted:
            self.start_in_background()
            await self.wait_until_ready_or_failed()

    async def _initialize(self, connection: McpConnection, version: str = VERSION) -> None:
        params: Message = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": _CLIENT_INFO}
        seconds = self.definition.table.start_timeout
        try:
            greeting = await connection.request("initialize", params, seconds)
        except McpServerError as error:
            if error.code == INVALID_PARAMS and "version" in str(error) and version != _OLDEST_VERSION:
                # It should answer with a version that it supports.
                await self._initialize(connection, _OLDEST_VERSION)
                return
            if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_VERSION):
                raise
            connection.meta = {
                f"{_META_PREFIX}protocolVersion": STATELESS,
                f"{_META_PREFIX}clientInfo": _CLIENT_INFO,
                f"{_META_PREFIX}clientCapabilities": {},
            }
            connection.on_initialized(STATELESS)
            return
        chosen = greeting.get("protocolVersion")
        connection.on_initialized(
            chosen if isinstance(chosen, str) and _VERSION_PATTERN.fullmatch(chosen) else VERSION
        )
        await connection.notify("notifications/initialized")

    def _handle_notification(self, method: str, params: Message) -> None:
        match method:
            case "notifications/tools/list_changed":
                self.listing.mark_outdated()
            case "notifications/message":
                self.log.add_output(
                    f"{params.get('level', '')}: {params.get('data', '')}\n"[:2000].encode("utf-8", "replace")
                )

    async def _fail_when_ended(self, program: RunningMcpServer) -> None:
        """Wait for the program's end; set the state to FAILED if the program ended by itself."""
        await program.connection.ended.wait()
        if self._program is program and self.state is McpServerState.READY:
            await self._fail(program.connection.end_reason)

    async def _fail(self, reason: str, state: McpServerState = McpServerState.FAILED, *, cause: str = "") -> None:
        try:
            await self._close()
        finally:
            self.log.add_note(reason)
            self.listing.drop_unconfirmed_tools()
            self._set_state(state, reason, cause or reason)

    async def _fail_for(self, refusal: SessionEnded | SignInNeeded) -> None:
        """Set the state after an ended session or a missing sign-in."""
        if isinstance(refusal, SignInNeeded):
            self._challenge = refusal.challenge
            await self._fail(str(refusal), McpServerState.SIGN_IN)
        else:
            await self._fail(str(refusal))

    async def _close(self) -> None:
        self.listing.stop_following()
        program, self._program = self._program, None
        connection, self._connection = self._connection, None
        if program is not None:
            await program.close()
        elif connection is not None:
            await connection.close()

    def _set_state(self, state: McpServerState, problem: str = "", cause: str = "") -> None:
        self.state, self.problem, self.cause = state, problem, cause
        self._on_change()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
