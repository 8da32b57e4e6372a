"""Decompress a body in pieces of limited size, so that a decompression bomb takes little memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from hostler.egress.errors import EgressAnswerError
from hostler.egress.limits import READ_BYTES

ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""
_PLAIN = ("", "identity")


class Decoder:
    """Decompresses one body. `coding` is its Content-Encoding; EgressAnswerError if it is not accepted."""

    def __init__(self, coding: str) -> None:
        name = coding.strip().lower()
        self._name = name
        if name in ("gzip", "x-gzip"):
            self._zlib: zlib._Decompress | None = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif name == "deflate":
            self._zlib = zlib.decompressobj()
        elif name in _PLAIN:
            self._zlib = None
        else:
            raise EgressAnswerError(f"its body is encoded as {name[:40]!r}, which was not asked for")
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data in pieces of at most 64 KiB. EgressAnswerError if it is invalid."""
        if self._zlib is None:
            for start in range(0, len(data), READ_BYTES):
                yield data[start : start + READ_BYTES]
            return
        if not self._begun and data and self._name == "deflate" and not _is_zlib(data):
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send raw deflate
        self._begun = self._begun or bool(data)
        rest = data
        while rest and not self._zlib.eof:
            try:
                piece = self._zlib.decompress(rest, READ_BYTES)
            except zlib.error:
                raise EgressAnswerError("its body is not compressed as it says") from None
            rest = self._zlib.unconsumed_tail
            if piece:
                yield piece

    def end(self) -> None:
        """Check that the body is complete. EgressAnswerError if it ended early."""
        if self._zlib is not None and self._begun and not self._zlib.eof:
            raise EgressAnswerError("its body ended in the middle")


def _is_zlib(data: bytes) -> bool:
    return data[0] & 0x0F == 8 and (len(data) < 2 or int.from_bytes(data[:2], "big") % 31 == 0)
