"""Reads the images that a message names, through the guarded way of opening files.

A file that is not called a picture and is none is named only, as any file.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.images.image import (
    HEAD,
    MOST_IN_MESSAGE,
    Image,
    NotAnImage,
    byte_limit,
    format_bytes,
    media_type,
    refusal_reason,
)
from app.images.mentions import Mention, has_image_name, pasted_paths
from app.text.safe_text import escape_unsafe
from app.workspace.path_rules import FileTooLarge, WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_file
from app.workspace.secrets import secret_reason


class NotAttached(WorkspaceError):
    """An image cannot be sent; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image that a message names, not read yet."""

    path: str
    """In the workspace, or absolute elsewhere."""
    doubt: str
    """Why the user should say that it is meant, in a few words; empty if that is clear."""


class ImageFiles:
    """Finds and reads images on this machine that the user names."""

    def __init__(self, workspace: Workspace) -> None:
        """Paths that are not absolute count from this workspace."""
        self._workspace = workspace

    def mentioned(self, mentions: Iterable[Mention]) -> list[Candidate]:
        """Return the mentions that are images, or are named like one. Raises `NotAttached`."""
        found: dict[str, Candidate] = {}
        for mention in mentions:
            if (candidate := self._candidate(mention)) is not None:
                found.setdefault(candidate.path, candidate)
        if len(found) > MOST_IN_MESSAGE:
            raise NotAttached(f"A message takes at most {MOST_IN_MESSAGE} images, and this has {len(found)}.")
        return list(found.values())

    def given(self, paths: Iterable[str]) -> list[Mention]:
        """Return the images that the user named on the command line. Raises `NotAttached`."""
        found = [Mention(str(Path(path).expanduser().absolute()), dropped=True) for path in paths]
        for mention in found:
            if self._candidate(mention) is None:
                raise self._explained(mention.path, NotAnImage("is no PNG, JPEG, GIF or WebP"))
        return found

    def pasted(self, text: str) -> list[str]:
        """Return the image paths that a pasted text consists of; empty if it is any other text."""
        for paths in pasted_paths(text):
            try:
                if all(media_type(self._read(path, HEAD, head=True)[1]) for path in paths):
                    return [self._located(path)[0] for path in paths]
            except (OSError, WorkspaceError, ValueError):
                continue
        return []

    def load(self, candidate: Candidate, wire: str) -> tuple[Image, bytes]:
        """Return an image that this wire accepts, and its bytes. Raises `NotAttached`."""
        name = escape_unsafe(candidate.path, keep="")
        try:
            data = self._read(candidate.path, byte_limit(wire))[1]
            image = Image.from_bytes(candidate.path, data)
        except FileTooLarge as error:
            most = format_bytes(byte_limit(wire))
            raise NotAttached(f"{name} is too large: at most {most} are taken, so scale it down.") from error
        except (OSError, WorkspaceError, ValueError, NotAnImage) as error:
            raise self._explained(candidate.path, error) from error
        if reason := refusal_reason(image, wire):
            raise NotAttached(f"{name} {reason}, so scale it down.")
        return image, data

    def _candidate(self, mention: Mention) -> Candidate | None:
        called_so = has_image_name(mention.path)
        try:
            path, head = self._read(mention.path, HEAD, head=True)
        except (OSError, WorkspaceError, ValueError) as error:
            if not called_so:
                return None
            raise self._explained(mention.path, error) from error
        if not media_type(head):
            if not called_so:
                return None
            raise self._explained(mention.path, NotAnImage("is no PNG, JPEG, GIF or WebP"))
        return Candidate(path, self._doubt(path, mention))

    def _doubt(self, path: str, mention: Mention) -> str:
        if reason := secret_reason(path):
            return f"it looks like a secret: {reason}"
        if path.startswith("/"):
            return "" if mention.dropped else "it is outside the workspace"
        if twin := self._workspace.secret_twin(path):
            return f"it is the same file as {twin}"
        return ""

    def _read(self, path: str, limit: int, *, head: bool = False) -> tuple[str, bytes]:
        """Return the resolved path and the bytes of a file; raises OSError, WorkspaceError."""
        path, outside = self._located(path)
        if not outside:
            read = self._workspace.read_head if head else self._workspace.read
            return path, read(path, limit)
        try:
            # The user named it: where its own links lead is where it is.
            return path, read_file(os.path.realpath(path), limit, head=head)[0]
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise FileTooLarge(str(error)) from error
            raise

    def _located(self, path: str) -> tuple[str, bool]:
        """The path in the workspace, or an absolute one and True."""
        path = str(Path(path).expanduser()) if path.startswith("~/") else path
        if path.startswith("/") and self._workspace.relative_path(path := os.path.normpath(path)) is None:
            return path, True
        return self._workspace.locate(path), False

    def _explained(self, path: str, error: Exception) -> NotAttached:
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
        return NotAttached(f"{reason}.")
