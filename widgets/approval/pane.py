"""The approval pane: what waits, what it would do, and which key says yes or no."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.actions import bindings
from widgets.approval.state import ReviewState
from widgets.approval.wording import KeyOf, confirmation_row, headline, proposal_row


class ReviewQueue(OptionList):
    """The list of what waits and what was decided lately."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("approval")]


class ApprovalPane(Vertical):
    """Draws a `ReviewState`; changes nothing in it."""

    DEFAULT_CSS = """
    ApprovalPane {
        height: auto;
        max-height: 50%;
        min-height: 5;
        background: $surface;

        #headline {
            height: auto;
            padding: 0 1;
            background: $surface;
            color: $foreground;
            text-wrap: nowrap;
            text-overflow: ellipsis;
        }
        #outcome {
            height: auto;
            padding: 0 1;
            color: $text-success;
            display: none;
            &.problem { color: $text-warning; }
            &.shown { display: block; }
        }
        #question {
            height: auto;
            padding: 0 1;
            background: $warning 25%;
            color: $foreground;
            display: none;
            &.shown { display: block; }
        }
        ReviewQueue {
            height: auto;
            max-height: 10;
            border: none;
            padding: 0;
            background: $surface;
            text-wrap: nowrap;
            text-overflow: ellipsis;
            scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-highlighted { background: $foreground 9%; color: $foreground; text-style: none; }
            &:focus { background: $surface; background-tint: $foreground 0%; border: none; }
            &:focus > .option-list--option-highlighted { background: $primary 30%; color: $foreground; }
        }
        &.dragged { max-height: 80%; ReviewQueue { height: 1fr; max-height: 100%; } }
        &.-changed #headline { text-opacity: 60%; }
        &.-asking #headline { display: none; }
        &:ansi ReviewQueue:focus > .option-list--option-highlighted { background: ansi_bright_black; }
    }
    """

    @dataclass
    class Picked(Message):
        """The user chose an item of the queue."""

        key: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._keys: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="question", markup=False)
        yield Static(id="headline", markup=False)
        yield Static(id="outcome", markup=False)
        yield ReviewQueue(id="queue", markup=False)

    @property
    def queue(self) -> ReviewQueue:
        """The list, which takes the focus."""
        return self.query_one(ReviewQueue)

    def show(self, state: ReviewState, key: KeyOf, *, comparing: bool = False) -> None:
        """Draw the state as it is now; `comparing` as for the headline."""
        self.show_headline(state, key, comparing=comparing)
        queue = self.queue
        prompts: Mapping[str, Content] = {
            **{item: confirmation_row(value) for item, value in state.confirmations.items()},
            **{item.id: proposal_row(state, item) for item in (*state.waiting, *state.recent)},
        }
        keys = tuple(prompts)
        with queue.prevent(OptionList.OptionHighlighted):
            if keys != self._keys:
                self._keys = keys
                queue.set_options([Option(prompt, id=item) for item, prompt in prompts.items()])
            else:
                for item, prompt in prompts.items():
                    queue.replace_option_prompt(item, prompt)
            queue.highlighted = keys.index(state.current) if state.current in keys else None

    def show_headline(self, state: ReviewState, key: KeyOf, *, comparing: bool = False) -> None:
        """Draw the lines about the current item alone."""
        lines = headline(state, key, comparing=comparing)
        self.query_one("#headline", Static).update(Content("\n").join(lines))

    def ask(self, question: Content | None) -> None:
        """Show a question in the place of everything else, or take it away."""
        bar = self.query_one("#question", Static)
        bar.update(question or "")
        self.set_class(question is not None, "-asking")
        bar.set_class(question is not None, "shown")

    def outcome(self, text: Content | None, *, problem: bool = False) -> None:
        """Say what happened."""
        line = self.query_one("#outcome", Static)
        line.update(text or "")
        line.set_class(text is not None, "shown")
        line.set_class(problem, "problem")

    @on(OptionList.OptionHighlighted)
    @on(OptionList.OptionSelected)
    def _pick(self, event: OptionList.OptionHighlighted | OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Picked(event.option_id))

    @property
    def items(self) -> Sequence[str]:
        """Keys of the listed items."""
        return self._keys
