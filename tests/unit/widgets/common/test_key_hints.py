"""Keys on as many lines as they need, and what lists light of what is looked for."""

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList

from app.keys.actions import ACTIONS
from widgets.common.input_order import OnScreenSinceTracker
from widgets.common.key_hints import KeyHint, WrappedKeyHints
from widgets.common.search_list import ListChoice, SearchList
from widgets.common.text_view import TextView, TextViewLine
from widgets.common.workbench_bars import KeyBar, select_fitting_hints

HINTS = st.lists(
    st.builds(KeyHint, st.sampled_from(["y", "escape", "ctrl+d", "up,down", ""]), st.sampled_from(["go", "leave it"]))
)


@given(HINTS, st.integers(20, 200))
def test_hints_never_overlap_and_never_leave_the_width(hints: list[KeyHint], width: int) -> None:
    placed = WrappedKeyHints(hints).place_hints(width)
    assert [hint for _, _, hint in placed] == hints
    ends: dict[int, int] = {}
    for row, column, hint in placed:
        assert column >= ends.get(row, 0)
        ends[row] = column + hint.width
        assert ends[row] <= width


@given(st.lists(st.tuples(HINTS.filter(bool).map(lambda hints: hints[0]), st.integers(1, 6), st.booleans())))
def test_a_narrow_footer_leaves_out_the_least_important_keys(hints: Sequence[tuple[KeyHint, int, bool]]) -> None:
    before = list(hints)
    for width in range(200, 20, -7):
        kept = list(select_fitting_hints(hints, width))
        left_out = [rank for _, rank, _ in before]
        for _, rank, _ in kept:
            left_out.remove(rank)
        assert not left_out or min(left_out) >= max((rank for _, rank, _ in kept), default=1)
        assert 1 not in left_out
        before = kept


def test_a_click_on_one_of_a_few_keys_presses_that_one_and_without_a_key_none() -> None:
    hint = KeyHint("up,down,pagedown", "scroll")
    assert hint.name == "↑ ↓ PgDn"
    assert [hint.key_at(column) for column in (0, 2, 4, 7)] == ["up", "down", "pagedown", "pagedown"]
    assert {hint.key_at(column) for column in (1, 3, 8, 12)} == {"up"}, "between them and on the words, the first"
    hint = KeyHint("", "in two other sessions")
    assert hint.content(hovered=True).plain == "in two other sessions"
    assert (hint.width, hint.key_at(0), hint.key_at(2)) == (len(hint.label), "", "")


def test_decision_and_help_keys_are_never_left_out() -> None:
    always = {action.id for action in ACTIONS if action.footer == 1}
    assert {"review.approve", "review.deny", "review.request_changes", "app.help", "composer.send"} <= always


class Bar(App[None]):
    BINDINGS = [  # noqa: RUF012
        Binding("y", "sign('y')", "Approve", id="review.approve"),
        Binding("f1", "sign('f1')", "Help", id="app.help"),
        Binding("x", "sign('x')", "Own"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.signed: list[str] = []

    def compose(self) -> ComposeResult:
        yield KeyBar()

    def action_sign(self, key: str) -> None:
        self.signed.append(key)


async def test_a_click_on_a_key_of_the_footer_presses_it() -> None:
    app = Bar()
    async with app.run_test(size=(60, 5)) as pilot:
        await pilot.pause()
        bar = app.query_one(KeyBar)
        shown = str(bar.render())
        assert shown.startswith("x Own  y Approve") and shown.endswith("F1 Help")
        for words in ("Help", "Approve"):
            await pilot.click(KeyBar, offset=(shown.index(words) + 1, 0))
        await pilot.click(KeyBar, offset=(40, 0))
        assert app.signed == ["f1", "y"]


def test_search_without_matches_goes_nowhere() -> None:
    view = TextView()
    for query in ("", "two"):
        view.set_query(query)
        assert view.go_to_match(1) == view.go_to_match(-1) == (0, 0)


class Reading(App[None]):
    def compose(self) -> ComposeResult:
        yield TextView()


async def test_long_lines_break_between_words() -> None:
    app = Reading()
    async with app.run_test(size=(12, 9)):
        view = app.query_one(TextView)
        for text, rows in (
            ("one two three", ["one two", "three"]),
            ("one two th", ["one two th"]),
            ("one two thre ", ["one two", "thre"]),
            ("    indented_word", ["    indent", "ed_word"]),
            ("a 漢字漢字漢字", ["a", "漢字漢字漢", "字"]),
            ("é aaaaaaaaaaaa b", ["é", "aaaaaaaaaa", "aa b"]),
            ("", [""]),
        ):
            view.set_lines([TextViewLine(((text, ""),))])
            assert view.virtual_size.width == 10
            assert [view.render_line(row).text[1:].rstrip() for row in range(view.virtual_size.height)] == rows


class Listing(App[None]):
    def compose(self) -> ComposeResult:
        yield SearchList("Search")


async def test_search_matches_are_underlined() -> None:
    """Some letters are two in lower case."""
    app, labels = Listing(), ("about Izmir", "İstanbul about", "ABOUT")
    async with app.run_test() as pilot:
        app.query_one(SearchList).set_choices([ListChoice(label, Content(label), label) for label in labels])
        await pilot.press(*"about")
        for index in range(len(labels)):
            prompt = app.query_one(OptionList).get_option_at_index(index).prompt
            assert isinstance(prompt, Content)
            (span,) = prompt.spans
            assert prompt.plain[span.start : span.end].lower() == "about"


async def test_waiting_for_an_unpainted_widget_ends() -> None:
    sight = OnScreenSinceTracker()
    await sight.wait_until_on_screen(0.001)
    assert not sight.was_on_screen_at(time.monotonic())
