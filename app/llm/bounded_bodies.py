"""Decompress response bodies piece by piece, up to a size limit.

The HTTP library reads the whole body of an error, whatever its size, and decompresses one read of the socket into one
piece, which can be a thousand times as large. Signoff requests uncompressed bodies; if a body is compressed anyway,
it is decompressed here within limits. Importing this module imports the HTTP library: do it on the thread that loads
the SDK.
"""

import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import httpx2

from app.llm.response import bounded_stream
from app.llm.response.bounded_stream import ResponseTooLarge

ACCEPT_HEADERS = {"Accept-Encoding": "identity"}
"""Header that requests uncompressed bodies."""
_PIECE_BYTES = 2**16
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_RAW_DEFLATE = -zlib.MAX_WBITS


async def limit_response_stream(response: httpx2.Response) -> None:
    """Replace the body of a response by one that raises `ResponseTooLarge` at its limit (a hook of the HTTP client).

    The text is decoded as UTF-8, or by `error_text`.

    Raises:
        httpx2.DecodingError: its compression is not supported.
    """
    encodings = [one.strip().lower() for one in response.headers.get("content-encoding", "identity").split(",")]
    compressed = [one for one in encodings if one not in ("", "identity")]
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if compressed and (len(compressed) > 1 or compressed[0] not in ("gzip", "x-gzip", "deflate")):
        if response.status_code >= 300:
            # The status says more than the body would.
            await response.stream.aclose()
            response.stream = httpx2.ByteStream(b"")
            del response.headers["content-encoding"]
            return
        raise httpx2.DecodingError(f"it is encoded as {', '.join(compressed)}, which was not asked for")
    if compressed:
        del response.headers["content-encoding"]
    response.encoding = "utf-8"
    response.stream = _LimitedStream(response.stream, *_choose_limit(response), compressed=bool(compressed))


def error_text(response: httpx2.Response) -> str:
    """Return the body of an error: UTF-8 if it is valid, else text in the declared charset (of a proxy, Latin-1)."""
    for encoding in ("utf-8", response.charset_encoding or ""):
        # The declared one can be unknown, fail on everything ("undefined"), or be no encoding of text ("rot13").
        with suppress(ValueError, LookupError):
            return response.content.decode(encoding)
    return response.text


def _choose_limit(response: httpx2.Response) -> tuple[int, str]:
    if response.status_code >= 300:
        return bounded_stream.MAX_ERROR_BYTES, f"an error ({response.status_code})"
    return (
        (bounded_stream.MAX_LISTING_BYTES, "a list of models")
        if response.request.method == "GET"
        else (bounded_stream.MAX_BODY_BYTES, "a response")
    )


class _LimitedStream(httpx2.AsyncByteStream):
    """The decompressed bytes of a body; raises `ResponseTooLarge` at the limit."""

    def __init__(self, raw: httpx2.AsyncByteStream, limit: int, what: str, *, compressed: bool) -> None:
        self._raw = raw
        self._limit = limit
        self._description = what
        self._decompress = _Decompressor().feed if compressed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._raw:
            for part in (piece,) if self._decompress is None else self._decompress(piece):
                size += len(part)
                if size > self._limit:
                    raise ResponseTooLarge(self._description, self._limit)
                yield part

    async def aclose(self) -> None:
        await self._raw.aclose()


class _Decompressor:
    """Decompresses gzip, zlib and raw deflate in pieces of limited size."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._has_started = False

    def feed(self, compressed: bytes) -> Iterator[bytes]:
        """Yield the next decompressed bytes. Raises `httpx2.DecodingError`."""
        try:
            while compressed:
                if self._inflater.eof:
                    # The body may consist of several compressed streams.
                    self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
                yield self._inflate(compressed)
                compressed = self._inflater.unconsumed_tail or self._inflater.unused_data
        except zlib.error as damage:
            raise httpx2.DecodingError(str(damage)) from damage

    def _inflate(self, compressed: bytes) -> bytes:
        try:
            return self._inflater.decompress(compressed, _PIECE_BYTES)
        except zlib.error:
            if self._has_started:
                raise
            # By the standard, "deflate" means zlib format, but some servers send raw deflate.
            self._inflater = zlib.decompressobj(_RAW_DEFLATE)
            return self._inflater.decompress(compressed, _PIECE_BYTES)
        finally:
            self._has_started = True
