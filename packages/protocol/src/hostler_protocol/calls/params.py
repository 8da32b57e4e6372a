"""Base class of all parameters, and the empty reply."""

from __future__ import annotations

from hostler_protocol._base import Lenient, Strict


class CallParams(Lenient, kw_only=True):
    """Parameters of a call. `run_id` of the run that makes it.

    `alone`: its attempt waits for no other answer. Answers may be sent ahead only of such calls.
    """

    run_id: str
    alone: bool = False


class Nothing(Strict):
    """An empty answer."""
