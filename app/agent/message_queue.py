"""Messages that the user sent while a turn ran, until it is their turn to be said."""

from app.conversation.events import Event, MessageQueued, QueueTaken, UserMessage


class MessageQueue:
    """Fold: what waits, oldest first. It is in the log from the moment on that it is queued, so no end loses it."""

    def __init__(self) -> None:
        self._waiting: dict[int, str] = {}
        self._withdrawn: set[int] = set()
        """Given back to the user, which is yet to be recorded."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The messages, oldest first."""
        return tuple(text for number, text in self._waiting.items() if number not in self._withdrawn)

    def said(self) -> tuple[Event, ...]:
        """The events that say all of them; nothing waits once these are recorded."""
        numbers = tuple(number for number in self._waiting if number not in self._withdrawn)
        if not numbers:
            return ()
        return (QueueTaken(messages=numbers), *(UserMessage(text=self._waiting[number]) for number in numbers))

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
                self._waiting[event.id] = event.text
            case QueueTaken():
                for number in event.messages:
                    self._waiting.pop(number, None)
                    self._withdrawn.discard(number)
