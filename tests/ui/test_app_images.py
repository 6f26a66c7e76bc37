"""Images in the app: dropped or named, asked about where that is not clear, shown in a line, refused in one."""

import os
from pathlib import Path

import pytest
from textual import events
from textual.widgets import TextArea

from app.conversation.events import ProposalDecided, UserMessage, UserNotice
from app.proposals.values.models import ProposalState
from app.text.safe_text import escape_unsafe
from app.ui.screens.report_screens import format_request_body, make_request_body_readable
from tests.oracles.reading import images
from tests.ui.running_app import Running, running, stage
from tests.unit.images.pictures import gif, png
from tests.wire.replies import Turn, error
from tests.wire.server import WireServer

PICTURE = png(1_280, 720)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def paste(run: Running, text: str, field: TextArea | None = None) -> None:
    """What the terminal sends for a file that is dropped on it."""
    editor = field or run.app.workbench.composer.editor
    before = editor.text
    editor.post_message(events.Paste(text))
    await run.until(lambda: editor.text != before, "the paste")


def put(run: Running, name: str, data: bytes = PICTURE) -> Path:
    path = run.runtime.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def sent(run: Running) -> list[UserMessage]:
    return [event for event in run.app.require_session().log.events if isinstance(event, UserMessage)]


async def test_a_named_image_is_sent_and_shown_in_the_chat(folder: Path, server: WireServer) -> None:
    server.always(Turn("A wide button."))
    async with running(folder, server) as run:
        put(run, "docs/shot.png")
        await run.say("Why is it so wide in @docs/shot.png?")
        await run.see("▣ docs/shot.png", "1,280×720", "A wide button.")
        assert images(server.last.body) == [("image/png", PICTURE)]
        request = run.app.require_session().requests.last_sent
        assert request is not None
        shown = format_request_body(make_request_body_readable(request.make_body()))
        assert "of base64]" in shown and len(shown) < 40_000
        # A hostile name is shown as what it is.
        put(run, "[red]x[/]\u202egnp.png", gif(3, 2))
        await run.say('See @"[red]x[/]\u202egnp.png"')
        await run.see(f"▣ [red]x[/]{escape_unsafe(chr(0x202E))}gnp.png  3×2")
        assert "\u202e" not in run.text
        assert images(server.last.body)[-1] == ("image/gif", gif(3, 2))


async def test_a_dropped_file_becomes_a_mention_and_a_typed_one_needs_confirmation(
    folder: Path, server: WireServer
) -> None:
    server.always(Turn("I see."))
    outside = folder / "two words.png"
    outside.write_bytes(PICTURE)
    async with running(folder, server) as run:
        path = str(outside)
        forms = (path, f"'{path}'", f'"{path}" ', path.replace(" ", "\\ "), f"file://{path}".replace(" ", "%20"))
        for dropped in forms:
            run.app.workbench.composer.draft = ""
            await run.write("Look: ")
            await paste(run, dropped)
            assert run.app.workbench.composer.draft == f'Look: @"{path}" ', dropped
        await run.write("please")
        await run.pilot.press("enter")
        await run.until(lambda: run.turns == 1, "the end of the turn")
        assert images(server.last.body) == [("image/png", PICTURE)]
        assert sent(run)[0].text == f'Look: @"{path}" please'
        # One outside the workspace that is typed needs a confirmation.
        (typed := folder / "elsewhere.png").write_bytes(gif(3, 2))
        for answer, sent_too in (("n", []), ("y", [("image/gif", gif(3, 2))])):
            before = run.turns
            await run.submit(f"See @{typed}")
            await run.screen("ConfirmScreen")
            await run.see("outside the workspace")
            await run.pilot.press(answer)
            await run.until(lambda before=before: run.turns > before, "the end of the turn")  # type: ignore[misc]
            assert images(server.last.body) == [("image/png", PICTURE), *sent_too]


