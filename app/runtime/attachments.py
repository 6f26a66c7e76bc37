"""Attaches images to what the user says: finds the files that a message names, and keeps their bytes in the store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from app.images.image import Image
from app.images.image_files import Candidate, ImageFiles
from app.images.mentions import Mention
from app.runtime.open_workspace import OpenWorkspace

Meant = Callable[[Candidate], Awaitable[bool]]
"""Asks the user whether a doubtful file is meant to be sent."""


async def attached(
    runtime: OpenWorkspace, mentions: Iterable[Mention], wire: str, meant: Meant, named: Sequence[str] = ()
) -> tuple[Image, ...]:
    """The images of a message; when this returns, their bytes are in the store.

    Args:
        runtime: the open workspace.
        mentions: files that the message names.
        wire: what the model speaks, on which the limits depend.
        meant: is asked about files outside the workspace and what looks like a secret; others are not sent.
        named: paths of files that are given as images outside the message.

    Raises:
        NotAttached: one of them cannot be sent; nothing was kept then.
    """
    files = ImageFiles(runtime.workspace)
    candidates = await asyncio.to_thread(lambda: files.mentioned([*mentions, *files.given(named)]))
    chosen = [one for one in candidates if not one.doubt or await meant(one)]
    return await asyncio.to_thread(_kept, runtime, files, chosen, wire)


async def mentions_of_pasted(runtime: OpenWorkspace, text: str) -> list[Mention]:
    """The images that a pasted text consists of; empty if it says anything else."""
    paths = await asyncio.to_thread(ImageFiles(runtime.workspace).pasted, text)
    return [Mention(path, dropped=True) for path in paths]


def _kept(runtime: OpenWorkspace, files: ImageFiles, chosen: Sequence[Candidate], wire: str) -> tuple[Image, ...]:
    loaded = [files.load(candidate, wire) for candidate in chosen]
    runtime.proposals.put_blobs(data for _, data in loaded)
    return tuple(image for image, _ in loaded)
