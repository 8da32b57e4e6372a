"""What all calls have in common."""

from __future__ import annotations

from hostler_protocol._base import Lenient, Strict


class CallParams(Lenient):
    """What every call names: the run it is made for."""

    run_id: str


class Nothing(Strict):
    """An empty answer."""
