"""Reads the XML that tools write about tests and coverage: bounded, and without entities of its own."""

from collections.abc import Collection, Iterator, Mapping
from xml.parsers import expat

MAX_REPORT_BYTES = 32 << 20
"""Bytes of a report."""
_PIECE = 1 << 16


class ReportError(ValueError):
    """A report cannot be read; the message says why."""


def iterate_xml_elements(data: bytes, texts: Collection[str] = ()) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name and the attributes of each element in a document, as it begins.

    A document that declares entities is refused: it could grow without end. No other file is ever read for it.

    Args:
        texts: Names of elements that are yielded as they end, with their text as the only attribute, `text`.

    Raises:
        ReportError: It is too large, no XML, or declares an entity.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise ReportError(f"larger than {MAX_REPORT_BYTES:,} bytes")
    found: list[tuple[str, Mapping[str, str]]] = []
    text: list[str] = []

    def begin(name: str, attributes: Mapping[str, str]) -> None:
        if name in texts:
            text.clear()
            parser.CharacterDataHandler = text.append
        else:
            found.append((name, attributes))

    def end(name: str) -> None:
        if name in texts:
            parser.CharacterDataHandler = None
            found.append((name, {"text": "".join(text)}))

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    if texts:
        parser.EndElementHandler = end
    parser.EntityDeclHandler = _refuse_entity
    try:
        for start in range(0, len(data) or 1, _PIECE):
            parser.Parse(data[start : start + _PIECE], start + _PIECE >= len(data))
            yield from found
            found.clear()
    except expat.ExpatError as error:
        raise ReportError(f"no XML: {error}") from error


def _refuse_entity(*_: object) -> None:
    raise ReportError("it declares an entity")
