"""What a server answers to a call, as text: for the model, and in a line for the user."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from app.images.formats import NotAnImage
from app.images.image import Image, names_of
from app.images.limits import LARGEST, MOST_IN_MESSAGE
from app.json_rpc import Message
from app.proposals.remarks import size_words
from app.text.plural import plural
from app.text.safe_text import strip_unsafe
from app.tools.command.output import HeadAndTail, PlainText

_MOST_PARTS = 2_000
"""Parts of one answer that are looked at."""
_DEEPEST = 100
"""How often structured content may be nested: over lines, each of them is indented by as much."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    text: str
    summary: str
    failed: bool
    """The tool says that it failed."""
    images: tuple[tuple[Image, bytes], ...] = ()


def told(result: Message, tool: str = "") -> Told:
    """What an answer says, its middle left out where it is long.

    Args:
        result: The answer.
        tool: What its images are named for.
    """
    kept = HeadAndTail()
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    images = _Images(tool)
    said = list(_parts(parts[:_MOST_PARTS], images))
    if not any(said) and "structuredContent" in result:
        said = [plain(_written(result["structuredContent"]))]
    if len(parts) > _MOST_PARTS:
        said.append(f"[{len(parts) - _MOST_PARTS:,} more parts left out]")
    for number, text in enumerate(said):
        kept.feed(("\n" if number else "") + text)
    text = kept.text().strip("\n")
    failed = result.get("isError") is True
    lines = kept.lines + bool(text)
    summary = plural(lines, "line") if text else "no text"
    if images.taken:
        summary = f"{summary}, {plural(len(images.taken), 'image')}"
    summary = f"failed, {summary}" if failed else summary
    return Told(text or "[no content]", summary, failed, tuple(images.taken))


class _Images:
    """Takes the images of one answer, as many as a message may have."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.taken: list[tuple[Image, bytes]] = []

    def told(self, data: str) -> str:
        """Take one, in Base64; what stands for it in the text."""
        try:
            if len(data) > LARGEST * 4 // 3 + 4:
                raise NotAnImage("is too large")
            if len(self.taken) == MOST_IN_MESSAGE:
                raise NotAnImage(f"is one of more than {MOST_IN_MESSAGE}")
            content = base64.b64decode(data, validate=True)
            image = Image.of(f"{self._tool} {len(self.taken) + 1}".strip(), content)
        except (NotAnImage, ValueError) as error:
            why = str(error) if isinstance(error, NotAnImage) else "is no Base64"
            return f"[an image of {_size(data)}, which can't be shown to you: it {why}]"
        self.taken.append((image, content))
        return f"[image {names_of([image])}: {image.facts}]"


def _written(value: Any) -> str:
    """A value as JSON, over lines where it is not nested too deep for that."""
    if _deeper_than(_DEEPEST, value):
        return "[structured content, nested too deep to be shown]"
    return json.dumps(value, ensure_ascii=False, indent=1)


def _deeper_than(most: int, value: Any) -> bool:
    """Whether lists and objects are nested more than so often."""
    level: list[Any] = [[value]]
    for _ in range(most + 1):
        inner = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inner if isinstance(each, (dict, list))]
    return bool(level)


def plain(text: str) -> str:
    """A text from a server without sequences for a terminal and what else does not show."""
    return strip_unsafe(PlainText().feed(text.encode("utf-8", "surrogatepass"), final=True).replace("\r\n", "\n"))


def _parts(parts: list[Any], images: _Images) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, dict):
            continue
        match part.get("type"):
            case "text":
                yield _text(part.get("text"))
            case "image":
                yield images.told(data if isinstance(data := part.get("data"), str) else "")
            case "audio":
                yield f"[an audio of {_size(part.get('data'))}, which can't be played to you]"
            case "resource_link":
                name = _text(part.get("title") or part.get("name"))
                yield f"[a resource: {name} {_text(part.get('uri'))}]"
            case "resource":
                yield _resource(part.get("resource"))
            case other:
                yield f"[a part of kind {_text(other)[:40]!r}, which signoff doesn't know]"


def _text(value: Any) -> str:
    """What is there as text, if it is one."""
    return plain(value) if isinstance(value, str) else ""


def _resource(resource: Any) -> str:
    if not isinstance(resource, dict):
        return ""
    where = _text(resource.get("uri"))
    if isinstance(text := resource.get("text"), str):
        return f"[{where}]\n{plain(text)}"
    return f"[{where}: {_size(resource.get('blob'))}]"


def _size(data: Any) -> str:
    """The bytes that base64 stands for."""
    count = len(data) if isinstance(data, str) else 0
    return size_words(count * 3 // 4 - (data[-2:].count("=") if count else 0))
