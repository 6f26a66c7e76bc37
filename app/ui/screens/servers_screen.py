"""The MCP servers: state, tools and log; enables, disables and starts them."""

import asyncio
import getpass
import os
import sys
from collections.abc import Iterable, Mapping

from textual import on, work
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from app.mcp_client.configured_servers import WRITE_ACCESS_TEXTS
from app.mcp_client.mcp_connection import ConnectionLost
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.mcp_client.oauth import SignInRequest
from app.runtime.mcp_manager import McpManager
from app.storage import StorageError
from app.text.quantities import format_count
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import ConfirmScreen, Dialog, DialogKey, PreviewedListDialog, safe_content
from widgets.common.search_list import ListChoice, SearchList

_REMOTE_BROWSER_HINT = (
    "Your browser runs on another machine than signoff, so at the end it shows an address that it can't open. "
    "Paste that address here. Or forward the port before you sign in: run this on the machine of your browser:"
)
_LOCAL_BROWSER_HINT = "If your browser can't connect at the end, copy the address that it shows and paste it here."
_WRONG_ADDRESS = "That is not the address at the end of this sign-in."


class SignInWaitScreen(Dialog[bool]):
    """Waits for an OAuth sign-in; the result is True once it has ended, also without success.

    Args:
        opened: Whether the browser was opened.
        environment: Environment variables, which tell whether the user is connected by SSH.
    """

    KEYS = (
        DialogKey("ctrl+y", "copy the address", "copy", priority=True),
        DialogKey("enter", "use the pasted address"),
        DialogKey("escape", "cancel"),
    )
    DEFAULT_CSS = """
    SignInWaitScreen {
        VerticalScroll { height: auto; max-height: 8; }
        &.-short VerticalScroll { max-height: 3; }
        Input { margin-top: 1; }
    }
    """

    def __init__(self, server: str, request: SignInRequest, *, opened: bool, environment: Mapping[str, str]) -> None:
        super().__init__(classes="-small")
        self._server = server
        self._sign_in_request = request
        self._is_browser_open = opened
        self._forwarding_command = ssh_forwarding_command(request.port, environment)

    def frame_title(self) -> str:
        return f"Sign in to {self._server}"

    def compose_body(self) -> Iterable[Widget]:
        first = "Your browser was opened at" if self._is_browser_open else "Open this address in your browser"
        yield Static(Content(f"{first}:"), classes="text")
        with VerticalScroll(can_focus=False):
            yield Static(safe_content(self._sign_in_request.address, "$text-accent"), classes="text")
        yield Static(
            Content(_REMOTE_BROWSER_HINT if self._forwarding_command else _LOCAL_BROWSER_HINT),
            classes="text gap quiet",
        )
        if self._forwarding_command:
            yield Static(safe_content(self._forwarding_command, "bold"), classes="text")
        yield Input(placeholder=f"http://127.0.0.1:{self._sign_in_request.port}/callback?…")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _accept_address(self, event: Input.Submitted) -> None:
        self.show_status(
            "One moment." if self._sign_in_request.accept_pasted_address(event.value) else _WRONG_ADDRESS
        )

    def action_copy(self) -> None:
        """Copy the address; over SSH, many terminals copy it to the clipboard of the user's machine."""
        self.app.copy_to_clipboard(self._sign_in_request.address)
        self.show_status("Copied.")


def ssh_forwarding_command(port: int, environment: Mapping[str, str]) -> str:
    """Return the ssh command that forwards a port to this machine; empty if the user is not connected by SSH."""
    connection = environment.get("SSH_CONNECTION", "").split()
    if len(connection) != 4:
        return ""
    host, ssh_port = connection[2:]
    port_option = "" if ssh_port == "22" else f" -p {ssh_port}"
    return f"ssh -N -L {port}:127.0.0.1:{port}{port_option} {getpass.getuser()}@{host}"


