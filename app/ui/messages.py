"""Messages that cross panes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from app.agent.updates import Update


@dataclass
class SessionUpdated(Message, bubble=False):
    """The running session has something to show."""

    update: "Update"
