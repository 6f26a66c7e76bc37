"""Messages that cross panes."""

from dataclasses import dataclass

from textual.message import Message

from app.agent.updates import Update


@dataclass
class SessionUpdated(Message, bubble=False):
    """The running session has something to show."""

    update: Update
