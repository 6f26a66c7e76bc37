"""Signing in to a server in the browser: the address to open, and a field for the one that the browser ends up at."""

import getpass
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from app.servers.way_back import Invitation
from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint

_ELSEWHERE = (
    "Your browser is on another machine than signoff: at the end it shows an address that it can't open. "
    "Paste that address here. Or have the port forwarded before you sign in, by this on the machine of your browser:"
)
_HERE = "If your browser says at the end that it can't connect, paste the address here that it shows then."
_WRONG = "That is not where this sign-in ends."


class SignInScreen(Dialog[bool]):
    """Closed with True once the sign-in has ended, whatever came of it; left by the user, nobody waits for it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+y", "copy", "Copy the address", priority=True)]
    KEYS = (
        KeyHint("ctrl+y", "copy the address"),
        KeyHint("enter", "take what is pasted"),
        KeyHint("escape", "give up"),
    )
    DEFAULT_CSS = """
    SignInScreen {
        VerticalScroll { height: auto; max-height: 8; }
        &.-short VerticalScroll { max-height: 3; }
        Input { margin-top: 1; }
    }
    """

    def __init__(self, server: str, invitation: Invitation, *, opened: bool, environment: Mapping[str, str]) -> None:
        """Invite the user.

        Args:
            server: its name.
            invitation: where to sign in.
            opened: the browser was told of it.
            environment: says whether the user is on another machine.
        """
        super().__init__(classes="-small")
        self._server = server
        self._invitation = invitation
        self._opened = opened
        self._forwarding = forwarding(invitation.port, environment)

    def heading(self) -> str:
        """To what."""
        return f"Sign in to {self._server}"

    def body(self) -> Iterable[Widget]:
        """The address, what to do where the browser is elsewhere, and the field."""
        first = "Your browser was opened at" if self._opened else "Open this address in your browser"
        yield Static(Content(f"{first}:"), classes="text")
        with VerticalScroll(can_focus=False):
            yield Static(Content.styled(visible(self._invitation.address, keep=""), "$text-accent"), classes="text")
        yield Static(Content(_ELSEWHERE if self._forwarding else _HERE), classes="text gap quiet")
        if self._forwarding:
            yield Static(Content.styled(visible(self._forwarding, keep=""), "bold"), classes="text")
        yield Input(placeholder=f"http://127.0.0.1:{self._invitation.port}/callback?…")

    def on_mount(self) -> None:
        """What is pasted goes to the field."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        self.say("One moment." if self._invitation.take(event.value) else _WRONG)

    def action_copy(self) -> None:
        """Copy the address, also to the clipboard of another machine, where the terminal does that."""
        self.app.copy_to_clipboard(self._invitation.address)
        self.say("Copied.")


def forwarding(port: int, environment: Mapping[str, str]) -> str:
    """The command line that forwards a port to this machine; empty where the user is at this machine."""
    connection = environment.get("SSH_CONNECTION", "").split()
    if len(connection) != 4:
        return ""
    host, at = connection[2:]
    aside = "" if at == "22" else f" -p {at}"
    return f"ssh -N -L {port}:127.0.0.1:{port}{aside} {getpass.getuser()}@{host}"
