"""Keys that come in one read: each acts on what has the focus when its turn comes, and none is lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.proposals.values.models import ProposalState
from app.ui.screens.dialog import ConfirmScreen
from tests.ui.running_app import Running, running, stage, staged
from tests.ui.screen_text import screen_text
from tests.waiting import until
from tests.wire.bench import FILE
from tests.wire.server import WireServer
from widgets.common import input_order
from widgets.common.input_order import (
    InputEventCompletionTracker,
    OrderedInputApp,
    mark_burst_keys,
    wait_until_input_painted,
)
from widgets.review import decision_keys


def hand_in(app: App[None], *items: str | events.Event) -> None:
    """Hand keys to the app as its driver does with what comes in one read: all at once. A long word is typed."""
    read: list[Message] = []
    for item in items:
        keys = [item] if not isinstance(item, str) or item in NAMED else list(item)
        for key in keys:
            if isinstance(key, str):
                name = {" ": "space", "/": "slash"}.get(key, key)
                key = events.Key(name, key if len(key) == 1 else None)
            read.append(key)
    for event in mark_burst_keys(read):
        app.post_message(event)


NAMED = frozenset(
    ("f1", "f2", "f3", "f4", "enter", "escape", "ctrl+s", "ctrl+p", "tab", "down", "ctrl+j", "backspace")
)


class Second(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    async def on_compose(self) -> None:
        await asyncio.sleep(0.05)

    def compose(self) -> ComposeResult:
        yield Input(id="in-dialog")

    def action_leave(self) -> None:
        self.dismiss(None)


class Slow(Static, can_focus=True):
    """A widget whose handler of `w` waits for what the test does, and which removes itself on `r`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "go", "Go away")]
    begun = False

    def __init__(self) -> None:
        super().__init__(id="slow")
        self.end = asyncio.Event()
        self.keys = 0

    async def on_key(self, event: events.Key) -> None:
        self.keys += 1
        if event.key == "w":
            self.begun = True
            await self.end.wait()

    async def action_go(self) -> None:
        await self.remove()


class Hops(Vertical):
    """Moves the focus by a message of its own, which it posts on a message of its child's."""

    class Second(Message):
        pass

    def on_input_submitted(self) -> None:
        self.post_message(self.Second())

    def on_hops_second(self) -> None:
        self.screen.set_focus(self.screen.query_one("#last", Input))


