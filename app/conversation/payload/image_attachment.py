"""Select the images of the history that a request contains, and add notes about the others.

An image is sent as part of its message, each time with the same bytes. If it is not sent, a note says why; otherwise
the model would guess what it shows. Images of a tool are sent in the result of the call if the protocol allows it.
Chat completions do not: a separate message with the image would have to be a user message, which the user did not
write, because system messages cannot contain images either.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.conversation.payload.history import HistoryItem, ModelResponse, ProgramNote, UserHistoryItem
from app.conversation.payload.tool_calls import CallRecord
from app.images.image import Image, image_refusal_reason, positions_over_limit, quote_names
from app.llm.values.endpoint import Profile
from app.llm.wires.wire import AttachedImage

_AGAIN = "If you need to see what is missing, ask the user to attach it again."
_SAY_SO = "Where that matters, say so, instead of guessing what is shown."
_REASONS = {
    "pruned": ("to make room in the context", _AGAIN),
    "many": ("since a request takes only so many images", _AGAIN),
    "gone": ("since the content is not stored any more", _AGAIN),
    "refused": ("since the server refused it", _SAY_SO),
    "large": ("since it is too large for this model", _SAY_SO),
    "unfit": ("since this protocol has no place for an image in the result of a tool", _SAY_SO),
    "blind": ("since this model takes no images", _SAY_SO),
}
"""Reasons why an image is not sent, each with the text and the advice for the model."""


def attach_history_images(
    items: Sequence[HistoryItem], profile: Profile, contents: Mapping[str, str]
) -> tuple[list[HistoryItem], tuple[Image, ...]]:
    """Return the history with the images that are sent and notes about the others.

    Args:
        contents: the bytes of the images as base64, by SHA-256.

    Returns:
        The items, and the sent images in order.
    """
    judged = find_unsent_reasons(history_images(items), profile, contents)
    return attach_images(items, judged, contents), tuple(image for image, reason in judged if not reason)


def find_unsent_reasons(
    carried: Sequence["HistoryImage"], profile: Profile, contents: Mapping[str, str]
) -> list[tuple[Image, str]]:
    """Return the images of a history in order, each with the reason why it is not sent; empty if it is sent."""
    reasons = [_reason(each, profile, contents) for each in carried]
    newest_first = [place for place, reason in enumerate(reasons) if not reason][::-1]
    for place in positions_over_limit(carried[place].image for place in newest_first):
        reasons[newest_first[place]] = "many"
    return [(each.image, reason) for each, reason in zip(carried, reasons, strict=True)]


def attach_images(
    items: Sequence[HistoryItem], judged: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> list[HistoryItem]:
    """Return the items with the images that are sent and notes about the others."""
    left = iter(judged)
    written: list[HistoryItem] = []
    for item in items:
        match item:
            case UserHistoryItem() if item.images:
                written += _shown(item, [next(left) for _ in item.images], contents)
            case ModelResponse() if any(record.images for record in item.records):
                records = [_with_images(one, [next(left) for _ in one.images], contents) for one in item.records]
                written.append(replace(item, records=records))
            case _:
                written.append(item)
    return written


class HistoryImage(NamedTuple):
    """An image of the history."""

    image: Image
    pruned: bool
    of_tool: bool = False


def history_images(items: Iterable[HistoryItem]) -> list[HistoryImage]:
    """Return the images of a history, in order."""
    return [each for item in items for each in _carried(item)]


def _carried(item: HistoryItem) -> Iterator[HistoryImage]:
    match item:
        case UserHistoryItem():
            yield from (HistoryImage(image, item.pruned) for image in item.images)
        case ModelResponse():
            for record in item.records:
                yield from (HistoryImage(image, record.images_pruned, True) for image in record.images)


def _with_images(record: CallRecord, judged: Sequence[tuple[Image, str]], contents: Mapping[str, str]) -> CallRecord:
    """Return a call with the sent images of its result and a text about the others."""
    said = [
        f"[Not shown to you, {why}: {quote_names(missing)}.]"
        for reason, (why, _) in _REASONS.items()
        if (missing := [image for image, found in judged if found == reason])
    ]
    return replace(record, attachments=_sent(judged, contents), unshown="\n".join(said))


def _sent(judged: Sequence[tuple[Image, str]], contents: Mapping[str, str]) -> tuple[AttachedImage, ...]:
    return tuple(AttachedImage(image.media_type, contents[image.sha256]) for image, reason in judged if not reason)


def _shown(
    words: UserHistoryItem, judged: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> Iterator[HistoryItem]:
    """Yield the user's message with the sent images, and a note for each reason why others are not sent."""
    sent = _sent(judged, contents)
    if words.text.strip() or sent:
        yield replace(words, attachments=sent)
    for reason, (why, advice) in _REASONS.items():
        if missing := [image for image, found in judged if found == reason]:
            yield ProgramNote(f"Attached by the user but not shown to you, {why}: {quote_names(missing)}. {advice}")


def _reason(carried: HistoryImage, profile: Profile, contents: Mapping[str, str]) -> str:
    """Return why an image is not sent; empty if it is sent."""
    if carried.pruned:
        return "pruned"
    gone = "" if carried.image.sha256 in contents else "gone"
    return image_unsent_reason(carried.image, profile, of_tool=carried.of_tool) or gone


def image_unsent_reason(image: Image, profile: Profile, *, of_tool: bool = False) -> str:
    """Return why an endpoint is not sent an image; empty if it is sent."""
    if not profile.accepts_images:
        return "blind"
    if of_tool and profile.wire == "chat":
        return "unfit"
    if image.sha256 in profile.refused_images:
        return "refused"
    if image_refusal_reason(image, profile.wire):
        return "large"
    return ""
