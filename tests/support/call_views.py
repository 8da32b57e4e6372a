"""Calls of pauses as callers see them, without a host."""

from __future__ import annotations

from typing import Any

from hostler.domain.pause_values import args_hash
from hostler.domain.pause_views import CallView


def call(call_id: str, kind: str = "approval", **fields: Any) -> CallView:
    """A call that waits, with arguments."""
    whole: dict[str, Any] = {
        "title": "",
        "tool": "shop.book",
        "args": {"n": 1},
        "args_hash": args_hash({"n": 1}),
        "args_schema": None,
        "result_schema": None,
        "fields": [],
        "actions": [],
        "editable": True,
        "locked": [],
        "may_decide": True,
        "decision": "undecided",
        "execution": "none",
        "expires_at": 1.0,
        "approvals_needed": 1,
    }
    return CallView(**{**whole, "call_id": call_id, "kind": kind, **fields})
