"""Images in tool results: the model sees them if the protocol supports them; otherwise it gets a note."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import ContentPruned, ToolResult
from app.conversation.payload.compaction_plan import estimate_tokens_without_images
from app.images.image_files import load_and_store_images
from app.images.mentions import find_mentioned_files
from app.storage.pruning import prune_workspace
from tests.oracles.reading import images, images_of_results
from tests.servers.stage import ServerSession, open_server_session, player
from tests.unit.images.pictures import png
from tests.wire.endpoints import OBEYS
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE

PICTURE = png(300, 200)
SHOT: tuple[str, dict[str, Any]] = (
    "play__give",
    {"content": [{"type": "image", "data": base64.b64encode(PICTURE).decode()}]},
)
SHOWING = ["anthropic", "responses"]


def open_session_on_wire(wire: WireServer, folder: Path, name: str, **flags: Any) -> Any:
    """Open a session in which only one wire is available."""
    wire.wires = {each: None if each == name else NOT_THERE for each in wire.wires}
    return open_server_session(wire, folder, {"play": player()}, wire=name, behaviour=OBEYS, **flags)


def result_of(on: ServerSession) -> ToolResult:
    return on.results[-1]


@pytest.mark.parametrize("name", SHOWING)
async def test_a_result_image_stays_in_each_request(name: str, wire: WireServer, tmp_path: Path) -> None:
    async with open_session_on_wire(wire, tmp_path, name) as on:
        assert await on.run_turn(SHOT) == '[image "play__give 1": 300×200, 138 bytes]'
        (image,) = result_of(on).images
        assert images_of_results(wire.last.body) == [PICTURE]
        # They are not sent as images of the user.
        assert images(wire.last.body) == []
        await on.run_turn(text="And now?")
        assert images_of_results(wire.last.body) == [PICTURE]
        await on.session.log.append(ContentPruned(images=(result_of(on).id,)))
        await on.run_turn(text="And now?")
        assert images_of_results(wire.last.body) == []
        assert "Not shown to you, to make room in the context" in json.dumps(wire.last.body)
        # An image that no session refers to is pruned; the proposals refer to this one.
        with on.host.runtime.database.transaction() as connection:
            connection.execute("UPDATE blobs SET added = 0")
        prune_workspace(on.host.runtime.database, on.host.runtime.name, unused_since=0.0)
        assert on.host.runtime.proposals.read_blob(image.sha256) == PICTURE


async def test_unsendable_result_images_become_a_note_and_displace_no_others(
    wire: WireServer, tmp_path: Path
) -> None:
    async with open_session_on_wire(wire, tmp_path, "chat") as on:
        await on.run_turn(SHOT)
        assert "image_url" not in json.dumps(wire.last.body)
        (result_text,) = [each["content"] for each in wire.last.body["messages"] if each["role"] == "tool"]
        first, second = result_text.split("\n")
        assert first == result_of(on).text
        assert second.startswith("[Not shown to you, since this protocol has no place for an image")
        (on.root / "shot.png").write_bytes(png(9, 9))
        session, runtime = on.session, on.host.runtime
        sent = await load_and_store_images(
            runtime.workspace,
            runtime.proposals.put_blobs,
            find_mentioned_files("@shot.png"),
            "chat",
            lambda _: asyncio.sleep(0, True),
        )
        wire.say("I see.")
        await session.send("Look at @shot.png", images=sent)
        await session.wait_until_idle()
        ten = ("play__give", {"content": SHOT[1]["content"] * 10})
        await on.run_turn(ten, ten)
        assert images(wire.last.body) == [("image/png", png(9, 9))]


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "tool_result", "content": [{"type": "image", "source": {"data": "x" * 100_000}}]}]},
        {"type": "function_call_output", "output": [{"type": "input_image", "image_url": "x" * 100_000}]},
    ],
)
def test_image_tokens_are_counted_by_pixels(message: dict[str, Any]) -> None:
    assert estimate_tokens_without_images(message) < 100


async def test_model_without_image_support_gets_a_note(wire: WireServer, tmp_path: Path) -> None:
    async with open_session_on_wire(wire, tmp_path, "anthropic", profile={"images_supported": False}) as on:
        await on.run_turn(SHOT)
        assert images_of_results(wire.last.body) == []
        assert "Not shown to you, since this model accepts no images" in json.dumps(wire.last.body)
