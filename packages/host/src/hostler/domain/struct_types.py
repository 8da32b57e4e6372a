"""All struct types made known to msgspec before there are threads.

msgspec learns a type the first time it decodes one. Where two threads come to an unknown type at once, the
one uses what the other has half learnt, and the process is gone with a segmentation fault (msgspec 0.22.0).
Known types are safe in any number of threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec


def learn_struct_types() -> None:
    """Make every struct type of ours that is imported so far known. Cheap where they are known already."""
    for kind in _subclasses(msgspec.Struct):
        if kind.__module__.startswith("hostler"):
            with contextlib.suppress(TypeError, NameError):  # only ever encoded: nobody decodes it
                msgspec.json.Decoder(kind)


def _subclasses(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
