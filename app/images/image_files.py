"""Read the images that a message mentions, with the workspace's checks for opening files.

A mentioned file that neither has an image's name nor is an image is ignored here.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from app.images.image import (
    IMAGE_HEAD_BYTES,
    MAX_IMAGES_IN_MESSAGE,
    Image,
    NotAnImage,
    detect_media_type,
    format_bytes,
    image_byte_limit,
    image_refusal_reason,
)
from app.images.mentions import Mention, has_image_name, possible_pasted_paths
from app.text.safe_text import escape_unsafe
from app.workspace.path_rules import FileTooLarge, WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file
from app.workspace.secrets import secret_reason


class ImageNotAttached(WorkspaceError):
    """An image cannot be sent; the message is one sentence that says why."""


class MentionedImage(Struct, frozen=True):
    """An image that a message mentions and that is not read yet."""

    path: str
    """A workspace path, or an absolute path outside the workspace."""
    confirmation_reason: str
    """Why the user must confirm it, in a few words; empty if no confirmation is necessary."""


class ImageFileLoader:
    """Finds and reads images that the user names, relative to the root of the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def find_mentioned(self, mentions: Iterable[Mention]) -> list[MentionedImage]:
        """Return the mentioned images. Raises `ImageNotAttached` if a file with the name of an image is none."""
        candidates: dict[str, MentionedImage] = {}
        for mention in mentions:
            if (candidate := self._find_candidate(mention)) is not None:
                candidates.setdefault(candidate.path, candidate)
        if len(candidates) > MAX_IMAGES_IN_MESSAGE:
            raise ImageNotAttached(
                f"A message takes at most {MAX_IMAGES_IN_MESSAGE} images, and this one has {len(candidates)}."
            )
        return list(candidates.values())

    def find_named(self, paths: Iterable[str]) -> list[Mention]:
        """Return the images that the user named on the command line. Raises `ImageNotAttached`."""
        mentions = [Mention(str(Path(_expand_home(path)).absolute()), dropped=True) for path in paths]
        for mention in mentions:
            self._find_candidate(mention, required=True)
        return mentions

    def parse_pasted_image_paths(self, text: str) -> list[str]:
        """Return the image paths that a pasted text consists of; empty if it contains anything else."""
        for paths in possible_pasted_paths(text):
            try:
                if all(
                    detect_media_type(self._resolve_and_read(path, IMAGE_HEAD_BYTES, head=True)[1]) for path in paths
                ):
                    return [self._resolve_path(path)[0] for path in paths]
            except (OSError, WorkspaceError, ValueError):
                continue
        return []

    def load(self, candidate: MentionedImage, wire: str) -> tuple[Image, bytes]:
        """Return an image that this wire accepts, and its bytes. Raises `ImageNotAttached`."""
        name = escape_unsafe(candidate.path, keep="")
        try:
            data = self._resolve_and_read(candidate.path, image_byte_limit(wire))[1]
            image = Image.from_bytes(candidate.path, data)
        except FileTooLarge as error:
            max_size = format_bytes(image_byte_limit(wire))
            raise ImageNotAttached(
                f"{name} is too large: at most {max_size} are accepted, so scale it down."
            ) from error
        except (OSError, WorkspaceError, ValueError, NotAnImage) as error:
            raise self._make_error(candidate.path, error) from error
        if reason := image_refusal_reason(image, wire):
            raise ImageNotAttached(f"{name} {reason}, so scale it down.")
        return image, data

    def _find_candidate(self, mention: Mention, *, required: bool = False) -> MentionedImage | None:
        is_named_as_image = required or has_image_name(mention.path)
        try:
            path, head = self._resolve_and_read(mention.path, IMAGE_HEAD_BYTES, head=True)
        except (OSError, WorkspaceError, ValueError) as error:
            if not is_named_as_image:
                return None
            raise self._make_error(mention.path, error) from error
        if not detect_media_type(head):
            if not is_named_as_image:
                return None
            raise self._make_error(mention.path, NotAnImage("is no PNG, JPEG, GIF or WebP"))
        return MentionedImage(path, self._find_confirmation_reason(path, mention))

    def _find_confirmation_reason(self, path: str, mention: Mention) -> str:
        if reason := secret_reason(path):
            return f"it looks like a secret: {reason}"
        if path.startswith("/"):
            return "" if mention.dropped else "it is outside the workspace"
        if twin := self._workspace.find_secret_hard_link(path):
            return f"it is the same file as {twin}"
        return ""

    def _resolve_and_read(self, path: str, limit: int, *, head: bool = False) -> tuple[str, bytes]:
        """Return the resolved path and the bytes of a file; raises OSError, WorkspaceError, ValueError."""
        path, outside = self._resolve_path(path)
        if not outside:
            read = self._workspace.read_head if head else self._workspace.read
            return path, read(path, limit)
        try:
            # The user named this file, so follow its links.
            return path, read_regular_file(os.path.realpath(path), limit, allow_truncated=head)[0]
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise FileTooLarge(str(error)) from error
            raise

    def _resolve_path(self, path: str) -> tuple[str, bool]:
        """Return (workspace path, False), or (absolute path, True) for a file outside the workspace."""
        path = _expand_home(path)
        if path.startswith("/") and self._workspace.relative_path(path := os.path.normpath(path)) is None:
            return path, True
        return self._workspace.normalize_path(path), False

    def _make_error(self, path: str, error: Exception) -> ImageNotAttached:
        name = escape_unsafe(path, keep="")
        match error:
            case FileNotFoundError() | NotADirectoryError():
                reason = f"There is no {name}"
            case IsADirectoryError():
                reason = f"{name} is a folder"
            case NotAnImage():
                reason = f"{name} {error}"
            case WorkspaceError():
                reason = f"{name} cannot be read: {escape_unsafe(str(error), keep='')}"
            case OSError(errno=errno.EINVAL) | OSError(errno=errno.ENXIO):
                reason = f"{name} is no regular file"
            case OSError():
                reason = f"{name} cannot be read: {error.strerror or error}"
            case _:
                reason = f"{name} cannot be read"
        return ImageNotAttached(f"{reason}.")


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~/") else path


