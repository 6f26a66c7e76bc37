"""The list of files above the diff."""

from app.proposals.values.models import HunkState, ProposalState
from tests.ui.review_app import ReviewApp, click_on, reviewing
from tests.ui.sample_diffs import Item, file_diff, proposal, proposed
from widgets.diff.file_list import FileList
from widgets.review import review_messages


def of_files(count: int, name: str = "P1", *, lines: int = 30) -> Item:
    """A change of one line, in the middle of each of so many files."""
    old = [f"line {number}" for number in range(lines)]
    new = [*old[: lines // 2], "changed", *old[lines // 2 + 1 :]]
    diffs = [
        file_diff(f"file_{number:02}.txt", "\n".join(old), "\n".join(new), first=number + 1)
        for number in range(count)
    ]
    return proposal(name, diffs), diffs


def listed(app: ReviewApp) -> list[str]:
    files = app.query_one(FileList)
    return [files.render_line(y).text.rstrip() for y in range(files.size.height)] if files.display else []


async def test_the_file_list_is_shown_only_for_many_files() -> None:
    for count in (2, 3):
        async with reviewing(of_files(count)) as (app, _pilot):
            assert len(listed(app)) == (0 if count < 3 else 3)
            assert not app.query_one(FileList).render_line(count).text.strip(), "below the last"


async def test_a_long_file_list_leaves_room_to_the_diff_and_shows_the_current_file() -> None:
    value, diffs = of_files(30)
    async with reviewing((value, diffs)) as (app, pilot):
        assert len(listed(app)) == 8
        await pilot.press(*["right_curly_bracket"] * 20)
        current = f"file_{app.review.view.cursor.file_index:02}"
        assert any(line.startswith("›") and current in line for line in listed(app))
        await pilot.press("g")
        await pilot.resize_terminal(80, 24)
        assert 0 < 3 * len(listed(app)) <= app.review.view.size.height
        await pilot.press("G")
        assert any("unseen" in line for line in listed(app))
        await app.change(value.model_copy(update={"state": ProposalState.DENIED}))
        assert listed(app) and not any("unseen" in line for line in listed(app)), "denied files are not unseen"


async def test_file_list_shows_operation_and_seen_state_of_each_file() -> None:
    diffs = [
        file_diff("new.py", None, "a\n"),
        file_diff("gone.py", "a\nb\n", None, first=2),
        file_diff("far.py", *(f"{'x' * 3}\n" * 100 + word for word in ("old", "new")), first=3),
    ]
    async with reviewing(proposed(*diffs), size=(80, 19)) as (app, pilot):
        first, second, third = (" ".join(line.split()) for line in listed(app))
        assert first == "›+ new.py new file +1 ✓"
        assert second == "- gone.py deleted -2 ✓"
        assert third == "~ far.py unseen +1 -1", "it has not been on the screen"
        denied = diffs[1].change.model_copy(update={"state": HunkState.DENIED})
        decided = [diffs[0], diffs[1].model_copy(update={"change": denied}), diffs[2]]
        await app.change(proposal("P1", decided, state=ProposalState.APPLIED), decided)
        assert " ".join(listed(app)[1].split()) == "- gone.py deleted -2 ✗", "a tick would say that it was approved"
        await pilot.press("right_curly_bracket", "right_curly_bracket", "right_square_bracket")
        assert listed(app)[2].endswith("✓")


async def test_keys_and_clicks_in_the_file_list_move_the_diff_and_decide() -> None:
    async with reviewing(of_files(4)) as (app, pilot):
        await pilot.press("F")
        assert app.query_one(FileList).has_focus
        await pilot.press("j", "j", "j", "k")
        assert app.review.view.cursor.file_index == 2
        assert listed(app)[2].startswith("›")
        await pilot.press("enter")
        assert app.review.view.has_focus
        assert app.review.view.cursor.file_index == 2
        assert "file 3 of 4  hunk 3 of 4" in app.text(), "at the heading, the hunk below it"
        await click_on(pilot, "file_03")
        assert app.review.view.cursor.file_index == 3
        assert app.review.view.has_focus
        await pilot.press("F")
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)], "keys decide from there, too"


async def test_file_list_stays_hidden_or_shown_as_the_user_chose() -> None:
    async with reviewing(of_files(5), of_files(2, "P2")) as (app, pilot):
        await pilot.press("F", "F")
        assert not listed(app)
        assert app.review.view.has_focus
        app.review.show_item("P2")
        await pilot.pause()
        assert not listed(app)
        await pilot.press("F")
        assert len(listed(app)) == 2


async def test_excluded_hunks_are_left_out_of_the_counts() -> None:
    old = [f"line {number}" for number in range(60)]
    new = [*old[:5], "one", *old[6:40], "two", "three", *old[41:]]
    async with reviewing(proposed(file_diff("a.txt", "\n".join(old), "\n".join(new)))) as (app, pilot):
        await pilot.press("F", "enter", "G", "left_square_bracket", "space")
        (line,) = listed(app)
        assert " ".join(line.split()) == "›~ a.txt 1 of 2 hunks +1 -1 ✓"
        (head,) = [line for line in app.text().split("\n") if line.startswith("▾")]
        assert "1 of 2 hunks  +1  -1" in head, "the head of the file says the same"
