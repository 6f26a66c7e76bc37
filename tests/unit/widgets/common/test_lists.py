"""What lists and texts light of what is looked for."""

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import OptionList

from widgets.common.search_list import Choice, SearchList
from widgets.common.text_view import TextView


def test_where_nothing_is_found_there_is_no_match_to_go_to() -> None:
    view = TextView()
    for query in ("", "two"):
        view.set_query(query)
        assert view.go_to_match(1) == view.go_to_match(-1) == (0, 0)


class Listing(App[None]):
    def compose(self) -> ComposeResult:
        yield SearchList("Search")


@pytest.mark.parametrize("label", ["about Izmir", "İstanbul about", "ABOUT"])
async def test_what_is_looked_for_is_underlined_where_it_stands(label: str) -> None:
    """Some letters are two in lower case."""
    app = Listing()
    async with app.run_test() as pilot:
        app.query_one(SearchList).set_choices([Choice("a", Content(label), label)])
        await pilot.press(*"about")
        prompt = app.query_one(OptionList).get_option_at_index(0).prompt
        assert isinstance(prompt, Content)
        (span,) = prompt.spans
        assert prompt.plain[span.start : span.end].lower() == "about"
