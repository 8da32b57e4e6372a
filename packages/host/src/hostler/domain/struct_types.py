"""Prepare msgspec's type information of all structs before threads start.

msgspec builds the information of a type when it first decodes one. If two threads do so at once, one uses the
other's half-built information and the process ends with a segmentation fault (msgspec 0.22.0). Afterwards any
number of threads may decode the type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from weakref import WeakSet

import msgspec

from hostler.domain.record import Record

_learned: WeakSet[type[msgspec.Struct]] = WeakSet()


def learn_struct_types() -> None:
    """Prepare every struct type of the project that is imported so far; skip those already prepared.

    A `Record` is never decoded.
    """
    for kind in _subclasses(msgspec.Struct):
        if kind.__module__.startswith("hostler") and kind not in _learned and not issubclass(kind, Record):
            with contextlib.suppress(TypeError, NameError):  # a type that is only encoded
                msgspec.json.Decoder(kind)
            _learned.add(kind)


def _subclasses(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    found = kind.__subclasses__()
    for each in found:  # which grows meanwhile
        yield each
        found += each.__subclasses__()
