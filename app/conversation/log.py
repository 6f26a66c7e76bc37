"""The append-only log of a session in memory; an event is added only after the store has taken it."""

import asyncio
import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from app.conversation.events import EVENT_JSON, Audience, Event, TurnStarted


class EventStoreInterface(Protocol):
    """Stores the events of one session, and reads those that other processes append to it."""

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        """Store a batch of events in one transaction.

        Returns:
            The events that other processes stored since the event `after`, in the order of their ids, followed by
            the batch in its order, with ids and times.
        """

    async def read_after(self, after: int) -> Sequence[Event]:
        """Return the events with an id above `after`, in order."""


class Fold(Protocol):
    """A value computed from the log, one event at a time."""

    def apply(self, event: Event) -> None:
        """Update the state from the next event, in constant time."""


FoldT = TypeVar("FoldT", bound=Fold)


class EventLog:
    """The events of one session, in the order of their ids.

    Attached folds get every event once, in order: questions like "is the gate closed" cost constant time per event.
    """

    def __init__(self, sink: EventStoreInterface, events: Iterable[Event] = ()) -> None:
        self._sink = sink
        self._events: list[Event] = _without_old_moves(events)
        self._with_audience = [event for event in self._events if event.audience is not Audience.NOBODY]
        self._folds: list[Fold] = []
        self._deferred: list[Event] = []
        self._append_lock = asyncio.Lock()

    @property
    def events(self) -> Sequence[Event]:
        """All events so far, oldest first: a live view, read-only.

        Events with audience NOBODY are included for the last turn only; older ones are only in the store.
        """
        return self._events

    def events_with_audience(self, *, before: int | None = None) -> tuple[Event, ...]:
        """Return the events that the user or the model may read, with an id below `before` if given."""
        if before is None:
            return tuple(self._with_audience)
        return tuple(self._with_audience[: bisect_left(self._with_audience, before, key=_event_id)])

    def attach(self, fold: FoldT) -> FoldT:
        """Apply all events so far to `fold`, and every later one when it is stored; return `fold`."""
        for event in self._events:
            fold.apply(event)
        return self.attach_from_now(fold)

    def attach_from_now(self, fold: FoldT) -> FoldT:
        """Apply every later event to `fold`; return `fold`."""
        self._folds.append(fold)
        return fold

    @property
    def last_id(self) -> int:
        """Id of the newest event; 0 if there is none."""
        return self._events[-1].id if self._events else 0

    def append_deferred(self, event: Event) -> None:
        """Store `event` with the next batch, before it in the same transaction; its time is the current time."""
        self._deferred.append(_with_encodable_text(event).model_copy(update={"time": time.time()}))

    async def append(self, *events: Event) -> tuple[Event, ...]:
        """Store deferred events and this batch in one transaction; return the stored batch.

        Batches are written one after the other. Events that another process stored before the batch are added first,
        in the order of the store. If the store fails, its error is raised and the log does not change.
        """
        if not events and not self._deferred:
            return ()
        batch = tuple(_with_encodable_text(event) for event in events)
        async with self._append_lock:
            deferred, self._deferred = self._deferred, []
            try:
                stored = tuple(await self._sink.append((*deferred, *batch), self.last_id))
            except Exception:
                self._deferred[:0] = deferred
                raise
            self.add_stored(stored)
        return stored[len(stored) - len(batch) :]

    async def load_external_events(self) -> tuple[Event, ...]:
        """Read and return the events that other processes have stored."""
        return self.add_stored(await self._sink.read_after(self.last_id))

    def add_stored(self, foreign: Iterable[Event]) -> tuple[Event, ...]:
        """Add events that are in the store; return the new ones in the order of their ids."""
        fresh: list[Event] = []
        for event in sorted(foreign, key=_event_id):
            if event.id and self._contains(event.id):
                continue
            if event.id < self.last_id:
                insort(self._events, event, key=_event_id)
            else:
                self._events.append(event)
            if event.audience is not Audience.NOBODY:
                insort(self._with_audience, event, key=_event_id)
            fresh.append(event)
            for fold in self._folds:
                fold.apply(event)
            if isinstance(event, TurnStarted):
                self._drop_old_moves()
        return tuple(fresh)

    def _drop_old_moves(self) -> None:
        """Drop the events with audience NOBODY of all turns except the last."""
        starts = 0
        for at in range(len(self._events) - 1, -1, -1):
            starts += isinstance(self._events[at], TurnStarted)
            if starts > 1:
                self._events[at:] = _without_old_moves(self._events[at:])
                return

    def _contains(self, number: int) -> bool:
        at = bisect_left(self._events, number, key=_event_id)
        return at < len(self._events) and self._events[at].id == number


def skip_to_first_turn(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events from the start of the first turn; all events if there is no turn."""
    first = next((at for at, event in enumerate(events) if isinstance(event, TurnStarted)), 0)
    return events[first:]


def _without_old_moves(events: Iterable[Event]) -> list[Event]:
    """Return the events without those with audience NOBODY, except in the last turn."""
    remaining = list(events)
    last = next((at for at in range(len(remaining) - 1, -1, -1) if isinstance(remaining[at], TurnStarted)), 0)
    remaining[:last] = [event for event in remaining[:last] if event.audience is not Audience.NOBODY]
    return remaining


def _event_id(event: Event) -> int:
    return event.id


def _with_encodable_text(event: Event) -> Event:
    """Return the event with characters replaced that UTF-8 cannot encode: a model may send a lone surrogate."""
    try:
        event.model_dump_json()
    except ValueError:
        return EVENT_JSON.validate_python(_without_surrogates(event.model_dump()))
    return event


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_surrogates(item) for item in value]
    return value
