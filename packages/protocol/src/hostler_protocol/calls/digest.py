"""The digest of a call's parameters, by which host and plugin recognise a call that is made again."""

from __future__ import annotations

from functools import cache

from hostler_protocol.calls.params import CallParams
from hostler_protocol.ids import digest

VOLATILE_PARAMS = frozenset({"run_id", "alone", "tool_call_id", "upload_id"})
"""Parameters that differ between two executions of the same call: its digest leaves them out."""


def digest_of(params: CallParams) -> str:
    """Return the digest of the parameters, without the fields that differ between attempts."""
    return digest({name: getattr(params, name) for name in _names_in_digest(type(params))})


@cache
def _names_in_digest(params: type[CallParams]) -> list[str]:
    return [name for name in params.__struct_fields__ if name not in VOLATILE_PARAMS]
