"""Images in a session on every wire: sent with their message, refused in one line, told of truly."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.conversation.events import AssistantMessage, ContentPruned, ProposalDecided, UserMessage, UserNotice
from app.images.image import Image
from app.images.image_files import load_and_store_images
from app.images.mentions import find_mentioned_files
from app.llm.capabilities.profiles import MAX_AGE_SECONDS_BY_FIELD, read_learned_fields
from app.llm.client import ModelClient
from app.runtime.model_connection import LearnedProfileStore
from app.runtime.open_workspace import open_workspace
from app.runtime.unfinished_work import record_unrecorded_decisions
from app.storage.pruning import prune_workspace
from tests.oracles.reading import conversation, images
from tests.unit.conversation.test_wires import without_breakpoints
from tests.unit.images.pictures import gif, jpeg, png, webp
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.driving import FAST
from tests.wire.replies import Reply, Turn, document, error
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE, anthropic_error

each_wire = pytest.mark.parametrize("wire", ["chat", "anthropic", "responses"])
PICTURE = png(300, 200)


def opened(server: WireServer, folder: Path, wire: str = "chat", **settings: Any) -> Any:
    server.wires = {name: None if name == wire else NOT_THERE for name in server.wires}
    (folder / "workspace").mkdir(exist_ok=True)
    (folder / "workspace/greet.py").write_text(FILE)
    (folder / "workspace/shot.png").write_bytes(PICTURE)
    return bench(server, folder, wire=wire, retry=FAST, **settings)


@pytest.fixture
async def on(server: WireServer, tmp_path: Path) -> AsyncIterator[Bench]:
    """A session whose model sees whatever it is shown."""
    server.always(Turn("I see."))
    async with opened(server, tmp_path) as started:
        yield started
        started.check()


async def found_in(on: Bench, text: str) -> tuple[Image, ...]:
    return await load_and_store_images(
        on.runtime.workspace,
        on.runtime.proposals.put_blobs,
        find_mentioned_files(text),
        on.session.ports.model.profile.wire,
        lambda _: asyncio.sleep(0, True),
    )


async def show(on: Bench, text: str) -> None:
    await on.settled(on.session.send(text, images=await found_in(on, text)))
    on.check()


def notices(on: Bench) -> list[str]:
    return [event.text for event in on.events if isinstance(event, UserNotice)]


def refuses_images(reply: Reply) -> Callable[[dict[str, Any]], Reply | None]:
    return lambda body: reply if images(body) else None


@each_wire
async def test_an_image_is_sent_in_its_message(server: WireServer, tmp_path: Path, wire: str) -> None:
    server.always(Turn("A wide button."))
    async with opened(server, tmp_path, wire) as on:
        await show(on, "What is in @shot.png?")
        (on.root / "shot.png").unlink()
        await on.say("Make it narrow")
    async with opened(server, tmp_path, wire) as on:
        (on.root / "shot.png").write_bytes(jpeg(9, 9))
        await on.say("And now?")
        on.check()
    first, second, third = server.requests
    assert [images(request.body) for request in server.requests] == [[("image/png", PICTURE)]] * 3
    assert of_role(first, "user")[-1].endswith("What is in @shot.png?")
    before = [conversation(without_breakpoints(request.body)) for request in (first, second, third)]
    assert before[1][: len(before[0])] == before[0] and before[2][: len(before[1])] == before[1]


@each_wire
async def test_all_image_formats_are_sent_and_kept_in_closing(server: WireServer, tmp_path: Path, wire: str) -> None:
    server.turn("Editing.", calls=[edit()])
    server.say("Have a look.")
    async with opened(server, tmp_path, wire) as on:
        pictures = {"a.jpg": jpeg(), "b.gif": gif(), "c.webp": webp(), "misnamed.jpg": png(9, 9)}
        for name, data in pictures.items():
            (on.root / name).write_bytes(data)
        await show(on, " ".join(f"@{name}" for name in pictures))
    kinds = ["image/jpeg", "image/gif", "image/webp", "image/png"]
    assert images(server.requests[0].body) == list(zip(kinds, pictures.values(), strict=True))
    staging, closing = (conversation(without_breakpoints(request.body)) for request in server.requests)
    assert server.last.closing and closing[: len(staging)] == staging


UNSEEING = {
    "chat": [
        error(400, "Invalid content type. image_url is only supported by certain models."),
        error(400, "messages[1].content must be a string"),
        error(500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        error(404, "No endpoints found that support image input"),
        error(400, "unknown variant `image_url`, expected `text` at line 1 column 200"),
        error(400, "At most 0 image(s) may be provided in one prompt."),
        error(422, "Something else altogether"),
    ],
    "anthropic": [anthropic_error(400, "messages.0.content.0: this model does not support image input")],
    "responses": [error(400, "Invalid value: 'input_image'. This model does not support image inputs.")],
}


@pytest.mark.parametrize(
    ("wire", "refusal"), [(wire, refusal) for wire, refusals in UNSEEING.items() for refusal in refusals]
)
async def test_refused_images_are_left_out(server: WireServer, tmp_path: Path, wire: str, refusal: Reply) -> None:
    server.insist(refuses_images(refusal))
    server.always(Turn("I cannot see it."))
    async with opened(server, tmp_path, wire) as on:
        await show(on, "What is in @shot.png?")
        assert [len(images(request.body)) for request in server.requests] == [1, 0]
        told = of_role(server.last, "system")[-1]
        assert '"shot.png"' in told and "this model accepts no images" in told
        assert on.stopped == "answer"
        assert sum("accepts no images here" in text for text in notices(on)) == 1
        await on.say("Then guess")
        assert len(server.requests) == 3, "it is remembered"
        endpoint = on.session.ports.model.endpoint
        beliefs = read_learned_fields(LearnedProfileStore(on.runtime.sessions), endpoint.base_url, endpoint.model)
        (belief,) = [one for one in beliefs if one.field == "images_supported"]
        assert belief.value is False and belief.is_valid(belief.since + 3_600)
        assert not belief.is_valid(belief.since + MAX_AGE_SECONDS_BY_FIELD["images_supported"])
        on.check()


async def test_no_image_is_sent_if_the_model_is_known_to_take_none(server: WireServer, tmp_path: Path) -> None:
    server.always(Turn("I cannot see it."))
    async with opened(server, tmp_path, profile={"images_supported": False}) as on:
        await show(on, "What is in @shot.png?")
        assert [len(images(request.body)) for request in server.requests] == [0]
        (line,) = [text for text in notices(on) if "accepts no images" in text]
        assert "test-model" in line and "shot.png" in line and "/model" in line and "\n" not in line
    async with opened(server, tmp_path) as on:
        await on.say("Another model: and now?")
    assert [len(images(request.body)) for request in server.requests] == [0, 1], "it is in the log all the same"


@pytest.mark.parametrize(
    ("entry", "sent"),
    [
        ({"architecture": {"input_modalities": ["text"]}}, 0),
        ({"architecture": {"input_modalities": ["text", "image"]}}, 1),
        ({"capabilities": {"vision": False}}, 0),
        ({"capabilities": {"image_input": {"supported": False}}}, 0),
        ({"capabilities": {"image_input": {"supported": True}}}, 1),
        ({"capabilities": ["completion"]}, 1),
        ({}, 1),
    ],
)
async def test_an_image_makes_the_client_read_the_model_list(
    server: WireServer, on: Bench, entry: dict[str, Any], sent: int
) -> None:
    server.route("/v1/models", document({"data": [{"id": "test-model", **entry}]}))
    await on.say("Hello")
    assert "/v1/models" not in [visit.path for visit in server.visits]
    await show(on, "What is in @shot.png?")
    assert len(images(server.last.body)) == sent and len(server.requests) == 2
    assert len([text for text in notices(on) if "accepts no images" in text]) == 1 - sent


async def test_profile_setting_overrides_the_model_list(server: WireServer, tmp_path: Path) -> None:
    entry = {"id": "test-model", "architecture": {"input_modalities": ["text"]}}
    server.route("/v1/models", document({"data": [entry]}))
    server.always(Turn("I see."))
    async with opened(server, tmp_path, profile={"images_supported": True}) as on:
        model = on.session.ports.model
        assert isinstance(model, ModelClient)
        assert [one.id for one in await model.list_models()] == ["test-model"]
        await show(on, "What is in @shot.png?")
    assert len(images(server.last.body)) == 1


async def test_only_the_refused_image_is_left_out(server: WireServer, on: Bench) -> None:
    bad = gif(9, 9)
    refusal = error(400, "messages.2: Could not process image")
    server.insist(lambda body: refusal if any(data == bad for _, data in images(body)) else None)
    (on.root / "bad.gif").write_bytes(bad)
    await show(on, "What is in @shot.png?")
    await show(on, "And in @bad.gif?")
    await on.say("Go on")
    assert [data for _, data in images(server.last.body)] == [PICTURE]
    assert any('"bad.gif"' in text and "server refused it" in text for text in of_role(server.last, "system"))
    assert len(server.requests) == 4 and on.stopped == "answer"


async def test_another_refusal_does_not_mark_images_as_unsupported(server: WireServer, on: Bench) -> None:
    server.always(error(400, "The sky is too blue."))
    await show(on, "What is in @shot.png?")
    assert [len(images(request.body)) for request in server.requests] == [1, 0]
    assert on.stopped == "failed"
    server.always(Turn("I see."))
    await on.say("Again")
    assert len(images(server.last.body)) == 1


async def test_images_that_were_seen_are_left_out_first_in_a_full_context(server: WireServer, on: Bench) -> None:
    await show(on, "What is in @shot.png?")
    await on.settled(on.session.compact())
    assert [event.images for event in on.events if isinstance(event, ContentPruned)] != []
    await assert_image_was_left_out(server, on)


async def assert_image_was_left_out(server: WireServer, on: Bench) -> None:
    await on.say("And now?")
    assert images(server.last.body) == []
    assert any("to make room in the context" in text for text in of_role(server.last, "system"))
    assert any("Left out to make room" in text and "shot.png" in text for text in notices(on))


async def test_an_image_in_a_queued_message_is_sent_with_it(server: WireServer, on: Bench) -> None:
    found = await found_in(on, "@shot.png")
    await on.session.send("Hello")
    await on.settled(on.session.send("And @shot.png?", images=found))
    said = [event for event in on.events if isinstance(event, UserMessage)]
    assert [len(one.images) for one in said] == [0, 1]
    assert sum(isinstance(event, AssistantMessage) for event in on.events) == 2
    assert images(server.last.body) == [("image/png", PICTURE)]


@each_wire
async def test_an_image_in_feedback_is_sent_with_its_text(server: WireServer, tmp_path: Path, wire: str) -> None:
    server.turn("Editing.", calls=[edit()])
    server.say("Have a look.")
    words = "Not so:\n@shot.png shows it.\n"
    async with opened(server, tmp_path, wire) as on:
        await on.say("Change it")
        (proposal,) = on.runtime.service.all()
        server.always(Turn("I see."))
        await on.settled(on.session.deny(proposal.id, feedback=words, images=await found_in(on, words)))
        (on.root / "shot.png").unlink()
        await on.say("Go on")
        on.check()
    denied, later = server.requests[-2:]
    assert [images(request.body) for request in (denied, later)] == [[("image/png", PICTURE)]] * 2
    assert of_role(denied, "user")[-1] == words and sum("@shot.png" in text for _, text in denied.said) == 1
    (told,) = [text for role, text in denied.said if role == "system" and "denied proposal" in text]
    assert "shot.png" not in told
    before = [conversation(without_breakpoints(request.body)) for request in (denied, later)]
    assert before[1][: len(before[0])] == before[0]


async def test_a_refused_image_of_the_user_is_reported_to_model_and_user(server: WireServer, tmp_path: Path) -> None:
    async with opened(server, tmp_path, profile={"images_supported": False}) as on:
        await on.say("Change it", edit())
        server.turn("", calls=[("ask_user", {"question": "Which one?"})])
        server.always(Turn("I cannot see it."))
        image = await found_in(on, "@shot.png")
        await on.settled(on.session.deny("P1", feedback="As in @shot.png", images=image))
        assert images(server.last.body) == []
        assert any('"shot.png"' in text and "accepts no images" in text for text in of_role(server.last, "system"))
        (line,) = [text for text in notices(on) if "accepts no images" in text]
        assert "shot.png" in line and on.stopped == "question"
        await on.settled(on.session.answer("This: @shot.png", images=image))
        assert len([text for text in notices(on) if "accepts no images" in text]) == 2
        on.check()


async def test_an_image_in_feedback_is_left_out_first_and_not_pruned(server: WireServer, on: Bench) -> None:
    server.turn("Editing.", calls=[edit()])
    await on.say("Change it")
    (image,) = await found_in(on, "@shot.png")
    fork = on.runtime.sessions.fork(on.session.id).id
    await on.settled(on.session.deny("P1", feedback="As in @shot.png", images=(image,)))
    told = [one for one in on.runtime.sessions.events(fork) if isinstance(one, ProposalDecided)]
    assert [(one.feedback, one.images) for one in told] == [("", ())], "the words are for the one model"
    with on.runtime.database.transaction() as connection:
        connection.execute("UPDATE blobs SET added = 0")
        connection.execute("DELETE FROM proposals")
    prune_workspace(on.runtime.database, on.runtime.sessions.workspace, 0)
    assert on.runtime.proposals.read_blob(image.sha256) == PICTURE
    await on.settled(on.session.compact())
    await assert_image_was_left_out(server, on)


async def test_a_decision_recorded_after_a_crash_keeps_its_images(server: WireServer, tmp_path: Path) -> None:
    server.turn("Editing.", calls=[edit()])
    server.say("Have a look.")
    async with opened(server, tmp_path) as on:
        await on.say("Change it")
        found = await found_in(on, "@shot.png")
        on.runtime.service.deny("P1", None, "As in @shot.png", images=found)
    async with opened(server, tmp_path) as on:
        record_unrecorded_decisions(on.runtime, patience=0)
        await on.settled(on.session.load_external_events())
        (decided,) = [event for event in on.events if isinstance(event, ProposalDecided)]
        assert (decided.feedback, decided.images) == ("As in @shot.png", found)


class TestCommandLine:
    """`signoff run`."""

    @pytest.fixture(autouse=True)
    def workspace(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "here").mkdir()
        (tmp_path / "here/shot.png").write_bytes(PICTURE)
        (tmp_path / "elsewhere.png").write_bytes(jpeg(9, 9))
        monkeypatch.chdir(tmp_path / "here")

    def run(self, server: WireServer, *words: str) -> int:
        server.always(Turn("I see."))
        return main(["run", *words, "--base-url", server.base_url, "--model", "m"])

    def test_images_come_from_the_option_and_from_the_prompt(self, server: WireServer) -> None:
        assert self.run(server, "Compare @shot.png", "--image", "../elsewhere.png", "--image", "shot.png") == 0
        assert [data for _, data in images(server.last.body)] == [jpeg(9, 9), PICTURE]

    def test_a_prompt_attaches_no_missing_image_and_none_outside_the_workspace(
        self, server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name, why in (("new.png", "There is no new.png."), (f"{tmp_path}/elsewhere.png", "--image")):
            assert self.run(server, f"Make @{name}") == 0
            assert images(server.last.body) == [] and why in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["missing.png", "text.txt"])
    def test_the_image_option_with_another_file_is_wrong_usage(
        self, server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        (tmp_path / "here/text.txt").write_text("hello")
        assert self.run(server, "See", "--image", name) == 2
        err = capsys.readouterr().err
        assert name in err and "Traceback" not in err and server.requests == []

    def test_feedback_of_a_denial_can_name_an_image(
        self, server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "here/greet.py").write_text(FILE)
        server.turn("Editing.", calls=[edit()])
        assert self.run(server, "Change it") == 0
        assert main(["deny", "P1", "-m", f"As in @shot.png, not @new.png nor @{tmp_path}/elsewhere.png"]) == 0
        assert "There is no new.png." in capsys.readouterr().err
        assert self.run(server, "Go on", "--continue") == 0
        assert images(server.last.body) == []
        server.turn("Editing.", calls=[edit()])
        assert self.run(server, "Change it", "--continue") == 0
        assert main(["deny", "P2", "-m", f"As in @shot.png, not @{tmp_path}/elsewhere.png"]) == 0
        assert "is only named, since it is outside the workspace." in capsys.readouterr().err
        assert self.run(server, "Go on", "--continue") == 0
        assert images(server.last.body) == [("image/png", PICTURE)]
        capsys.readouterr()
        assert main(["log", "--verify"]) == 0
        assert main(["export", "P2", "--review"]) == 0
        assert 'attached "shot.png"' in capsys.readouterr().out

    def test_an_export_names_images_and_writes_them_only_with_the_option(
        self, server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(server, "See @shot.png") == 0
        capsys.readouterr()
        assert main(["export", "latest"]) == 0
        assert '- image "shot.png": 300×200,' in (text := capsys.readouterr().out) and "SHA-256" in text
        assert main(["export", "latest", "--format", "json", "--images", str(tmp_path / "out")]) == 0
        (message,) = [one for one in json.loads(capsys.readouterr().out) if one["type"] == "user_message"]
        (image,) = message["images"]
        assert (tmp_path / "out" / f"{image['sha256']}.png").read_bytes() == PICTURE
        runtime = open_workspace(tmp_path / "here", {}, {})
        with runtime.database.transaction() as connection:
            connection.execute("DELETE FROM blobs")
        runtime.close()
        assert main(["export", "latest", "--images", str(tmp_path / "pruned")]) == 0
        assert list((tmp_path / "pruned").iterdir()) == []
