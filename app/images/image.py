"""A picture as the log remembers it: what it is called, what it is, and by which hash its bytes are stored."""

import hashlib
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.images.formats import recognise
from app.text.safe_text import visible


class Image(BaseModel):
    """One picture of a message. The bytes are in the store, where they stay whatever becomes of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    """As the user named the file: a workspace path, or a path elsewhere."""
    media_type: str
    width: int
    height: int
    size: int
    """Bytes."""
    sha256: str
    """Of the bytes, in hex: their name in the store."""

    @property
    def facts(self) -> str:
        """Its size in pixels and in bytes, for people: `1,280×720, 214 KB`."""
        return f"{self.width:,}×{self.height:,}, {bytes_text(self.size)}"

    @classmethod
    def of(cls, name: str, data: bytes) -> "Image":
        """What the bytes of a picture say of it; raises NotAnImage."""
        found = recognise(data)
        return cls(
            name=name,
            media_type=found.media_type,
            width=found.width,
            height=found.height,
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )


_MOST_NAMED = 20
_LONGEST_NAME = 200
"""Characters; of a longer path the end is said."""


def names_of(images: Sequence[Image]) -> str:
    """Their names in quotes, for a sentence: nobody's name ends a line or the quotes. Of very many the first."""
    names = [f'"{_in_quotes(image.name)}"' for image in images[:_MOST_NAMED]]
    more = [f"{len(images) - len(names)} more"] if len(images) > len(names) else []
    *first, last = [*names, *more]
    return f"{', '.join(first)} and {last}" if first else last


def _in_quotes(name: str) -> str:
    shown = visible(name, keep="").replace('"', "'")
    return shown if len(shown) <= _LONGEST_NAME else f"…{shown[-_LONGEST_NAME:]}"


def bytes_text(size: int) -> str:
    """Bytes for people: `214 KB`."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:,.0f} KB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"