ConfirmAttachment = Callable[[MentionedImage], Awaitable[bool]]
"""Asks the user whether to send a file with a `confirmation_reason`."""


async def load_and_store_images(
    workspace: Workspace,
    store_bytes: Callable[[Iterable[bytes]], object],
    mentions: Iterable[Mention],
    wire: str,
    confirm: ConfirmAttachment,
    extra_paths: Sequence[str] = (),
) -> tuple[Image, ...]:
    """Return the images of a message, after storing their bytes.

    Args:
        store_bytes: Stores the bytes of images.
        wire: The model's protocol, which determines the limits.
        confirm: Asks about files outside the workspace and files that look like secrets.
        extra_paths: Paths of images given outside the message.

    Raises:
        ImageNotAttached: an image cannot be sent; nothing was stored.
    """
    files = ImageFileLoader(workspace)
    candidates = await asyncio.to_thread(lambda: files.find_mentioned([*mentions, *files.find_named(extra_paths)]))
    chosen = [candidate for candidate in candidates if not candidate.confirmation_reason or await confirm(candidate)]
    loaded = await asyncio.to_thread(lambda: [files.load(candidate, wire) for candidate in chosen])
    await asyncio.to_thread(store_bytes, [data for _, data in loaded])
    return tuple(image for image, _ in loaded)


async def parse_image_only_paste(workspace: Workspace, text: str) -> list[Mention]:
    """Return the images that a pasted text consists of; empty if it contains anything else."""
    paths = await asyncio.to_thread(ImageFileLoader(workspace).parse_pasted_image_paths, text)
    return [Mention(path, dropped=True) for path in paths]