async def test_other_pastes_are_unchanged_and_a_refused_image_is_reported(folder: Path, server: WireServer) -> None:
    server.always(Turn("I see."))
    async with running(folder, server) as run:
        for text in (str(put(run, "a.py", b"x = 1")), "no path", "/usr/bin"):
            run.app.workbench.composer.draft = ""
            await paste(run, text)
            assert run.app.workbench.composer.draft == text
        # A refused image is a line words stay.
        root = run.runtime.workspace.root
        os.mkfifo(root / "pipe.png")
        put(run, "text.png", b"hello")
        with put(run, "huge.png", PICTURE[:60]).open("r+b") as huge:
            huge.truncate(200_000_000)
        (folder / "elsewhere.png").write_bytes(PICTURE)
        (root / "out.png").symlink_to(folder / "elsewhere.png")
        for name, line in REFUSED.items():
            run.app.clear_notifications()
            await run.submit(f"See @{name}")
            await run.until(lambda: len(run.app._notifications) == 1, line)
            (told,) = [one.message for one in run.app._notifications]
            assert line in told and "Nothing was sent" in told and "\n" not in told
            assert run.app.workbench.composer.draft == f"See @{name}" and server.requests == []
        # Images named in a folded paste are not sent.
        run.app.workbench.composer.draft = ""
        put(run, "shot.png")
        await paste(run, "see @shot.png\n" * 20)
        await run.pilot.press("enter")
        await run.until(lambda: run.turns == 1, "the end of the turn")
        assert images(server.last.body) == [] and "@shot.png" in sent(run)[0].text


REFUSED = {
    "missing.png": "There is no missing.png.",
    "pipe.png": "is not a regular file",
    "text.png": "is no PNG, JPEG, GIF or WebP",
    "huge.png": "is too large",
    "out.png": "leads out of the workspace",
}


async def test_images_left_out_for_a_model_are_reported_once(folder: Path, server: WireServer) -> None:
    server.insist(lambda body: error(400, "This model does not support image input") if images(body) else None)
    server.always(Turn("I cannot see it."))
    async with running(folder, server, size=(160, 45)) as run:
        put(run, "shot.png")
        await run.say("What is in @shot.png?")
        await run.see("The model accepts no images here", "I cannot see it.")
        notices = [event.text for event in run.app.require_session().log.events if isinstance(event, UserNotice)]
        assert sum("accepts no images" in text for text in notices) == 1


async def test_images_in_feedback_and_comments_are_sent_and_shown(folder: Path, server: WireServer) -> None:
    """Named or dropped; what is only quoted is somebody else's."""
    outside = folder / "two words.png"
    outside.write_bytes(gif(3, 2))
    async with running(folder, server, size=(160, 45)) as run:
        put(run, "shot.png")
        put(run, "private.png", png(7, 7))
        await stage(run, server)
        server.always(Turn("I see."))
        await run.review()
        review = run.app.workbench.review
        await run.pilot.press("f3", "c")
        await paste(run, str(outside), review.diff_pane.query_one("#comment").query_one(TextArea))
        await run.pilot.press("ctrl+s")
        # A denial with an image that cannot be used is not made.
        await run.review()
        await run.write_feedback("As in @missing.png", "ctrl+s")
        await run.see("There is no missing.png. P1 waits as it did")
        assert [one.state for one in run.proposals] == [ProposalState.PENDING] and run.turns == 1
        await run.review("r")
        field = review.feedback_field.query_one(TextArea)
        assert field.text == "As in @missing.png"
        field.text = ""
        await run.write("As in @shot.png\n> see @private.png")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: run.turns == 2, "the end of the turn")
        assert images(server.last.body) == [("image/png", PICTURE), ("image/gif", gif(3, 2))]
        (decided,) = [one for one in run.app.require_session().log.events if isinstance(one, ProposalDecided)]
        assert [image.name for image in decided.images] == ["shot.png", str(outside)]
        await run.see("As in @shot.png", "▣ shot.png", "1,280×720", "▣ ", "two words.png  3×2")


async def test_images_named_in_answers_are_not_attached(folder: Path, server: WireServer) -> None:
    async with running(folder, server) as run:
        put(run, "shot.png")
        composer = run.app.workbench.composer
        server.call("run_command", {"command": "touch x"})
        server.say("All right.")
        await run.submit("Do it")
        await run.until(lambda: run.reviewed and run.app.workbench.review.state.permission_request, "the question")
        await run.review()
        await run.write_feedback("Not so: @shot.png", "ctrl+s")
        await run.notified("The model gets only the name shot.png")
        await run.until(lambda: run.turns == 1, "the end of the turn")
        assert "Not so: @shot.png" in str(server.last.body) and images(server.last.body) == []
        # An answer with an image that cannot be used is not given.
        server.call("ask_user", {"question": "Which one?"})
        await run.say("ask me")
        await run.see("Which one?")
        before = len(server.requests)
        await run.submit("This: @missing.png")
        await run.notified("There is no missing.png")
        run.app.clear_notifications()
        await run.pilot.press("f4")
        await run.until(lambda: "There is no" not in run.text, "a review without the problem of the message")
        assert composer.draft == "This: @missing.png"
        assert run.app.require_session().question is not None and len(server.requests) == before