_NO_SERVERS = (
    "No MCP server is configured: add a [mcp.NAME] table to config.toml, or one in another agent's settings."
)
_STATE_MARKS = {
    McpServerState.OFF: ("○", "$foreground 65%"),
    McpServerState.STARTING: ("◐", "$text-accent"),
    McpServerState.READY: ("●", "$text-success"),
    McpServerState.FAILED: ("✗", "$text-error"),
    McpServerState.SIGN_IN: ("?", "$text-warning"),
}
_MAX_DESCRIPTION_CHARACTERS = 100
"""Characters of a tool's description in the list."""
QUIET_STYLE = "$foreground 65%"


class McpServersScreen(PreviewedListDialog[None]):
    """A searchable list of the MCP servers, with tools or log of the highlighted one; keys switch and restart it."""

    HEADING = "MCP servers"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down", "choose"),
        DialogKey("enter", "on or off"),
        DialogKey("ctrl+r", "restart", "restart", priority=True),
        DialogKey("ctrl+l", "tools or log", "log", priority=True),
        DialogKey("ctrl+s", "sign in", "sign_in", priority=True),
        DialogKey("escape", "close"),
    )

    def __init__(self, servers: McpManager) -> None:
        super().__init__()
        self._manager = servers
        self._shows_log = False

    def search_list(self) -> SearchList:
        return SearchList("Search servers and tools", empty_text=_NO_SERVERS)

    def on_mount(self) -> None:
        self._follow_changes()

    @work(group="follow", exclusive=True, exit_on_error=False, description="follow the MCP servers")
    async def _follow_changes(self) -> None:
        await self._manager.found.wait()
        self.query_one("#preview").display = bool(self._all_servers)
        self._show_servers()
        while (servers := self._manager.servers) is not None:
            await servers.wait_for_change()
            self._show_servers()

    @property
    def _all_servers(self) -> list[McpServer]:
        return self._manager.servers.servers if self._manager.servers is not None else []

    @property
    def _highlighted_server(self) -> McpServer | None:
        return self._find_server(self.query_one(SearchList).highlighted)

    def _find_server(self, choice: ListChoice | None) -> McpServer | None:
        return next((server for server in self._all_servers if choice and server.name == choice.key), None)

    def _show_servers(self) -> None:
        self.query_one(SearchList).set_choices([_server_choice(server) for server in self._all_servers])
        ready = [server for server in self._all_servers if server.state is McpServerState.READY]
        tools = sum(len(server.tools) for server in ready)
        self.show_status(
            f"{len(ready)} of {len(self._all_servers)} ready, {format_count(tools, 'tool')}"
            if self._all_servers
            else ""
        )
        self._load_preview()

    @on(SearchList.Highlighted)
    def _preview_highlighted(self) -> None:
        self._load_preview()

    @work(group="look", exclusive=True, exit_on_error=False, description="look at an MCP server")
    async def _load_preview(self) -> None:
        server = self._highlighted_server
        if server is None:
            self.show_preview("")
            return
        shown = _log_content(server) if self._shows_log else _tools_content(server)
        head = _head_content(server, WRITE_ACCESS_TEXTS[await server.write_access()])
        self.show_preview(Content("\n\n").join([head, shown]), end=self._shows_log)

    @on(SearchList.Picked)
    @work(group="switch", exit_on_error=False, description="switch an MCP server")
    async def _toggle_server(self, event: SearchList.Picked) -> None:
        server, servers = self._find_server(event.choice), self._manager.servers
        if server is not None and servers is not None:
            try:
                await servers.set_enabled(server, enabled=not servers.is_enabled(server))
            except StorageError as error:
                self.show_status(str(error))

    @work(group="switch", exit_on_error=False, description="restart an MCP server")
    async def action_restart(self) -> None:
        """Restart the highlighted server."""
        if (server := self._highlighted_server) is not None and self._manager.servers is not None:
            await self._manager.servers.restart(server)

    @work(group="sign-in", exclusive=True, exit_on_error=False, description="sign in to an MCP server")
    async def action_sign_in(self) -> None:
        """Sign in to the highlighted server, in the browser."""
        server = self._highlighted_server
        if server is None or not server.definition.is_remote:
            self.show_status("This server needs no sign-in.")
            return

        worker = get_current_worker()
        dialogs: list[SignInWaitScreen] = []

        async def show(request: SignInRequest) -> None:
            is_browser_open = _has_browser()
            dialogs.append(SignInWaitScreen(server.name, request, opened=is_browser_open, environment=os.environ))
            await self.app.push_screen(dialogs[0], lambda ended: None if ended else worker.cancel())
            if is_browser_open:
                await asyncio.to_thread(self.app.open_url, request.address)

        try:
            await server.sign_in(show, lambda origins_by_role: self._confirm_origins(server, origins_by_role))
        except ConnectionLost as error:
            server.log.add_note(f"not signed in: {error}")
            self._shows_log = True
            self._load_preview()
            self.show_status("You are not signed in.")
        finally:
            for dialog in dialogs:
                if dialog.is_current:
                    dialog.dismiss(True)

    async def _confirm_origins(self, server: McpServer, origins_by_role: Mapping[str, str]) -> bool:
        """Ask whether to sign in at these addresses, which have different origins."""
        addresses = "\n".join(f"  {purpose}: {origin}" for purpose, origin in origins_by_role.items())
        question = (
            f"These addresses take part in the sign-in:\n\n{addresses}\n\n"
            "Sign in only if you trust all of them: each could act as you at the others."
        )
        screen = ConfirmScreen(f"Sign in to {server.name} at these addresses?", question, "sign in", "don't")
        return await self.app.push_screen_wait(screen) is True

    def action_log(self) -> None:
        """Toggle between the log and the tools of the highlighted server."""
        self._shows_log = not self._shows_log
        self._load_preview()


