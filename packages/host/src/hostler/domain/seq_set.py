"""A set of sequences as bits: a million of them in 125 kB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


class SeqSet:
    """A set of sequences from 1 to `last`; those outside are ignored."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._bits = bytearray(last // 8 + 1)

    def add(self, first: int, last: int) -> None:
        """Add the sequences from `first` to `last`, both included."""
        first, last = max(1, first), min(self._last, last)
        if first > last:
            return
        low, high = first >> 3, last >> 3
        head, tail = 0xFF << (first & 7) & 0xFF, 0xFF >> (7 - (last & 7))
        if low == high:
            self._bits[low] |= head & tail
            return
        self._bits[low] |= head
        self._bits[low + 1 : high] = b"\xff" * (high - low - 1)
        self._bits[high] |= tail

    def __contains__(self, seq: int) -> bool:
        return 1 <= seq <= self._last and bool(self._bits[seq >> 3] >> (seq & 7) & 1)

    def __iter__(self) -> Iterator[int]:
        for place, byte in enumerate(self._bits):
            if byte:
                yield from (place * 8 + bit for bit in range(8) if byte >> bit & 1)


def ranges_of(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ascending ranges, ends included, of these sequences."""
    ranges: list[tuple[int, int]] = []
    for seq in sorted(set(seqs)):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def in_steps(seqs: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    """Split sequences into slices of at most `size`."""
    return (seqs[start : start + size] for start in range(0, len(seqs), size))
