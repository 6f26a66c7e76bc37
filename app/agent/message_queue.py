"""Messages that the user sent while a turn ran, until it is their turn to be said."""

from app.conversation.events import Event, MessageQueued, QueueTaken, UserMessage


class MessageQueue:
    """Fold: what waits, oldest first. It is in the log from the moment on that it is queued, so no end loses it."""

    def __init__(self) -> None:
        self._waiting: dict[int, MessageQueued] = {}
        self._withdrawn: set[int] = set()
        """Given back to the user, which is yet to be recorded."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The messages as the user typed them, oldest first."""
        return tuple(one.typed for number, one in self._waiting.items() if number not in self._withdrawn)

    def said(self) -> tuple[Event, ...]:
        """The events that say all of them; nothing waits once these are recorded."""
        waiting = {number: one for number, one in self._waiting.items() if number not in self._withdrawn}
        if not waiting:
            return ()
        said = (UserMessage(text=one.text, command=one.command, images=one.images) for one in waiting.values())
        return (QueueTaken(messages=tuple(waiting)), *said)

    def withdraw(self) -> tuple[str, ...]:
        """Give them back to the user, who has them from now on; returns them."""
        texts = self.texts
        self._withdrawn.update(self._waiting)
        return texts

    def withdrawal(self) -> QueueTaken | None:
        """The event that records what was withdrawn; None if that is done."""
        return QueueTaken(messages=tuple(sorted(self._withdrawn))) if self._withdrawn else None

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case MessageQueued():
                self._waiting[event.id] = event
            case QueueTaken():
                for number in event.messages:
                    self._waiting.pop(number, None)
                    self._withdrawn.discard(number)
