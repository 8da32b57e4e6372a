"""Which tools a run used: through calls of the host, or as its runner reported. For lists of runs by tool."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

_q = load(__file__)
MAX_NAME_CHARS = 200
"""A longer name is no tool's: an agent elsewhere may report anything."""


class _Named(msgspec.Struct):
    tool_name: Any = ""
    """Of an agent elsewhere, this may be anything."""


class _Call(msgspec.Struct):
    """A `tool.call` entry's data; a large one has `resource` in place of its parameters."""

    params: _Named | None = None
    resource: str | None = None


class _Result(msgspec.Struct):
    """A `tool.call.started` result."""

    data: _Named


_calls = msgspec.json.Decoder(_Call)
_results = msgspec.json.Decoder(_Result)


def tool_of(kind: str, type_: str, data: bytes | str) -> str | None:
    """Return the tool whose use a journal entry records, or None."""
    if kind == "call" and type_ == "tool.call":
        call = _calls.decode(data)
        name = (call.resource or "") if call.params is None else call.params.tool_name
    elif kind == "result" and type_ == "tool.call.started":
        name = _results.decode(data).data.tool_name
    else:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or "\x00" in name:
        return None
    return name


def add(tx: Tx, workspace_id: str, run_id: str, tool_name: str) -> None:
    """Record that a run used a tool."""
    tx.run(_q.add, workspace_id=workspace_id, run_id=run_id, tool_name=tool_name)


def drop(tx: Tx, run_id: str) -> None:
    """Delete what was recorded of a run."""
    tx.run(_q.drop, run_id=run_id)
