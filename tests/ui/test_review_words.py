"""Words of the user in the review: comments on lines, feedback, confirmations, answered revisions."""

from textual.widgets import TextArea

from app.proposals.decide.comment_follow_up import CommentedLineChange
from app.proposals.risk.change_summary import default_command_summary
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import HunkState, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.review.unfinished_review import FeedbackWithComments
from app.tools.base.command_forms import AllowableCommandPattern
from app.tools.base.contract import PermissionAnswer, PermissionDuration, PermissionRequest
from tests.ui.review_app import BIG, ReviewApp, click_on, ready, reviewing
from tests.ui.sample_diffs import file_diff, proposal, proposed
from tests.ui.test_review_decisions import small, two_hunks
from widgets.common.input_order import PossiblyPastedKey
from widgets.common.workbench_bars import KeyBar
from widgets.review import review_messages


def allowed(span: PermissionDuration, form: AllowableCommandPattern | None = None) -> PermissionAnswer:
    return PermissionAnswer(allowed=True, duration=span, form=form)


COMMAND = PermissionRequest("command", "Run a command", "pytest -q tests", ".")


async def test_unsent_feedback_decides_nothing_and_is_kept() -> None:
    async with reviewing(small()) as (app, pilot):
        # Empty feedback is not sent.
        await pilot.press("r", "ctrl+s")
        assert app.posted == []
        # A draft of a comment survives escape.
        await pilot.press("escape")
        await ready(pilot)
        await pilot.press("c", "a", "y", "escape", "c")
        assert isinstance(app.focused, TextArea)
        assert app.focused.text == "ay"
        assert app.posted == []
        # Feedback text decides nothing and escape keeps it.
        await pilot.press("escape")
        await ready(pilot)
        await pilot.press("r", "y", "n", "Y", "N", "space", "ctrl+j", "u", "escape")
        assert app.posted == []
        await app.press_later("r")
        assert isinstance(app.focused, TextArea)
        assert app.focused.text == "ynYN \nu"


async def test_feedback_is_sent_completely_and_keys_typed_after_it_decide_nothing() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("r", *"no", "ctrl+j", *"yes", "shift+enter", *"so")
        assert "Enter send" in app.text()
        app.review.view.focus()
        await pilot.pause()
        assert "so" in app.text() and "Enter send" not in app.text(), "only while the field has the keys"
        await pilot.press("r")
        assert "Enter send" in app.text()
        await pilot.press("enter", *"yes", "e", "x", "n")
        assert app.posted == [review_messages.Deny("P1", None, FeedbackWithComments("no\nyes\nso"))]
        assert app.focused is app.review.view
        await pilot.pause()
        assert "for a moment" in app.text()


async def test_the_cursor_stays_in_view_at_each_size_and_a_comment_brings_it_there() -> None:
    old = "".join(f"line {number}\n" for number in range(40))
    async with reviewing(proposed(file_diff("a.py", old, old.replace("line", "row")))) as (app, pilot):
        view = app.review.view
        await pilot.press(*["j"] * 50)

        async def assert_cursor_stays_in_view(*sizes: tuple[int, int]) -> None:
            for size in sizes:
                await pilot.resize_terminal(*size)
                top, room = view.scroll_offset.y, view.scrollable_content_region.height
                assert top <= view.layout_rows.first_line_of_row(view.cursor.number) < top + room, size

        await assert_cursor_stays_in_view((80, 24), (60, 20), (120, 45), (80, 18), (80, 24))
        view.scroll_to(y=0, animate=False, immediate=True)
        await pilot.pause()
        await pilot.press("c")
        await assert_cursor_stays_in_view((80, 24), (60, 20), (120, 45), (80, 18))


async def test_a_repeated_hunk_says_what_it_repeats_and_shows_the_cursor_on_its_first_line() -> None:
    async with reviewing(proposed(file_diff("a.py", "one\ntwo\n", "one\n2\n", repeat_of="P0"))) as (app, pilot):
        await pilot.press("g", "right_square_bracket", "j")
        head, first = (line for line in app.text().split("\n") if "repeats an edit" in line or "●›" in line)
        assert "repeats an edit that you denied in P0" in head and first.startswith("●›")


