"""A file as bytes with a line table: text is a view for matching and display, bytes are written.

Only a line feed ends a line: a form feed, U+2028 or a lone carriage return is part of its line, and the carriage
return of a CRLF ending stays in the bytes of the line. Joining `Document.lines` gives `Document.data` again.
"""

from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, StringIO
from typing import Literal

from app.proposals.values.proposal_errors import NotEditable

MAX_BYTES = 20 * 1024 * 1024
"""Maximum bytes of a file that is compared and edited as text; a larger one is decided as a whole."""
MAX_LINES = 200_000
"""Maximum lines of a file that is edited as text."""
MAX_COMPARED_LINES = 1_000_000
"""Maximum lines of a file that is compared as text; one with more is decided as a whole."""
BINARY_WINDOW = 8 * 1024
"""A NUL in this many first bytes makes a file binary, as in git."""

BOM = "\ufeff"

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "bytes"]

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_ENCODINGS_BY_BOM: dict[bytes, Encoding] = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
WIDE_MARKS = tuple(_UTF16_ENCODINGS_BY_BOM)
"""Beginnings of files whose bytes may be UTF-16."""
_UTF32_LE_BOM = b"\xff\xfe\x00\x00"


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of `data`, cut after each line feed, with endings; joined, they are `data` again."""
    return BytesIO(data).readlines()


def split_lines_without_endings(text: str) -> list[str]:
    """Return a model's text as lines without endings; `\\r\\n` counts as `\\n`, a final newline ends the last
    line.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def decode_surrogateescape(data: bytes) -> str:
    """Decode UTF-8; undecodable bytes become U+DC80..U+DCFF (PEP 383), which `encode_surrogateescape` restores."""
    return data.decode("utf-8", "surrogateescape")


