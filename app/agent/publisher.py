"""Shows what is recorded in a session to whoever looks on, and what it does to gate and queue.

Kept apart: a fold over the log, while all else in a session is about what the user does.
"""

from collections.abc import Callable

from app.agent.gate import Gate
from app.agent.updates import GateChanged, QueueChanged, Recorded, Update
from app.conversation.events import Event, MessageQueued, QueueTaken

Subscriber = Callable[[Update], None]


class Publisher:
    """Fold from now on: shows each stored event to the subscribers, and what it does to gate and queue."""

    def __init__(self, gate: Gate, queue: Callable[[], tuple[str, ...]], publish: Subscriber) -> None:
        self._gate = gate
        self._queue = queue
        self._publish = publish
        self._shown = gate.closed

    def apply(self, event: Event) -> None:
        self._publish(Recorded(event))
        self.check_gate()
        if isinstance(event, MessageQueued | QueueTaken):
            self._publish(QueueChanged(self._queue()))

    def check_gate(self) -> None:
        """Say so if the gate has opened or closed."""
        if self._gate.closed != self._shown:
            self._shown = self._gate.closed
            self._publish(GateChanged(self._gate.closed))