NOTES = ("What it changes waits.", f"Written at once: {', '.join(f'~/a/cache/of/{name}' for name in range(30))}.")


async def test_a_command_longer_than_the_pane_must_be_seen_completely_but_not_its_notes() -> None:
    lines = [f"echo {number}." for number in range(40)]
    app = ReviewApp()
    async with app.run_test(size=(60, 20)) as pilot:
        app.review.add_permission_request("c1", PermissionRequest("command", "Run", "pytest -q", ".", NOTES))
        await ready(pilot)
        assert "cache/of/29" not in app.text() and NOTES[0] in app.text().split("\n▌Run")[1]
        await pilot.press("y")
        assert app.posted == [review_messages.PermissionAnswered("c1", allowed(PermissionDuration.ONCE))]
        app.posted.clear()
        app.review.add_permission_request("c2", PermissionRequest("command", "Run", "\n".join(lines), ".", NOTES))
        await ready(pilot)
        unseen = {line for line in lines if line not in app.text()}
        key = "G"
        while unseen:
            await pilot.press("y")
            assert app.posted == [] and ") shows more" in " ".join(app.text().split()), unseen
            await pilot.press(key)
            await app.pass_grace()
            unseen -= {line for line in unseen if line in app.text()}
            assert unseen or key != "G", "the end is there, and what lies between was not"
            key = "right_parenthesis"
        await pilot.press("y")
        assert app.posted == [review_messages.PermissionAnswered("c2", allowed(PermissionDuration.ONCE))]


async def test_a_comment_can_be_changed_removed_and_sent_with_a_quote() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("c", "a", "ctrl+s")
        await pilot.press("c", "b", "ctrl+s")
        assert [remark.text for remark in app.review.state.feedback_drafts.remarks["P1"]] == ["ab"]
        await pilot.press("c", "backspace", "backspace", "ctrl+s")
        assert app.review.state.feedback_drafts.remarks["P1"] == []
        # Enter saves, but is a new line in a paste.
        await ready(pilot)
        await pilot.press("j", "c", *"why?")
        app.post_message(PossiblyPastedKey("enter", None))
        await pilot.pause()
        await pilot.press(*"so", "enter")
        assert app.focused is app.review.view and "▌ why?" in app.text()
        await pilot.press("y")
        assert app.posted == [], "who writes on decides nothing"
        await app.press_later("r")
        assert "a.py:2  why?" in app.text()
        await pilot.press("ctrl+s")
        expected = LineComment(path="a.py", line=2, side="new", quote=" one\n-two\n+2\n three", text="why?\nso")
        assert app.posted == [review_messages.Deny("P1", None, FeedbackWithComments(comments=(expected,)))]


async def test_a_comment_in_the_field_stays_on_its_line_when_its_proposal_is_rebased() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("c", "a")
        diffs = [file_diff("a.py", "zero\none\ntwo\nthree\n", "zero\none\n2\nthree\n")]
        await app.change(proposal("P1", diffs, revision=2), diffs)
        assert "Comment on a.py:3" in app.text()
        await pilot.press("b", "ctrl+s")
        remarks = app.review.state.feedback_drafts.remarks["P1"]
        assert [(remark.line, remark.text) for remark in remarks] == [(2, "ab")]


