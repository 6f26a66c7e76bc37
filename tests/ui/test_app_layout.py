"""Where things stand in the whole app: what must stay in view, and what gives way."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

from tests.ui.running_app import Running, running, stage
from tests.wire.bench import edit
from tests.wire.server import WireServer
from widgets.chat.chat_column import ChatColumn
from widgets.chat.transcript_layout import EntrySlot
from widgets.diff.diff_pane import DiffStatusBar


async def with_proposal(
    run: Running, server: WireServer, old: str = "'Hello '", new: str = "'Hi '", more: str = ""
) -> None:
    """Have the model stage a proposal, and look at its diff."""
    server.call(*edit(old, new))
    server.say(f"Staged.{more}")
    await run.say("Change the greeting")
    await run.pilot.press("f3")
    await run.until(lambda: run.app.workbench.review.preview.diffs, "the diff")
    await run.see("hunk 1 of 1", "all")


async def test_the_focused_pane_is_marked_tiny_sizes_work_and_notifications_cover_no_diff(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled: list[int] = []
    update_nodes = Stylesheet.update_nodes

    def counted(self: Stylesheet, nodes: Iterable[DOMNode], animate: bool = False) -> None:
        every = list(nodes)
        styled.append(len(every))
        update_nodes(self, every, animate=animate)

    async with running(tmp_path, server, size=(160, 45)) as run:
        server.call("read_file", {"path": "greet.py"})
        monkeypatch.setattr(Stylesheet, "update_nodes", counted)
        await with_proposal(run, server)
        review = run.app.workbench.review
        marks: dict[str, Callable[[], object]] = {
            "f3": lambda: review.query_one(DiffStatusBar).styles.background,
            "f4": lambda: review.approval_pane.query_one("#headline").styles.border_left,
            "f2": lambda: run.app.workbench.composer.query_one("#composer-prompt").styles.color,
        }
        looks = {}
        for key in marks:
            await run.pilot.press(key)
            looks[key] = {name: look() for name, look in marks.items()}
        for key, others in (("f3", ("f4", "f2")), ("f4", ("f3", "f2")), ("f2", ("f3", "f4"))):
            assert all(looks[key][key] != looks[other][key] for other in others)
        for size in ((160, 45), (80, 24)):
            assert max(styled) < 30, "of some fifty"
            await run.pilot.resize_terminal(*size)
            styled.clear()
            for key in ("f2", "f3", "f4", "f2"):
                await run.pilot.press(key)
                assert bool(run.app.workbench.query_one(ChatColumn).size) is (key == "f2" or size[0] > 100)
        assert max(styled) < 30, "of some fifty"
        # Tab reaches the transcript, too.
        await run.pilot.press("shift+tab")
        assert run.app.workbench.chat.transcript.has_focus
        await run.pilot.press("tab")
        assert run.app.workbench.composer.editor.has_focus
        # A terminal of hardly any size ends nothing.
        for size in ((1, 1), (2, 24), (4, 3), (80, 1)):
            await run.pilot.resize_terminal(*size)
            for key in ("f2", "f3", "f4"):
                await run.pilot.press(key)
                assert run.text.count("\n") == size[1] - 1
        await run.pilot.resize_terminal(39, 12)
        await run.see("too small to review", "40x12 is needed")
        await run.until(lambda: "Request" not in run.text, "no keys of the hidden review")
        # A notification covers neither the diff's head nor the keys.
        await run.pilot.press("f3")
        for size, full in (((60, 20), False), ((80, 24), False), ((120, 40), False), ((120, 40), True)):
            await run.pilot.resize_terminal(*size)
            if full:
                await run.pilot.press("f")
                await run.until(lambda: "greet.py:" in run.text.split("\n")[0], "the diff on the whole screen")
            heads = run.text.split("\n")[:4]
            run.app.notify_user("Something happened that takes a good many words to say, " * 3)
            await run.see("Something happened")
            shown = run.text.split("\n")
            keys = next(line for line in shown if "approve" in line)
            assert "y" in keys and "n" in keys
            head = next(line for line in heads if "hunk 1 of 1" in line)
            assert head[head.index("greet.py:") :] in "\n".join(shown[:4]), size
            name = next(line for line in heads if "~ greet.py" in line)
            assert name[name.index("~ greet.py") :] in "\n".join(shown[:4]), size
            run.app.clear_notifications()
            await run.until(lambda: "Something happened" not in run.text, "the end of the notice")
        # Nor what is written in the palette and in dialogs, which show it in place of the screen beneath.
        for size in ((60, 20), (120, 40)):
            await run.pilot.resize_terminal(*size)
            for command, screen in (("", "CommandPalette"), ("theme", "ThemePickerScreen")):
                run.app.notify("Something happened that takes some words to say. " * 2, timeout=60)
                if command:
                    await run.command(command, screen)
                else:
                    await run.screen(screen, "ctrl+p")
                await run.see("Something happened")
                await run.write("solar")
                await run.see("solar")
                assert run.text.count("Something happened") == 2, run.text
                assert command or run.app.screen.query_one("#--input").region.width == min(84, size[0])
                run.app.clear_notifications()
                await run.screen("Workbench", "escape")


def widths(run: Running) -> tuple[int, int]:
    """Columns of the chat, and of the review; 0 where it is not shown."""
    workbench = run.app.workbench
    review = workbench.review.size.width if run.reviewed and workbench.review.region else 0
    return workbench.query_one(ChatColumn).size.width, review


async def test_the_chat_has_the_whole_width_if_nothing_waits(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(140, 40)) as run:
        assert widths(run) == (140, 0)
        await stage(run, server)
        await run.until(lambda: widths(run)[1] > 60, "the review")
        await run.pilot.press("f4")
        await run.ready_to_decide("y")
        await run.see("P1 written")
        assert widths(run)[1] > 60, "what came of it can be read, and taken back"
        await run.pilot.press("f2")
        await run.until(lambda: widths(run) == (140, 0), "the chat alone")
        await run.pilot.press("f3")
        await run.until(lambda: widths(run)[1] > 60, "the review, since the user is there")
        await run.pilot.press("f2")
        await run.until(lambda: widths(run) == (140, 0), "the chat alone")
        # The review goes when the model goes on.
        await with_proposal(run, server, "'Hi '", "'Hey '")
        await run.ready_to_decide("y")
        await run.see("P2 written")
        server.say("Good.")
        await run.app.require_session().send("And now?")
        await run.settled()
        run.app.workbench.set_focus(run.app.workbench.composer.editor)
        await run.until(lambda: widths(run) == (140, 0), "the chat alone")


async def test_the_review_has_two_thirds_of_the_width_and_the_chat_wraps_once_for_each(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[int] = []
    lay_out = EntrySlot.lay_out
    words = " These words take several rows in each of the widths." * 9

    def counted(slot: EntrySlot, width: int, deadline: float | None = None) -> bool:
        laid_out.append(width)
        return lay_out(slot, width, deadline)

    async with running(tmp_path, server) as run:
        server.say(words)
        await run.say("Hi")
        monkeypatch.setattr(EntrySlot, "lay_out", counted)
        texts = []
        for key in ("f3", "f2", "f3", "f2"):
            await run.pilot.press(key)
            width = 120 if key == "f2" else 39
            await run.until(lambda width=width: widths(run)[0] == width, "the review, or none")  # type: ignore[misc]
            texts.append(run.text)
            if len(texts) == 1:
                assert laid_out
                laid_out.clear()
        assert laid_out == []
        assert texts[1] == texts[3] != texts[0]
        # While a proposal waits, the widths are the same at any focus.
        await with_proposal(run, server, more=words)
        for width in (110, 200):
            await run.pilot.resize_terminal(width, 40)
            await run.painted()
            both = widths(run)
            assert both[1] == pytest.approx(width * 2 / 3, abs=1)
            assert sum(both) == width - 1
            laid_out.clear()
            for key in ("f2", "x", "f4", "f2", "f3"):
                await run.pilot.press(key)
                await run.painted()
                assert widths(run) == both
            assert laid_out == [], "no text of the chat wraps anew"


async def test_the_split_is_changed_by_mouse_and_key_and_remembered(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(140, 40)) as run:
        await with_proposal(run, server)
        before = widths(run)[1]
        await run.pilot.press("plus")
        await run.until(lambda: widths(run)[1] > before, "more room")
        await run.pilot.press("minus", "minus")
        await run.until(lambda: widths(run)[1] < before, "less room")
        line = run.app.workbench.query_one("#parting").region
        await run.pilot.mouse_down(offset=(line.x, line.y + 5))
        await run.pilot.hover(offset=(42, line.y + 5))
        await run.pilot.mouse_up(offset=(42, line.y + 5))
        await run.until(lambda: abs(widths(run)[0] - 42) <= 1, "the line under the mouse")
        await run.until(lambda: run.app.controllers.preferences.review_share() == 70, "the setting")
        wide = widths(run)[1]
    async with running(tmp_path, server, size=(140, 40), resume=True) as again:
        await again.until(lambda: widths(again)[1] == wide, "the width of before")
        await again.pilot.resize_terminal(80, 24)
        await again.pilot.press("f3")
        await again.until(lambda: widths(again)[1] == 80, "the whole width of a narrow terminal")


async def test_without_a_proposal_the_greeting_is_complete_and_no_decision_keys_are_shown(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(110, 40)) as run:
        await run.pilot.press("f3")
        await run.until(lambda: widths(run)[1], "the review")
        rows = [row[: widths(run)[0]] for row in run.text.split("\n")]
        words = " ".join(" ".join(rows).split())
        assert "Nothing on disk changes before you approve it." in words
        assert "commands, such as /sessions and /model" in words
        await run.pilot.press("f2")
        await run.pilot.resize_terminal(40, 15)
        await run.see("approve it.", "F4          then  y approve  n deny", "r request changes")
        await run.pilot.press("ctrl+c")
        await run.told("Press Ctrl+Q to quit signoff.")
        server.turn(calls=[("ask_user", {"question": "Which one?", "options": ["a", "b"]})])
        await run.say("Hi")
        await run.pilot.press("f3")
        for size in ((112, 30), (60, 20)):
            await run.pilot.resize_terminal(*size)
            await run.see("The model asks you, in the chat.", "Nothing to review yet.")
            assert "Nothing waits for you" not in run.text
            assert "appears here." in " ".join(run.text.split()), "the words are whole"
            footer = run.text.rstrip().split("\n")[-1]
            assert "Approve" not in footer and "Deny" not in footer and "Comment" not in footer


async def test_a_small_terminal_shows_the_diff_of_a_single_proposal(tmp_path: Path, server: WireServer) -> None:
    summary = "Keep the moon's time: a lunar day is 24 h 50 min, and not 24 hours flat"
    async with running(tmp_path, server, size=(60, 20)) as run:
        text = "".join(f"line {number}\n" for number in range(80))
        server.call("write_file", {"path": "moon.txt", "content": text, "summary": summary})
        server.say("Staged.")
        await run.say("Write it down")
        await run.pilot.press("f3")
        await run.until(lambda: run.app.workbench.review.preview.diffs, "the diff")
        for size, least in (((60, 20), 12), ((80, 24), 16)):
            await run.pilot.resize_terminal(*size)
            await run.see("P1 Keep the moon's", "+80 -0", "1 file", "unseen", "y  approve")
            lines = run.text.split("\n")
            of_diff = [line for line in lines if ("line " in line and " + " in line) or "moon.txt  " in line]
            assert len(of_diff) >= least, run.text
            assert run.text.count("Keep the moon's time") <= 2, "the rest of it is above the file"
            assert not run.app.workbench.review.approval_pane.queue.items, "one that waits needs no list"
            footer = lines[-1]
            assert not any(name in footer for name in ("y Approve", "n Deny", "r Request")), "they stand in their row"
        await run.pilot.press("f")
        await run.see("The review has the whole screen already.")
        await run.pilot.resize_terminal(40, 15)
        run.app.workbench.review.view.scroll_to(y=30, animate=False)
        await run.until(lambda: "○" not in run.text and "line 0" not in run.text, "the hunk is out of sight")
        await run.ready_to_decide("space")
        await run.see("line 0", "○")


async def test_the_decision_keys_fit_again_after_a_confirmation_is_declined(
    tmp_path: Path, server: WireServer
) -> None:
    def lines_of_keys() -> list[str]:
        return [line for line in run.text.split("\n") if line.startswith("▌")]

    async with running(tmp_path, server, size=(80, 24)) as run:
        await stage(run, server, ("def greet", "# more\n" * 20 + "def greet"))
        await run.pilot.resize_terminal(80, 14)
        await run.pilot.press("f3")
        await run.ready_to_decide()
        before = lines_of_keys()
        await run.ready_to_decide("y")
        await run.see("Approve?")
        await run.ready_to_decide("n")
        await run.until(lambda: lines_of_keys() == before, f"{before} again")
