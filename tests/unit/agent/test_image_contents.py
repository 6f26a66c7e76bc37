"""The bytes of images, as a request carries them."""

from app.agent.request_payload import ImageContents
from app.conversation.events import UserMessage
from app.llm.values.profile import Profile
from tests.unit.conversation.test_images import image


async def test_an_image_that_the_store_has_no_more_is_left_out_and_the_others_go_out() -> None:
    kept = {"b" * 64: b"png"}
    contents = ImageContents(kept.__getitem__)
    contents.apply(UserMessage(id=1, text="", images=(image(sha256="a" * 64), image(sha256="b" * 64))))
    assert await contents.load(Profile()) == {"b" * 64: "cG5n"}
