"""`ANY`: the value of a filter that does not filter. None means IS NULL, which is something else."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias


class Unfiltered(Enum):
    """The type of `ANY`."""

    ANY = "any"


ANY: Final = Unfiltered.ANY
AnyOr: TypeAlias = Literal[Unfiltered.ANY] | str | None
"""ANY: do not filter; None: only rows without a value; a string: that value."""
