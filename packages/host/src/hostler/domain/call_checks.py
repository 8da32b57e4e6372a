"""The checks in front of a host call, in their order, by the names that journals use."""

from __future__ import annotations

from typing import Literal, get_args

CallCheck = Literal[
    "connection", "attempt", "grant", "arguments", "rate", "deadline", "budget", "approval", "quota"
]
"""`approval`: people, or a client, had to let the call go on. `quota`: what it stores has to fit. The others
are the gate's (calls/gate.py).
"""
CHECKS: tuple[CallCheck, ...] = get_args(CallCheck)
