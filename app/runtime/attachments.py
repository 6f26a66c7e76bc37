"""Attaches images to a message: finds the files that it names, and stores their bytes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from app.images.image import Image
from app.images.image_files import Candidate, ImageFiles
from app.images.mentions import Mention
from app.runtime.open_workspace import OpenWorkspace

ConfirmAttachment = Callable[[Candidate], Awaitable[bool]]
"""Asks the user whether a doubtful file is to be sent."""


async def load_attachments(
    runtime: OpenWorkspace,
    mentions: Iterable[Mention],
    wire: str,
    confirm: ConfirmAttachment,
    named: Sequence[str] = (),
) -> tuple[Image, ...]:
    """Return the images of a message; their bytes are in the store then.

    Args:
        wire: what the model speaks, on which the limits depend.
        confirm: Asks about files outside the workspace and files that look like secrets.
        named: paths of files that are given as images outside the message.

    Raises:
        NotAttached: one of them cannot be sent; nothing was kept then.
    """
    files = ImageFiles(runtime.workspace)
    candidates = await asyncio.to_thread(lambda: files.mentioned([*mentions, *files.given(named)]))
    chosen = [one for one in candidates if not one.doubt or await confirm(one)]
    return await asyncio.to_thread(_load_and_store, runtime, files, chosen, wire)


async def pasted_images(runtime: OpenWorkspace, text: str) -> list[Mention]:
    """Return the images that a pasted text consists of; empty if it has any other text."""
    paths = await asyncio.to_thread(ImageFiles(runtime.workspace).pasted, text)
    return [Mention(path, dropped=True) for path in paths]


def _load_and_store(
    runtime: OpenWorkspace, files: ImageFiles, chosen: Sequence[Candidate], wire: str
) -> tuple[Image, ...]:
    loaded = [files.load(candidate, wire) for candidate in chosen]
    runtime.proposals.put_blobs(data for _, data in loaded)
    return tuple(image for image, _ in loaded)