async def test_a_command_is_allowed_once_or_by_its_form_unless_it_is_new() -> None:
    async with reviewing() as (app, pilot):

        async def ask(command: str) -> None:
            app.posted.clear()
            app.review.add_permission_request("c1", PermissionRequest("command", "Run a command", command, "."))
            await ready(pilot)

        async def answered(*keys: str) -> PermissionAnswer:
            for key in keys:
                await pilot.press(key)
                await app.pass_grace()
            (answer,) = app.posted
            assert isinstance(answer, review_messages.PermissionAnswered) and answer.key == "c1"
            assert app.review.state.permission_request is None
            return answer.answer

        await ask("pytest -q tests")
        assert "pytest -q tests" in app.text() and "begins with pytest" in app.text()
        assert await answered("y") == PermissionAnswer(allowed=True)
        await ask("pytest -q tests")
        form = AllowableCommandPattern(("pytest",), open=True)
        assert await answered("a") == allowed(PermissionDuration.SESSION, form)
        await ask("pytest -q tests")
        form = AllowableCommandPattern(("pytest", "-q"), open=True)
        assert await answered("greater_than_sign", "A") == allowed(PermissionDuration.PROJECT, form)
        await ask("pytest -q tests")
        await pilot.press("less_than_sign", *["greater_than_sign"] * 9)
        assert "Or just this command" in app.text() and app.text().count("pytest -q tests") == 1
        await pilot.press("a")
        assert app.posted == [], "what it would allow has just changed"
        await app.pass_grace()
        form = AllowableCommandPattern(("pytest", "-q", "tests"), open=False)
        assert await answered("a") == allowed(PermissionDuration.SESSION, form)
        # A command that does more is allowed as it is and never for good.
        await ask("pytest | tee log")
        assert "it has a |" in app.text()
        await pilot.press("A", "greater_than_sign")
        assert app.posted == []
        await app.pass_grace()
        assert await answered("a") == allowed(PermissionDuration.SESSION)
        app.posted.clear()
        app.review.view.focus()
        await pilot.pause()
        await app.pass_grace()
        app.review.add_permission_request("c1", COMMAND)
        await pilot.press("y", "a", "n")
        assert app.posted == [], "it is new"


async def test_comments_on_the_version_before_can_be_ticked_off() -> None:
    value, diffs = small("P2", supersedes="P1", version=2)
    app = ReviewApp((value, diffs))
    async with app.run_test(size=BIG) as pilot:
        comment = LineComment(path="a.py", line=2, side="new", quote="", text="name it")
        app.review.set_sent_comments("P1", [comment])
        await ready(pilot)
        assert "☐ a.py:2  name it" in app.text()
        await pilot.press("g", "j", "enter")
        assert "☑ a.py:2  name it" in app.text()
        await pilot.press("enter")
        assert "☐ a.py:2  name it" in app.text(), "the cursor has stayed on it"
        app.review.set_follow_ups("P2", [CommentedLineChange.SAME])
        await pilot.pause()
        assert "☐ a.py:2  not changed in v2: name it" in app.text()


async def test_a_summary_is_shown_once_and_that_of_a_command_not_as_the_models_text() -> None:
    diffs = [file_diff("a.py", "one\n", "1\n"), file_diff("b.py", "one\n", "1\n", first=2)]
    ran = default_command_summary("sed -i s/one/1/ a.py   &&   echo this is a rather long command")
    origin = ProposalOrigin(kind=OriginKind.COMMAND)
    async with reviewing(
        (proposal("P1", diffs, "Read the tides of all ports that the harbour master has named"), diffs),
        (proposal("P2", diffs, ran, origin=origin), diffs),
    ) as (app, pilot):
        assert "2 files" in app.text() and "in 2 files" not in app.text()
        assert app.text().count("Read the tides of all ports that the harbour master has named") == 1
        assert "says" not in app.text()
        await pilot.press("J")
        assert "Command: sed -i s/one/1/ a.py   &&   echo this is a rather" in app.text()
        assert "says" not in app.text()


