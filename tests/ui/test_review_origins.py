"""Whose the proposals are: in the list, above the diff, and as a filter of what the keys are about."""

from typing import Any

from app.proposals.values.models import ProposalState
from app.proposals.values.origin import Origin, OriginKind
from tests.ui.review_app import ReviewApp
from tests.ui.review_states import Item
from tests.ui.test_review_decisions import BIG, ready, small
from widgets.review import review_messages

CLAUDE = Origin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-4-8", session="5f0c77aa-1")


def of(name: str, origin: Origin, **named: Any) -> Item:
    proposal, diffs = small(name, created=int(name[1:]), **named)
    return proposal.model_copy(update={"origin": origin}), diffs


def mixed() -> ReviewApp:
    return ReviewApp(of("P1", CLAUDE), of("P2", Origin(model="qwen3")), of("P3", CLAUDE))


async def test_the_list_and_the_head_of_the_diff_say_whose_it_is() -> None:
    app = mixed()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        rows = [line for line in app.text().splitlines() if "+" in line and "●" in line]
        assert ["claude" in row for row in rows] == [True, False, True]
        assert "signoff" in rows[1]
        assert "From Claude Code, claude-opus-4-8, session 5f0c77aa." in app.text()
        app.review.show_item("P2")
        await ready(pilot)
        assert app.text().startswith(" qwen3  a.py:2")
        assert "From " not in app.text(), "signoff's own needs no line"


async def test_rows_are_not_told_apart_where_all_are_signoffs_own() -> None:
    app = ReviewApp(of("P1", Origin(model="qwen3")), of("P2", Origin(model="qwen3")))
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        assert not any("signoff" in line for line in app.text().splitlines() if "●" in line)


async def test_what_is_not_listed_is_not_decided_on_either() -> None:
    app = mixed()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        await pilot.press("O")
        assert list(app.review.pane.queue.items) == ["P1", "P3"]
        assert "only claude: 1 more" in app.text()
        await app.pass_grace()
        await pilot.press("N")
        await app.pass_grace()
        await pilot.press("y")
        (denied,) = [message for message in app.posted if isinstance(message, review_messages.DenyAll)]
        assert [each.proposal_id for each in denied.each] == ["P1", "P3"]


async def test_the_key_goes_round_the_origins_and_back_to_all() -> None:
    app = mixed()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        seen = []
        for _ in range(3):
            await pilot.press("O")
            seen.append(app.review.state.keys)
        assert seen == [["P1", "P3"], ["P2"], ["P1", "P2", "P3"]]


async def test_once_nothing_waits_of_the_origin_all_are_listed_again() -> None:
    app = mixed()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        await pilot.press("O", "O")
        assert app.review.state.keys == ["P2"]
        gone = of("P2", Origin(model="qwen3"), state=ProposalState.APPLIED)[0]
        app.review.set_proposals([of("P1", CLAUDE)[0], gone, of("P3", CLAUDE)[0]])
        await pilot.pause()
        assert list(app.review.pane.queue.items)[:2] == ["P1", "P3"]
