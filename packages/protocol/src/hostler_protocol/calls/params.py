"""Base class of all parameters, and the empty reply."""

from __future__ import annotations

from hostler_protocol._base import Lenient, Strict


class CallParams(Lenient):
    """Parameters of a call. `run_id` of the run that makes it."""

    run_id: str


class Nothing(Strict):
    """An empty answer."""
