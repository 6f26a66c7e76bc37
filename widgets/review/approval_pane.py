"""The approval pane: the pending proposals, what an approval would do, and which keys approve and deny."""

from collections.abc import Callable
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from widgets.common.containers import Column
from widgets.review.check_words import check_lines
from widgets.review.review_queue import ReviewQueue
from widgets.review.review_state import ReviewState
from widgets.review.review_wording import ACTION, HeadlineRoom, KeyOf, actions_on, fitted, headline, shows_title

_SHARE = 0.3
"""Of the height of the review, which the approvals take unless the user drags the line above them."""
_MOST_ROWS = 10
"""Rows of the list."""
_CHECKS_SHARE, _CHECKS_CELLS = 3, 24
"""Results of checks that are well stand beside the title where they take at most this part of the width, and so many
cells."""


class _Words(Static):
    """Text that is redrawn with every change, without a new layout of the screen, which would delay a key."""

    def say(self, words: Content | None) -> None:
        """Show these words, or nothing."""
        words = words or Content("")
        if not (isinstance(self.content, Content) and self.content.is_same(words)):
            self.update(words)


class ApprovalPane(Column):
    """Draws a `ReviewState` without changing it."""

    DEFAULT_CSS = """
    ApprovalPane {
        height: auto;
        min-height: 2;
        background: $surface;

        #headline {
            height: auto;
            padding: 0 1 0 0;
            border-left: outer $surface;
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
        /* With 16 colours there is no quarter of one. */
        &:ansi #question { background: $surface; border-left: outer $warning; padding: 0 1 0 0; }
        &.dragged { max-height: 80%; ReviewQueue { height: 1fr; max-height: 100%; } }
        /* Textual looks for what has to be drawn anew only where the pane itself has such a rule. */
        &:focus-within { background: $surface; }
        &:focus-within #headline { border-left: outer $primary; }
        &.-changed #headline { text-opacity: 60%; }
        &.-asking #headline { display: none; }
        &.-writing { min-height: 2; #headline { display: none; } }
    }
    """

    _height_of_all = 0
    """Rows of the whole review."""
    _dragged_to = 0
    """Rows that the user has dragged it to, while there is a list."""
    _height = 0
    """Rows that it is kept at; 0 for as many as it needs."""
    _lines = 0
    """Rows above the list."""
    _drawn: Callable[[], None] = staticmethod(lambda: None)
    """Draws the headline once more."""
    _outcome: tuple[Content | None, Callable[[], str] | None] = (None, None)
    is_passing = False
    """Whether what is said of a decision holds only until the model's turn is over."""
    is_of_key = False
    """Whether what is said is of a key that did nothing, to be pressed again."""
    shows_title = True
    """Whether the title of what waits is on these lines as a whole."""
    named_keys: frozenset[str] = frozenset()
    """The actions whose keys these lines name."""
    _asked: Content | None = None
    """The question that stands in the place of them."""
    on_named_keys: Callable[[], None] = staticmethod(lambda: None)
    """Called when others are named."""

    def compose(self) -> ComposeResult:
        yield _Words(id="question", markup=False)
        yield _Words(id="headline", markup=False)
        yield _Words(id="outcome", markup=False)
        yield ReviewQueue()

    @property
    def queue(self) -> ReviewQueue:
        """The list, which takes the focus."""
        return self.query_one(ReviewQueue)

    def show(self, state: ReviewState, key: KeyOf, *, comparing: bool = False, notes_shown: bool = True) -> None:
        """Draw the state as it is now; `comparing` and `notes_shown` as for the headline."""
        self.queue.show(state)
        self.show_headline(state, key, comparing=comparing, notes_shown=notes_shown)

    def show_headline(
        self, state: ReviewState, key: KeyOf, *, comparing: bool = False, notes_shown: bool = True
    ) -> None:
        """Draw the lines about the current item alone."""
        self._drawn = partial(self.show_headline, state, key, comparing=comparing, notes_shown=notes_shown)
        shown = self.query_one("#headline", _Words)
        width = shown.content_size.width
        proposal = state.proposal
        brief, checks = None, list[Content]()
        if proposal is not None and proposal.state.is_pending and not comparing:
            brief = self._brief_checks(state, proposal.id, key, width)
            checks = [] if brief is not None else check_lines(state, proposal.id, key, width)
        listed = self.queue.display and state.current in self.queue.items
        outcome_said = self._says_outcome and proposal is not None and not proposal.state.is_pending
        room = HeadlineRoom(width, listed, comparing, outcome_said, notes_shown, brief)
        lines = headline(state, key, room)
        waits = proposal is not None and proposal.state.is_pending and not comparing
        self.shows_title = not waits or proposal is None or shows_title(state, proposal, lines, room)
        # Above the keys, which are the last line.
        lines[-1:-1] = checks
        lines = [fitted(line, width) if width else line for line in lines]
        shown.say(Content("\n").join(lines))
        self._lines = len(lines)
        self.fit_height(self._height_of_all)
        self._name_keys(actions_on([self._asked] if self._asked is not None else lines))

    def _brief_checks(self, state: ReviewState, proposal: str, key: KeyOf, width: int) -> Content | None:
        """Return the check results if all passed and they fit beside the title."""
        checked = state.checks.get(proposal)
        if checked is None or checked.why_not or checked.new_failures or checked.is_running:
            return None
        if any(result.stale for result in checked.results):
            return None
        most = min(width // _CHECKS_SHARE, _CHECKS_CELLS)
        lines = check_lines(state, proposal, key, most, keys=False)
        return lines[0] if len(lines) == 1 and lines[0].cell_length <= most else None

    def _name_keys(self, named: frozenset[str]) -> None:
        if named != self.named_keys:
            self.named_keys = named
            self.on_named_keys()

    def fit_height(self, height: int) -> None:
        """Leave most of the review's height to the diff; the lines with the deciding keys are never cut."""
        self._height_of_all = height
        wanted = self._dragged_to if self.queue.items else 0
        if wanted != self._height:
            # To set it has all laid out anew.
            self._height = wanted
            self.styles.height = wanted or None
            self.set_class(bool(wanted), "dragged")
        if wanted:
            self.queue.styles.clear_rule("max_height")
            return
        rows = int(height * _SHARE) - self._lines
        self.queue.styles.max_height = max(1, min(_MOST_ROWS, rows))

    def set_list_height(self, height: int) -> None:
        """Use this many rows from now on, whenever there is a list."""
        self._dragged_to = height
        self.fit_height(self._height_of_all)

    @property
    def _says_outcome(self) -> bool:
        return self.query_one("#outcome").has_class("shown")

    def on_click(self, event: events.Click) -> None:
        """Bring the keys here, unless it is a chip that is clicked."""
        if ACTION not in event.style.meta:
            self.screen.set_focus(self.queue)

    def on_resize(self) -> None:
        """Drop keys for which there is no room, or offer them again."""
        self._drawn()

    def draw_outcome(self) -> None:
        """Draw the last outcome again: the focus has moved."""
        text, back = self._outcome
        words = text + Content(f" {back()}") if text is not None and back is not None else text
        self.query_one("#outcome", _Words).say(words)

    def clear_key_notice(self) -> None:
        """Remove a notice about a key that was pressed for another item."""
        if self.is_of_key:
            self.show_outcome(None)

    def show_question(self, question: Content | None) -> None:
        """Show a question in place of everything else, or remove it."""
        self._asked = question
        bar = self.query_one("#question", _Words)
        bar.say(question)
        self.set_class(question is not None, "-asking")
        bar.set_class(question is not None, "shown")

    def show_outcome(
        self,
        text: Content | None,
        *,
        problem: bool = False,
        passing: bool = False,
        of_key: bool = False,
        back: Callable[[], str] | None = None,
    ) -> None:
        """Show the outcome of an action.

        Args:
            text: that, or None for nothing.
            problem: it went wrong.
            passing: it holds only until the model's turn is over.
            of_key: it holds only where a key did nothing: for what is shown, with the focus here.
            back: the last words, how to take it back, which depend on where the focus is.
        """
        self.is_passing, self.is_of_key = passing, of_key
        self._outcome = (text, back)
        line = self.query_one("#outcome", Static)
        self.draw_outcome()
        line.set_class(text is not None, "shown")
        line.set_class(problem, "problem")
        self._drawn()
