"""Select the images of the history that a request contains, and add notes about the others.

An image is sent as part of its message, each time with the same bytes. If it is not sent, a note says why; otherwise
the model would guess what it shows. Images of a tool are sent in the result of the call if the protocol allows it.
Chat completions do not: a separate message with the image would have to be a user message, which the user did not
write, because system messages cannot contain images either.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.conversation.payload.history import HistoryItem, ModelResponse, ProgramNote, UserHistoryItem
from app.conversation.payload.tool_calls import CallRecord
from app.copies import replace
from app.images.image import Image, image_refusal_reason, indexes_over_request_limits, join_quoted_names
from app.llm.values.endpoint import EndpointProfile
from app.llm.wires.wire import AttachedImage

_ATTACH_AGAIN_ADVICE = "If you need to see what is missing, ask the user to attach it again."
_ADMIT_ADVICE = "Where that matters, say so, instead of guessing what is shown."
_UNSENT_REASONS = {
    "pruned": ("to make room in the context", _ATTACH_AGAIN_ADVICE),
    "many": ("since a request takes only so many images", _ATTACH_AGAIN_ADVICE),
    "gone": ("since the content is not stored any more", _ATTACH_AGAIN_ADVICE),
    "refused": ("since the server refused it", _ADMIT_ADVICE),
    "large": ("since it is too large for this model", _ADMIT_ADVICE),
    "unfit": ("since this protocol has no place for an image in the result of a tool", _ADMIT_ADVICE),
    "blind": ("since this model accepts no images", _ADMIT_ADVICE),
}
"""Reasons why an image is not sent, each with the text and the advice for the model."""


def attach_history_images_or_notes(
    items: Sequence[HistoryItem], profile: EndpointProfile, contents: Mapping[str, str]
) -> tuple[list[HistoryItem], tuple[Image, ...]]:
    """Return the history with the images that are sent and notes about the others.

    Args:
        contents: the bytes of the images as base64, by SHA-256.

    Returns:
        The items, and the sent images in order.
    """
    image_reasons = pair_images_with_unsent_reasons(collect_history_images(items), profile, contents)
    return attach_images_or_reasons(items, image_reasons, contents), tuple(
        image for image, reason in image_reasons if not reason
    )


def pair_images_with_unsent_reasons(
    history_images: Sequence["HistoryImage"], profile: EndpointProfile, contents: Mapping[str, str]
) -> list[tuple[Image, str]]:
    """Return the images of a history in order, each with the reason why it is not sent; empty if it is sent."""
    reasons = [_unsent_reason(history_image, profile, contents) for history_image in history_images]
    newest_first = [position for position, reason in enumerate(reasons) if not reason][::-1]
    for position in indexes_over_request_limits(history_images[position].image for position in newest_first):
        reasons[newest_first[position]] = "many"
    return [(history_image.image, reason) for history_image, reason in zip(history_images, reasons, strict=True)]


def attach_images_or_reasons(
    items: Sequence[HistoryItem], image_reasons: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> list[HistoryItem]:
    """Return the items with the sent images attached, and for each other image a note with the reason."""
    remaining = iter(image_reasons)
    attached: list[HistoryItem] = []
    for item in items:
        match item:
            case UserHistoryItem() if item.images:
                attached += _attach_to_user_message(item, [next(remaining) for _ in item.images], contents)
            case ModelResponse() if any(record.images for record in item.records):
                records = [
                    _attach_to_record(call_record, [next(remaining) for _ in call_record.images], contents)
                    for call_record in item.records
                ]
                attached.append(replace(item, records=records))
            case _:
                attached.append(item)
    return attached


class HistoryImage(NamedTuple):
    """An image in the history, whether it was left out to save room, and whether a tool returned it."""

    image: Image
    pruned: bool
    of_tool: bool = False


def collect_history_images(items: Iterable[HistoryItem]) -> list[HistoryImage]:
    """Return the images of a history, in order."""
    return [history_image for item in items for history_image in _images_of_item(item)]


def _images_of_item(item: HistoryItem) -> Iterator[HistoryImage]:
    match item:
        case UserHistoryItem():
            yield from (HistoryImage(image, item.pruned) for image in item.images)
        case ModelResponse():
            for record in item.records:
                yield from (HistoryImage(image, record.images_pruned, True) for image in record.images)


def _attach_to_record(
    record: CallRecord, image_reasons: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> CallRecord:
    """Return a call with the sent images of its result and a text about the others."""
    notes = [
        f"[Not shown to you, {why}: {join_quoted_names(missing)}.]"
        for reason, (why, _) in _UNSENT_REASONS.items()
        if (missing := [image for image, unsent_reason in image_reasons if unsent_reason == reason])
    ]
    return replace(record, attachments=_make_attachments(image_reasons, contents), unshown="\n".join(notes))


def _make_attachments(
    image_reasons: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> tuple[AttachedImage, ...]:
    return tuple(
        AttachedImage(image.media_type, contents[image.sha256]) for image, reason in image_reasons if not reason
    )


def _attach_to_user_message(
    message: UserHistoryItem, image_reasons: Sequence[tuple[Image, str]], contents: Mapping[str, str]
) -> Iterator[HistoryItem]:
    """Yield the user's message with the sent images, and a note for each reason why others are not sent."""
    sent = _make_attachments(image_reasons, contents)
    if message.text.strip() or sent:
        yield replace(message, attachments=sent)
    for reason, (why, advice) in _UNSENT_REASONS.items():
        if missing := [image for image, unsent_reason in image_reasons if unsent_reason == reason]:
            yield ProgramNote(
                f"Attached by the user but not shown to you, {why}: {join_quoted_names(missing)}. {advice}"
            )


def _unsent_reason(history_image: HistoryImage, profile: EndpointProfile, contents: Mapping[str, str]) -> str:
    if history_image.pruned:
        return "pruned"
    gone = "" if history_image.image.sha256 in contents else "gone"
    return image_unsent_reason_code(history_image.image, profile, from_tool=history_image.of_tool) or gone


def image_unsent_reason_code(image: Image, profile: EndpointProfile, *, from_tool: bool = False) -> str:
    """Return why an endpoint is not sent an image, as one word such as `large`; empty if it is sent."""
    if not profile.accepts_images:
        return "blind"
    if from_tool and profile.wire == "chat":
        return "unfit"
    if image.sha256 in profile.refused_images:
        return "refused"
    if image_refusal_reason(image, profile.wire):
        return "large"
    return ""
