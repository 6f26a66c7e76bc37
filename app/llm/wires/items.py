"""Content of a request, independent of the protocol: messages in order, each call with its result.

The projection yields these; a wire makes messages of them. A call holds its result, so none can lack one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOTE_OPENING = "<signoff-note>"
NOTE_CLOSING = "</signoff-note>"
NOTE_PREAMBLE = "Written by the program signoff, not by the user:"
NO_BEGINNING = "The beginning of this conversation is not shown."


def tag_text(text: str) -> str:
    """Return program text as a marked block, for a place where only a user message is accepted."""
    inert = text.replace(NOTE_CLOSING, "<\\/signoff-note>")
    return f"{NOTE_OPENING}\n{NOTE_PREAMBLE}\n{inert}\n{NOTE_CLOSING}"


OPAQUE_BLOCKS = "opaque_blocks"
"""Under this name a response's extras keep what a wire gave beside text and calls and wants back as it was: a list of
`{"wire": …, "index": …, "at": …, "block": …}`. `at` is where it stood: 0 before the text, 1 after it, 2 after the
first call, and so on."""


WORDS_FOLLOW = "The user's own words on it follow as the user's message."


@dataclass(frozen=True, slots=True)
class SystemText:
    """A text of the program for the model."""

    text: str
    folded: tuple[str, ...] = ()
    """Notes that belong in mid-conversation, where the endpoint takes no system message but the first."""
    introduces: bool = False
    """The next item is what the user said on it; `text` leaves that to the wire, which knows where they stand."""

    def whole(self) -> str:
        """All of it as one text, for a wire that keeps the order of the items."""
        text = f"{self.text}\n{WORDS_FOLLOW}" if self.introduces else self.text
        return "\n\n".join([part for part in (text,) if part] + list(self.folded))


IMAGE_PARTS = frozenset({"image_url", "image", "input_image"})
"""What the part of a message that is an image is called, on one wire or another."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image of a user message or a tool result."""

    media_type: str
    data: str = field(repr=False)
    """Base64."""

    @property
    def url(self) -> str:
        """The whole of it as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class UserText:
    """A text of the user, or a marked note of the program where no system message is accepted."""

    text: str
    spoken: bool = True
    """The user said at least some of it."""
    attachments: tuple[Attachment, ...] = ()
    """Images; they come before the text, which may be empty then."""


@dataclass(frozen=True, slots=True)
class OpaqueEcho:
    """Opaque parts of a response, which go back only to the endpoint and model that made them."""

    same_model: bool = False
    """The request goes where the response came from."""
    reasoning: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    def blocks(self, wire: str) -> dict[int, list[dict[str, Any]]]:
        """The opaque blocks of this wire by where they stood, empty unless the request goes to the same model."""
        found: dict[int, list[dict[str, Any]]] = {}
        kept = self.extras.get(OPAQUE_BLOCKS) if self.same_model else None
        for entry in kept if isinstance(kept, list) else ():
            if isinstance(entry, dict) and entry.get("wire") == wire and isinstance(entry.get("block"), dict):
                at = entry.get("at")
                found.setdefault(at if isinstance(at, int) else 0, []).append(entry["block"])
        return found


@dataclass(frozen=True, slots=True)
class CallWithResult:
    """A tool call and its result."""

    id: str
    name: str
    arguments: str
    """A JSON object."""
    result: str
    attachments: tuple[Attachment, ...] = ()
    """Images of the result, where the wire takes them there."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Opaque fields of the call, as they came."""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A response of the model: a text, calls, or both."""

    text: str
    calls: tuple[CallWithResult, ...] = ()
    echo: OpaqueEcho = OpaqueEcho()


Item = SystemText | UserText | ModelTurn
