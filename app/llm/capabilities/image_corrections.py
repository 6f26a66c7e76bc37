"""What a refusal teaches about images: that the model takes none, or that one of them is no good."""

import re
from collections.abc import Iterator

from app.llm.capabilities.correction import Correction, Rule, changed
from app.llm.capabilities.profile import Profile
from app.llm.failures.errors import Failure
from app.llm.types import Payload

_BAD_IMAGE = re.compile(
    r"(?:could not|unable to|failed to|cannot) (?:process|load|decode|identify) (?:the )?(?:input )?image|"
    r"invalid[ _]image|image_parse_error|unsupported image|(?:image|url).{0,40}base64|base64.{0,40}image|"
    r"(?:image|media).{0,60}(?:exceed|too large|too big|too small|maximum|max allowed|corrupt|unsupported format|"
    r"cannot be (?:decoded|identified)|media[ _]type|does not (?:represent|match))",
    re.IGNORECASE | re.DOTALL,
)
"""The server takes images, but not this one."""
_SAYS_SO = re.compile(
    r"(?:images?\b|image_url|\bvision\b|multi-?modal).{0,80}"
    r"(?:not support|n't support|unsupported|not enabled|not available|only supported|not allowed|not accept)|"
    r"(?:not|n't|no endpoints found that) (?:support|accept|take).{0,60}(?:image|vision|multi-?modal)|"
    r"mmproj|at most 0 image|required for image|not a (?:vision|multi-?modal)",
    re.IGNORECASE | re.DOTALL,
)
"""It says that it takes none."""
_SPEAKS_OF_IT = re.compile(
    r"image|\bvision\b|multi-?modal|content.{0,60}(?:must be|should be|valid|expected|not) a? ?(?:string|str)\b|"
    r"expected (?:a )?string|content.{0,40}(?:array|list|sequence)|unknown variant|cannot unmarshal array",
    re.IGNORECASE | re.DOTALL,
)
"""It speaks of images, or of a message that is more than a text."""
_ITS_OWN_FAULT = 500
_UNREADABLE = (400, 415, 422)


def _one_refused(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    if payload.images and _BAD_IMAGE.search(failure.text):
        names = [image.sha256 for image in payload.images]
        for refused in (names[-1:], names):
            notice = "The server refused an image; it goes without, and the model is told so."
            known = [name for name in profile.refused_images if name not in refused]
            yield changed(
                f"image:{len(refused)}", profile, notice, refused_images=[*known, *dict.fromkeys(refused)][-_MOST:]
            )


def _none_taken(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    if not payload.images:
        return
    clear = failure.status is not None and failure.status < _ITS_OWN_FAULT and _SPEAKS_OF_IT.search(failure.text)
    if clear or _SAYS_SO.search(failure.text):
        yield _without(profile)


def _all_else_failed(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    """A history with an image that some server refuses in words of its own would never be answered again."""
    if payload.images and failure.status in _UNREADABLE:
        yield _without(profile)


def _without(profile: Profile) -> Correction:
    notice = "The model takes no images here: it goes on without them, and is told so. /model changes the model."
    return changed("images", profile, notice, images_supported=False)


_MOST = 50
"""Refused images that are remembered."""
IMAGE_RULES: tuple[Rule, ...] = (_one_refused, _none_taken)
"""Before those that would change something else for a word that such a refusal has, too."""
LAST_IMAGE_RULES: tuple[Rule, ...] = (_all_else_failed,)
