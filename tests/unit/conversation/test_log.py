"""The log in memory changes only with the store, and folds see every event once."""

import asyncio
from collections.abc import Sequence

import pytest

from app.conversation.events import (
    AssistantMessage,
    Event,
    NextActionChosen,
    ProposalLocation,
    SideAnswer,
    SideQuestion,
    ToolCall,
    TurnStarted,
    UserMessage,
    find_side_event_location,
)
from app.conversation.log import EventLog


class Store:
    """A store that numbers what it gets, or refuses it."""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.refuse = False
        self.writing = 0

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        self.writing += 1
        assert self.writing == 1, "one batch at a time"
        await asyncio.sleep(0)
        self.writing -= 1
        if self.refuse:
            raise OSError("disk full")
        first = len(self.kept) + 1
        stored = [event.model_copy(update={"id": first + n, "time": 1.0}) for n, event in enumerate(events)]
        self.kept += stored
        return await self.read_after(after)

    async def read_after(self, after: int) -> Sequence[Event]:
        return [event for event in self.kept if event.id > after]


class Seen:
    def __init__(self) -> None:
        self.ids: list[int] = []

    def apply(self, event: Event) -> None:
        self.ids.append(event.id)


def said(text: str) -> UserMessage:
    return UserMessage(text=text)


async def test_nothing_changes_if_the_store_refuses() -> None:
    store = Store()
    log = EventLog(store)
    seen = log.attach(Seen())
    store.refuse = True
    with pytest.raises(OSError, match="disk full"):
        await log.append(said("a"))
    assert (list(log.events), seen.ids) == ([], [])
    store.refuse = False
    await log.append(said("b"))
    assert seen.ids == [1]


async def test_deferred_events_precede_the_next_batch_also_after_a_failure() -> None:
    store = Store()
    log = EventLog(store)
    log.append_deferred(said("a"))
    store.refuse = True
    with pytest.raises(OSError, match="disk full"):
        await log.append(said("b"))
    store.refuse = False
    log.append_deferred(said("c"))
    assert [event.id for event in await log.append(said("d"))] == [3]
    log.append_deferred(said("e"))
    assert await log.append() == ()
    assert await log.append() == ()
    assert [event.text for event in store.kept if isinstance(event, UserMessage)] == ["a", "c", "d", "e"]
    assert list(log.events) == store.kept


async def test_batches_are_visible_as_stored_complete_and_in_order_also_if_concurrent() -> None:
    store = Store()
    log = EventLog(store)
    stored = await log.append(said("a"), said("b"))
    assert [event.id for event in stored] == [1, 2]
    assert list(log.events) == store.kept == list(stored)
    await asyncio.gather(*(log.append(said(f"{n}a"), said(f"{n}b")) for n in range(5)))
    assert list(log.events) == store.kept
    assert [event.id for event in log.events] == list(range(1, 13))
    await EventLog(store).append(said("elsewhere"))
    assert await log.append() == ()


def test_a_fold_sees_old_new_and_late_events_once_and_the_log_orders_them_by_id() -> None:
    log = EventLog(Store(), [said("5").model_copy(update={"id": 5})])
    seen = log.attach(Seen())
    late = [said(str(number)).model_copy(update={"id": number}) for number in (9, 3, 7, 9)]
    assert [event.id for event in log.add_stored(late)] == [3, 7, 9]
    assert log.add_stored(late) == ()
    assert [event.id for event in log.events] == [3, 5, 7, 9]
    assert (seen.ids, log.last_id) == ([5, 3, 7, 9], 9)


async def test_events_of_another_process_keep_the_store_order() -> None:
    store = Store()
    ours, theirs = EventLog(store), EventLog(store)
    seen = ours.attach(Seen())
    await ours.append(said("1"))
    await theirs.append(said("2"), said("3"))
    (stored,) = await ours.append(said("4"))
    assert stored.id == 4
    assert list(ours.events) == store.kept
    assert seen.ids == [1, 2, 3, 4]
    assert await theirs.load_external_events() == (stored,)
    assert list(theirs.events) == store.kept


async def test_unencodable_text_is_replaced_not_lost() -> None:
    store = Store()
    call = ToolCall(uid="c1.0", name="x", arguments={"text": ["half \ud83d pair"]})
    await EventLog(store).append(said("half \ud83d pair"), AssistantMessage(calls=(call,)))
    for event in store.kept:
        assert "half" in event.model_dump_json()


def test_side_questions_are_found_by_their_hunk() -> None:
    events = [
        UserMessage(id=1, text="a"),
        SideQuestion(id=2, uid="q1", proposal="P1", path="a.py", hunk="h", text="why?"),
        SideQuestion(id=3, uid="q2", proposal="P1", path="b.py", text="why?"),
        SideAnswer(id=4, question="q1", proposal="P1", text="Because.", state="complete"),
        SideAnswer(id=5, question="gone", proposal="P1", text="Because.", state="complete"),
    ]
    about_hunk, about_file = ProposalLocation("P1", "a.py", "h"), ProposalLocation("P1", "b.py", "")
    found = [find_side_event_location(events, number) for number in range(1, 7)]
    assert found == [None, about_hunk, about_file, about_hunk, None, None]


async def test_events_for_nobody_stay_in_memory_for_the_last_turn_only() -> None:
    store, move = Store(), NextActionChosen(rung="last response", move="request")
    log = EventLog(store)
    for number in range(3):
        await log.append(TurnStarted(cause="message"), said(f"{number}"), move, move)
    types = [event.type for event in log.events]
    assert types == [*["turn_started", "user_message"] * 3, "ladder_move", "ladder_move"]
    assert [event.type for event in EventLog(store, store.kept).events] == types
    assert len(store.kept) == 12
    log = EventLog(Store())
    await log.append(said("a"), move)
    assert [event.type for event in log.events] == ["user_message", "ladder_move"]