def encode_surrogateescape(text: str) -> bytes:
    """Return the bytes of a text, the inverse of `decode_surrogateescape`.

    Raises:
        NotEditable: A surrogate is not an undecodable byte.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise NotEditable(f"The text holds U+{ord(text[error.start]):04X}, half of a character pair.") from error


@dataclass(frozen=True)
class Document:
    """The bytes of a file with their views as text and lines, which are computed on first use."""

    data: bytes
    verbatim: bool = False
    """Whether to treat text as a patch made from these bytes does: a UTF-8 byte order mark is the first character,
    and new characters are UTF-8 whatever the rest of the file is."""

    @cached_property
    def encoding(self) -> Encoding:
        """Return the encoding of the bytes; `bytes` when no strict decoding fits."""
        head = self.data[:4]
        if head != _UTF32_LE_BOM and head[:2] in _UTF16_ENCODINGS_BY_BOM:
            encoding = _UTF16_ENCODINGS_BY_BOM[head[:2]]
            try:
                self.data[2:].decode(encoding)
            except UnicodeDecodeError:
                return "bytes"
            return encoding
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes"
        return "utf-8-sig" if head[:3] == _UTF8_BOM and not self.verbatim else "utf-8"

    @property
    def is_utf16(self) -> bool:
        """Return whether the text is UTF-16."""
        return self.encoding in ("utf-16-le", "utf-16-be")

    @cached_property
    def is_binary(self) -> bool:
        """Return whether the file is only treated as a whole.

        It has a NUL near its start and is not UTF-16 with a byte order mark, or it is too large, or has too many
        lines.
        """
        if len(self.data) > MAX_BYTES or (len(self.data) > MAX_COMPARED_LINES < self.data.count(b"\n")):
            return True
        return b"\0" in self.data[:BINARY_WINDOW] and not self.is_utf16

    @property
    def byte_order_mark(self) -> bytes:
        """Return the byte order mark that is not text; empty if there is none."""
        if self.is_utf16:
            return self.data[:2]
        return _UTF8_BOM if self.encoding == "utf-8-sig" else b""

    @cached_property
    def lines_without_mark(self) -> tuple[bytes, ...]:
        """Return the raw lines with their endings, the first without the byte order mark."""
        if not self.byte_order_mark:
            return self.lines
        return (self.lines[0][len(self.byte_order_mark) :], *self.lines[1:])

    @cached_property
    def lines(self) -> tuple[bytes, ...]:
        """Return the raw lines with their endings; a byte order mark is part of the first."""
        if not self.is_utf16:
            return tuple(split_lines(self.data))
        text = StringIO(self.data[2:].decode(self.encoding), newline="\n")
        first, *rest = [line.encode(self.encoding) for line in text] or [b""]
        return self.byte_order_mark + first, *rest

    @property
    def _text_with_returns(self) -> str:
        data = self.data[len(self.byte_order_mark) :]
        return data.decode(self.encoding) if self.is_utf16 else decode_surrogateescape(data)

    @cached_property
    def line_texts(self) -> tuple[str, ...]:
        """Return the lines as text without ending and byte order mark, one for each of `lines`."""
        pieces = self.text.split("\n")
        if not pieces[-1] and len(pieces) > len(self.lines):
            pieces.pop()
        return tuple(pieces)

    @cached_property
    def text(self) -> str:
        r"""Return the whole text with `\n` endings, as the model reads and matches it."""
        return self._text_with_returns.replace("\r\n", "\n")

    @cached_property
    def endings(self) -> tuple[str, ...]:
        """Return the ending of each line: `\\n`, `\\r\\n`, or empty for a last line without newline."""
        text = self._text_with_returns
        if "\r\n" in text:
            endings = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
        else:
            endings = ["\n"] * text.count("\n")
        return (*endings, *[""] * (len(self.lines) - len(endings)))

    @cached_property
    def eol_counts(self) -> dict[str, int]:
        r"""Return the number of lines that end in `\n` and in `\r\n`."""
        return {ending: self.endings.count(ending) for ending in ("\n", "\r\n")}

    @property
    def eol(self) -> str:
        """Return the most common ending; `\\n` if there is none."""
        counts = self.eol_counts
        return "\r\n" if counts["\r\n"] > counts["\n"] else "\n"

    @property
    def has_mixed_eol(self) -> bool:
        """Return whether both endings occur."""
        return all(self.eol_counts.values())

    @property
    def has_final_newline(self) -> bool:
        """Return whether the last line ends in a newline; True for an empty file."""
        return self.data == self.byte_order_mark or self.endings[-1] != ""

    def check_editable(self, name: str = "The file") -> None:
        """Raise NotEditable for a binary file and for one over the limits."""
        if len(self.data) > MAX_BYTES:
            raise NotEditable(f"{name} has {len(self.data):,} bytes; files over {MAX_BYTES:,} bytes are not edited.")
        if self.is_binary:
            raise NotEditable(f"{name} is binary; it can be replaced, renamed or deleted as a whole, but not edited.")
        # Count line feeds in the bytes first, so that a file with too many lines is never split. UTF-16 has at most
        # as many.
        count = self.data.count(b"\n") + (not self.data.endswith(b"\n"))
        if self.is_utf16 and count > MAX_LINES:
            count = len(self.lines)
        if count > MAX_LINES:
            raise NotEditable(f"{name} has {count:,} lines; files over {MAX_LINES:,} lines are not edited.")

    def encode_text(self, text: str) -> bytes:
        """Return the bytes of `text` in this file's encoding, without an ending; raise NotEditable if it has none.

        In a file that is not valid UTF-8, only ASCII and characters that the file already has in UTF-8 are accepted:
        others might mix two encodings.
        """
        try:
            if self.is_utf16:
                return text.encode(self.encoding)
            if self.encoding == "bytes" and not self.verbatim and not text.isascii():
                self._check_characters_known(text)
            return encode_surrogateescape(text)
        except UnicodeEncodeError as error:
            raise NotEditable(
                f"The new text holds U+{ord(text[error.start]):04X}, which {self.encoding} can't represent."
            ) from error

    def _check_characters_known(self, text: str) -> None:
        for character in text:
            is_known = character.isascii() or character in self._characters or "\udc80" <= character <= "\udcff"
            if not is_known:
                raise NotEditable(
                    f"The file is not valid UTF-8, and the new text holds {character!r}.",
                    "Writing it as UTF-8 could mix two encodings: keep to ASCII, or to characters it has already.",
                )

    @cached_property
    def _characters(self) -> frozenset[str]:
        return frozenset(self.text)

    def encode_ending(self, ending: str) -> bytes:
        """Return the bytes of a line ending in this file's encoding."""
        return ending.encode(self.encoding if self.is_utf16 else "ascii")

    def ending_for_line(self, near: int) -> str:
        """Return the ending for a new line at line `near` (from 0): that line's, else a neighbour's, else the most
        common.
        """
        for index in (near, near - 1, near + 1):
            if 0 <= index < len(self.endings) and self.endings[index]:
                return self.endings[index]
        return self.eol

    def encode_line(self, text: str, near: int) -> bytes:
        """Return `text` (without ending) as a new line for line `near` (from 0), with the ending of its
        surroundings.
        """
        return self.encode_text(text) + self.encode_ending(self.ending_for_line(near))


def display_lines_for_diff(old: Document, new: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both texts as display lines; lines with different bytes also look different where possible.

    Undecodable bytes are U+DC80..U+DCFF. Carriage returns are shown unless both documents have the same single style
    of endings; a byte order mark that only one of them has is shown as U+FEFF.
    """
    styles = {ending for document in (old, new) for ending, count in document.eol_counts.items() if count}
    sides = [old.line_texts, new.line_texts]
    if len(styles) > 1:
        sides = [
            tuple(
                text + "\r" if ending == "\r\n" else text
                for text, ending in zip(document.line_texts, document.endings, strict=True)
            )
            for document in (old, new)
        ]
    has_mark = [document.encoding not in ("utf-8", "bytes") for document in (old, new)]
    if has_mark[0] != has_mark[1] and old.data and new.data:
        index = has_mark.index(True)
        first, *rest = sides[index] or ("",)
        sides[index] = (BOM + first, *rest)
    return sides[0], sides[1]