async def test_two_versions_of_a_proposal_can_be_compared() -> None:
    diffs = [file_diff("a.py", "one\ntwo\n", "one\n2\n")]
    value = proposal("P2", diffs, supersedes="P1", version=2)
    app = ReviewApp((value, diffs))
    app.versions["P2"] = [file_diff("a.py", "one\nzwei\n", "one\n2\n")]
    app.below = KeyBar()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        await click_on(pilot, " V  changes since P1")
        assert "zwei" in app.text()
        assert "Compared  P1 → P2" in app.text() and "P1 → P2" in app.text().splitlines()[0]
        assert "approve" not in app.text().split("Compared")[1].split("●")[0]
        assert "●" not in app.text().partition("back to P2")[0], "no hunk can be chosen"
        assert "Space" not in app.text()
        await app.press_later("right_square_bracket", "space", "t", "x", "c", "y")
        assert not app.review.state.hunk_exclusions.left_out.get("P2") and not app.review.is_writing
        assert app.posted == [], "that isn't the diff that would be written"
        for key in "yc":
            app.review.show_notice("")
            await app.press_later(key)
            assert "compares two versions" in app.text(), key
        await click_on(pilot, " V  back to P2")
        assert "P2 Change a.py" in app.text() and "zwei" not in app.text()
        await pilot.press("c")
        assert app.review.is_writing
        await pilot.press("escape")
        app.review.state.feedback_drafts.set_feedback("P2", "hm")
        await app.press_later("y")
        assert "your unsent words go with it" in app.text().lower()
        await pilot.press("V")
        await app.press_later("y")
        assert app.posted == [], "the question lapses with the diff that it is about"
        app.review.state.feedback_drafts.set_feedback("P2", "")
        await pilot.press("V")
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P2", 1, None)]


async def test_after_a_partial_approval_the_cursor_is_on_a_pending_hunk() -> None:
    value, diffs = two_hunks()
    async with reviewing((value, diffs)) as (app, _pilot):
        view, change = app.review.view, value.files[0]
        assert view.cursor.hunk == change.hunks[0]
        hunks = (change.hunks[0].model_copy(update={"state": HunkState.APPLIED}), change.hunks[1])
        now = change.model_copy(update={"hunks": hunks})
        await app.change(
            value.model_copy(update={"files": (now,), "revision": 2, "state": ProposalState.PARTLY_APPROVED})
        )
        assert view.cursor.hunk == change.hunks[1]


async def test_the_cursor_stays_on_its_hunk_when_the_proposal_is_rebased() -> None:
    async with reviewing(two_hunks()) as (app, pilot):
        await pilot.press("right_square_bracket", "j")
        before = app.review.view.cursor.source_line
        ((diff,),) = app.diffs.values()
        top = tuple(f"top {number}" for number in range(9))
        hunks = tuple(
            hunk.model_copy(update={"old_start": hunk.old_start + 9, "new_start": hunk.new_start + 9})
            for hunk in diff.change.hunks
        )
        change = diff.change.model_copy(update={"hunks": hunks})
        moved = diff.model_copy(update={"change": change, "old": top + diff.old, "new": top + diff.new})
        value = app.proposals["P1"].model_copy(update={"files": (change,), "revision": 2})
        await app.change(value, [moved])
        assert before is not None and app.review.view.cursor.source_line == before._replace(line=before.line + 9)


async def test_the_only_hunk_keeps_its_number() -> None:
    value, diffs = small()
    (hunk,) = diffs[0].change.hunks
    change = diffs[0].change.model_copy(update={"hunks": (hunk.model_copy(update={"number": 2}),)})
    renumbered = diffs[0].model_copy(update={"change": change})
    async with reviewing((value.model_copy(update={"files": (change,)}), [renumbered])) as (app, _pilot):
        assert "hunk 2, the only one" in app.text()


async def test_a_screen_too_small_for_reviewing_decides_nothing() -> None:
    async with reviewing(small()) as (app, pilot):
        for size in ((39, 20), (60, 11)):
            await pilot.resize_terminal(*size)
            assert "too small to review" in app.text()
            await app.press_later("y", "n")
            assert app.posted == []
        await pilot.resize_terminal(40, 14)
        assert "too small" not in app.text()
        await app.press_later("n")
        assert app.posted == [review_messages.Deny("P1")]
