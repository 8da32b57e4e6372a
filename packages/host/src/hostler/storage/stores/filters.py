"""Values of filters that are not set. None is a filter too: it means IS NULL."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias


class Unfiltered(Enum):
    """The type of `ANY`."""

    ANY = "any"


ANY: Final = Unfiltered.ANY
AnyOr: TypeAlias = Literal[Unfiltered.ANY] | str | None
"""ANY: no filter; None: only rows without a value; a string: rows with that value."""
NEWEST: Final = 2**62
"""Above every sequence, version and time: where a list begins that runs backward from the newest row."""