class Order(OrderedInputApp):
    """Fields between which keys move the focus in every way that there is."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Hops { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f3", "to('last')", "Last", priority=True),
        Binding("ctrl+p", "open", "Open"),
    ]

    def compose(self) -> ComposeResult:
        yield Hops(Input(id="first"))
        yield Input(id="last")
        yield Slow()

    def on_mount(self) -> None:
        self.screen.set_focus(self.query_one("#first"))

    def action_to(self, name: str) -> None:
        self.query_one(f"#{name}", Input).focus()

    def action_open(self) -> None:
        self.push_screen(Second())

    def values(self) -> list[str]:
        return [self.query_one(f"#{name}", Input).value for name in ("first", "last")]

    async def until(self, wanted: list[str]) -> None:
        await until(lambda: self.values() == wanted, lambda: f"{wanted} instead of {self.values()}")


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["one", "f3", "two"], ["one", "two"]),
        (["one", "tab", "two"], ["one", "two"]),
        (["one", "enter", "two"], ["one", "two"]),
        (["one", "ctrl+p", "in the dialog", "escape", "two"], ["onetwo", ""]),
        (["one", events.AppBlur(), events.AppFocus(), "two"], ["onetwo", ""]),
        (["one", events.MouseMove(None, 500, 500, 0, 0, 0, False, False, False), "two"], ["onetwo", ""]),
        (["one", events.Paste("pasted"), "f3", events.Paste("there"), "two"], ["onepasted", "theretwo"]),
    ],
    ids=["binding", "tab", "messages", "dialog", "terminal left", "mouse beyond the screen", "paste"],
)
async def test_each_key_acts_on_the_focus_at_its_turn(keys: Sequence[str | events.Event], values: list[str]) -> None:
    app = Order()
    async with app.run_test():
        hand_in(app, *keys)
        await app.until(values)


async def test_a_dialog_receives_keys_typed_before_it_is_mounted() -> None:
    app = Order()
    async with app.run_test():
        hand_in(app, "ctrl+p", "hello")
        await until(lambda: app.screen.query("#in-dialog") and app.screen.query_one(Input).value == "hello", "hello")


async def test_clicks_and_keys_keep_their_order() -> None:
    app = Order()
    async with app.run_test() as pilot:
        await pilot.pause()
        x, y, _, _ = app.query_one("#last", Input).region
        mouse: dict[str, Any] = {"widget": None, "x": x + 4, "y": y + 1, "delta_x": 0, "delta_y": 0, "button": 1}
        mouse |= dict.fromkeys(("shift", "meta", "ctrl"), False)
        hand_in(app, "one", events.MouseDown(**mouse), events.MouseUp(**mouse), "two")
        await app.until(["one", "two"])


@pytest.mark.parametrize("key", ["w", "r"], ids=["hangs", "removes its widget"])
async def test_a_key_that_hangs_or_removes_its_widget_loses_no_later_key(key: str) -> None:
    app = Order()
    async with app.run_test():
        slow = app.query_one(Slow)
        app.screen.set_focus(slow)
        hand_in(app, key, "f3", "after all")
        await app.until(["", "after all"])
        assert slow.begun == (key == "w")
        slow.end.set()


async def test_a_long_text_in_one_read_delays_no_later_key() -> None:
    app = Order()
    text = "x" * 400
    async with app.run_test():
        slow = app.query_one(Slow)
        app.screen.set_focus(slow)
        hand_in(app, text, "f3", text)
        await app.until(["", text])
        assert 1 < slow.keys < 100


async def test_a_key_after_the_end_of_the_app_is_ignored() -> None:
    async def done() -> None:
        raise AssertionError("the app is at its end")

    app = Order()
    async with app.run_test():
        pass
    late = events.Key("w", "w")
    await app.on_event(late)
    late._set_forwarded()
    await app.on_event(late)
    followed = InputEventCompletionTracker(app, events.Key("w", "w"), done)
    assert followed.ready
    followed.start()
    followed.stop()


async def test_a_key_does_not_wait_for_endless_messages() -> None:
    class Endless(Message):
        pass

    class Busy(Order):
        count = 0

        @on(Endless)
        async def again(self) -> None:
            self.count += 1
            await asyncio.sleep(0.001)
            self.post_message(Endless())

    app = Busy()
    async with app.run_test():
        app.post_message(Endless())
        hand_in(app, "one", "f3", "two")
        await app.until(["one", "two"])
        assert app.count
        app.exit()


class Holding(Vertical):
    """Takes its time over what is typed into it."""

    def __init__(self, *children: Widget) -> None:
        super().__init__(*children)
        self.end = asyncio.Event()

    async def on_text_area_changed(self) -> None:
        await self.end.wait()


async def test_letters_are_handled_together_but_other_keys_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_order, "_MAX_CHECKS", 1_000_000)

    class Writing(OrderedInputApp):
        BINDINGS: ClassVar[list[BindingType]] = [Binding("f3", "app.focus('last')", "Last", priority=True)]

        def compose(self) -> ComposeResult:
            yield Holding(TextArea())
            yield Input(id="last")

        def on_mount(self) -> None:
            self.screen.set_focus(self.query_one(TextArea))

    app = Writing()
    async with app.run_test():
        field, last = app.query_one(TextArea), app.query_one("#last", Input)
        hand_in(app, "abc", "7", "f3", "de")
        await until(lambda: field.text == "abc", "the letters")
        assert app.focused is field
        app.query_one(Holding).end.set()
        await until(lambda: last.value == "de", "what follows")
        assert field.text == "abc7"


async def test_a_key_before_its_first_paint_does_not_answer_a_dialog() -> None:
    answers: list[bool | None] = []

    class Asking(Order):
        def action_open(self) -> None:
            self.push_screen(ConfirmScreen("Delete?", "It would be gone.", "delete", "keep"), answers.append)

    app = Asking()
    async with app.run_test() as pilot:
        hand_in(app, "ctrl+p", "y")
        await until(lambda: "came before" in screen_text(app), "the refusal")
        assert not answers
        await pilot.pause()
        await pilot.press("y")
        await until(lambda: answers, "the answer")
        assert answers == [True]
        # What comes after it has closed goes where the focus is then.
        hand_in(app, "ctrl+p", "escape", "word")
        await app.until(["word", ""])
        assert answers == [True, None]
        await pilot.press("ctrl+p")
        hand_in(app, "yes")
        await until(lambda: "Several keys" in screen_text(app), "the refusal of a word")
        await pilot.press("down")
        await until(lambda: "Several keys" not in screen_text(app), "the picture without it")
        await pilot.press("n")
        await until(lambda: len(answers) == 3, "the answer")
        assert answers[2] is False


# In the whole app.

SIZES = pytest.mark.parametrize(
    "size", [pytest.param((120, 40), id="wide", marks=pytest.mark.soak), pytest.param((60, 20), id="narrow")]
)


async def in_review(run: Running, server: WireServer) -> None:
    await stage(run, server)
    await run.review()


@SIZES
async def test_in_the_app_each_key_acts_on_the_focus_at_its_turn(
    tmp_path: Path, server: WireServer, size: tuple[int, int]
) -> None:
    async with staged(tmp_path, server, size=size) as run:
        review = run.app.workbench.review
        await run.until(lambda: review.preview.diffs, "the diff")
        # As what is found in the diff meanwhile, or said of it, has it laid out anew, also out of sight.
        review.view.relayout()
        hand_in(run.app, "one", "f3", "Gg", "j", "f2", "two")
        await run.until(lambda: run.app.workbench.composer.draft == "onetwo", "the words")
        assert review.view.cursor.number == 1
        # Words after f2 go to the composer.
        run.app.workbench.composer.draft = ""
        await run.review()
        hand_in(run.app, "f3", "f2", "yes, nearly")
        await run.until(lambda: run.app.workbench.composer.draft == "yes, nearly", "the words")
        assert run.file == FILE
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        # A comment and what follows it stay apart.
        run.app.workbench.composer.draft = ""
        await run.review()
        hand_in(run.app, "f3", "Gc", "say why", "ctrl+s", "g", "f2", "done")
        await run.until(lambda: run.app.workbench.composer.draft == "done", "the words")
        assert [remark.text for remark in review.state.feedback_drafts.remarks["P1"]] == ["say why"]
        assert review.view.cursor.number == 0
        # Words read together with their key are kept.
        await run.review()
        hand_in(run.app, "r", "yes, but shorter")
        feedback = run.app.workbench.review.feedback_field
        await run.until(lambda: feedback.is_open and feedback.query_one(TextArea).text == "yes, but shorter", "it")


@SIZES
async def test_a_decision_key_before_the_first_paint_is_ignored(
    tmp_path: Path, server: WireServer, size: tuple[int, int]
) -> None:
    async with running(tmp_path, server, size=size) as run:
        await in_review(run, server)
        await run.pilot.press("f2")
        for keys in (("f3", "y"), ("f2", "f4", "n"), ("f3", "f1", "escape", "Y"), ("f2", "f3", "r")):
            hand_in(run.app, *keys)
            await run.see("before this was on the screen")
            assert [one.state for one in run.proposals] == [ProposalState.PENDING]
            await run.pilot.press("f2")
            # The key would not be pressed again there, where it is a letter.
            await run.until(lambda: "before this was on the screen" not in run.text, "the picture without it")
        await run.pilot.press("f3")
        await run.ready_to_decide("y")
        await run.until(lambda: run.file != FILE, "the file")


async def test_characters_of_one_read_decide_nothing(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, server, size=(160, 40)) as run:
        await stage(run, server)
        for text in ("yes please", "jjy", "Yay", "y\r"):
            await run.review()
            review = run.app.workbench.review
            chosen = review.state.hunk_exclusions.approval_selection(run.proposals[0]).hunks
            run.app.workbench.composer.draft = ""
            hand_in(run.app, *("enter" if one == "\r" else one for one in text))
            await run.see("Several keys came at once")
            # A key after the others: they have been dealt with.
            hand_in(run.app, "f2", "done")
            await run.until(lambda: run.app.workbench.composer.draft.endswith("done"), "the words")
            assert run.file == FILE, text
            assert [one.state for one in run.proposals] == [ProposalState.PENDING], text
            assert review.state.hunk_exclusions.approval_selection(run.proposals[0]).hunks == chosen, text
            await run.until(lambda: "Several keys came at once" not in run.text, "the picture without it")
        await run.review()
        with monkeypatch.context() as patch:
            # However busy the machine is, the second key comes in time.
            patch.setattr(decision_keys, "GRACE_SECONDS", 60.0)
            hand_in(run.app, "i")
            hand_in(run.app, "y")
            await run.see("“i” does nothing here")
            assert "That changed just now" not in run.text and run.file == FILE
        # A key that no text has parts what came together.
        await run.review()
        run.app.workbench.composer.draft = ""
        move = events.MouseMove(None, 0, 0, 0, 0, 0, False, False, False)
        hand_in(run.app, "down", "y", move, "f2", "thanks")
        await run.until(lambda: run.file != FILE, "the file")
        await run.until(lambda: run.app.workbench.composer.draft == "thanks", "the words")


async def test_keys_after_a_dialog_or_message_key_reach_it(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        hand_in(run.app, "f1", "approve", "escape", "said", "f1", "escape", " and done")
        await run.until(lambda: run.app.workbench.composer.draft == "said and done", "the words")
        # Enter sends though the terminal loses the focus at once.
        run.app.workbench.composer.draft = ""
        server.say("Hello.")
        hand_in(run.app, "hi", "enter", events.AppBlur(), events.AppFocus(), "next")
        await run.see("Hello.")
        await run.until(lambda: run.app.workbench.composer.draft == "next", "the words")


async def test_a_large_change_waits_for_the_users_input_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # The key is followed until the test lets it go, however busy the machine.
    monkeypatch.setattr(input_order, "_MAX_CHECKS", 10_000)
    app = Order()
    async with app.run_test():
        await wait_until_input_painted(app)
        slow = app.query_one(Slow)
        app.screen.set_focus(slow)
        hand_in(app, "w")
        await until(lambda: slow.begun, "the key")
        await wait_until_input_painted(app)
        monkeypatch.setattr(input_order, "_MAX_HOLD_SECONDS", 60)
        changing = asyncio.create_task(wait_until_input_painted(app))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not changing.done()
        slow.end.set()
        await changing
