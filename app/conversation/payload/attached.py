"""Which images of the history a request carries, and what the model is told of those that it does not.

An image belongs to the message that it came with and goes out as part of it, each time with the same bytes. Where it
does not go out, the program says so and why: else the model would guess what it shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.conversation.payload.history import Item, Note, Words
from app.images.image import Image, names_of
from app.images.limits import refusal, too_many
from app.llm.capabilities.profile import Profile
from app.llm.wires.items import Attachment

_AGAIN = "If you need to see what is missing, ask the user to attach it again."
_SAY_SO = "Where that matters, say so, instead of guessing what is shown."
_REASONS = {
    "pruned": ("to make room in the context", _AGAIN),
    "many": ("since a request takes only so many images", _AGAIN),
    "gone": ("since the content is not stored any more", _AGAIN),
    "refused": ("since the server refused it", _SAY_SO),
    "large": ("since it is too large for this model", _SAY_SO),
    "blind": ("since this model takes no images", _SAY_SO),
}
"""Why an image does not go out, and what the model is to make of it."""


def with_attachments(
    items: Sequence[Item], profile: Profile, contents: Mapping[str, str]
) -> tuple[list[Item], tuple[Image, ...]]:
    """The history with the images that go out, and with notes on the others.

    Args:
        items: the history.
        profile: of the endpoint.
        contents: the bytes of the images as base64, by their SHA-256.

    Returns:
        The items, and the images that go out, in order.
    """
    images = [(item, image) for item in items if isinstance(item, Words) for image in item.images]
    if not images:
        return list(items), ()
    reasons = [_reason(image, item, profile, contents) for item, image in images]
    newest_first = [place for place, reason in enumerate(reasons) if not reason][::-1]
    for place in too_many(images[place][1] for place in newest_first):
        reasons[newest_first[place]] = "many"
    judged = iter(zip((image for _, image in images), reasons, strict=True))
    written: list[Item] = []
    for item in items:
        if isinstance(item, Words) and item.images:
            written += _shown(item, [next(judged) for _ in item.images], contents)
        else:
            written.append(item)
    return written, tuple(image for (_, image), reason in zip(images, reasons, strict=True) if not reason)


def _shown(words: Words, judged: Sequence[tuple[Image, str]], contents: Mapping[str, str]) -> Iterator[Item]:
    """What the user said with the images that go out, and a note for each reason why some do not."""
    sent = tuple(Attachment(image.media_type, contents[image.sha256]) for image, reason in judged if not reason)
    if words.text.strip() or sent:
        yield replace(words, attachments=sent)
    for reason, (why, advice) in _REASONS.items():
        if missing := [image for image, found in judged if found == reason]:
            yield Note(f"Attached by the user but not shown to you, {why}: {names_of(missing)}. {advice}")


def _reason(image: Image, words: Words, profile: Profile, contents: Mapping[str, str]) -> str:
    """Why an image does not go out; empty if it does."""
    if words.pruned:
        return "pruned"
    return unsent(image, profile) or ("" if image.sha256 in contents else "gone")


def unsent(image: Image, profile: Profile) -> str:
    """Why an endpoint is not sent an image; empty if it may be."""
    if not profile.takes_images:
        return "blind"
    if image.sha256 in profile.refused_images:
        return "refused"
    if refusal(image, profile.wire):
        return "large"
    return ""