def _has_browser() -> bool:
    """Return whether there is a graphical browser: one in the terminal would draw over the app."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _server_choice(server: McpServer) -> ListChoice:
    mark, style = _STATE_MARKS[server.state]
    state_text = server.problem or (
        format_count(len(server.tools), "tool") if server.state is McpServerState.READY else server.state
    )
    label = Content.assemble(
        (f"{mark} ", style),
        (escape_unsafe(server.name, keep=""), "bold"),
        "\n  ",
        (escape_unsafe(state_text, keep=""), "$text-error" if server.problem else QUIET_STYLE),
    )
    tools = " ".join(tool.tool for tool in server.tools)
    return ListChoice(server.name, label, f"{server.name} {server.definition.origin} {tools}")


def _head_content(server: McpServer, write_access: str) -> Content:
    definition = server.definition
    rows = [
        safe_content(definition.origin, "bold"),
        safe_content(f"from {definition.source}", QUIET_STYLE),
        Content.styled(write_access, QUIET_STYLE),
    ]
    if server.problem:
        rows.append(safe_content(server.problem, "$text-error"))
    return Content("\n").join(rows)


def _tools_content(server: McpServer) -> Content:
    rows = []
    for tool in server.tools:
        description = escape_unsafe(" ".join((tool.description or tool.title).split()), keep="")
        short = (
            description
            if len(description) <= _MAX_DESCRIPTION_CHARACTERS
            else f"{description[:_MAX_DESCRIPTION_CHARACTERS].rstrip()}…"
        )
        rows.append(
            Content.assemble((escape_unsafe(tool.tool, keep=""), "$text-secondary"), "  ", (short, QUIET_STYLE))
        )
    rows += [safe_content(line, "$text-warning") for line in server.listing.problems]
    return Content("\n").join(rows) if rows else Content.styled("It has listed no tools yet.", QUIET_STYLE)


def _log_content(server: McpServer) -> Content:
    lines = server.log.lines
    text = escape_unsafe("\n".join(lines)) if lines else "It has printed nothing."
    return Content.styled(text, QUIET_STYLE)
