"""The protocol as one JSON document: `python -m hostler_protocol.schema` prints `schema/v1.json`.

`$defs` is JSON Schema (2020-12) of every wire type; `methods`, `calls`, `results`, `errors` and `limits` are
the tables of this package. All of it is generated from the code, so that it cannot drift.
"""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any

import msgspec

from hostler_protocol import errors, limits
from hostler_protocol.calls import CALLS
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.events import EventEnvelope
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_protocol.methods import METHODS, Method
from hostler_protocol.pausing import Continuation
from hostler_protocol.results import HOST_ONLY_RESULTS, RESULT_TYPES, TERMINAL_RESULTS

_REF = "#/$defs/{name}"
UNDECODED: dict[tuple[str, str], Any] = {
    ("RunnerList", "runners"): {"type": "array", "items": {"$ref": "#/$defs/AgentRunnerManifest"}},
    ("ChannelList", "channels"): {"type": "array", "items": {"$ref": "#/$defs/ChannelManifest"}},
    ("RunAppendParams", "result"): {"$ref": "#/$defs/AgentRunResult"},
    ("StreamNote", "chunk"): {"$ref": "#/$defs/ModelChunk"},
    ("AgentRunResult", "data"): {
        "description": "The payload of this result's type: see `results`.",
        "type": "object",
    },
    ("JournalRecord", "data"): {"description": "Of a result: its payload is `data` in here."},
}
"""Schemas of the fields that the code keeps undecoded."""


def wire_types() -> list[Any]:
    """Return every type that crosses the wire, each once."""
    types: dict[Any, None] = {}
    for method in METHODS.values():
        types[method.params] = None
        if method.reply is not None:
            types[method.reply] = None
    for call in CALLS.values():
        if call.chunk is not None:
            types[call.chunk] = None
    types |= dict.fromkeys(RESULT_TYPES.values())
    types |= dict.fromkeys((AgentRunnerManifest, ChannelManifest, EventEnvelope, Continuation, errors.Fault))
    return list(types)


def summary(kind: Any) -> str:
    """Return the docstring of a type as one line."""
    origin = getattr(kind, "__origin__", kind)
    return " ".join((inspect.getdoc(origin) or "").split())


def constants(module: Any) -> list[tuple[str, Any, str]]:
    """Return the documented integer constants of a module, in order, as (name, value, docstring)."""
    body = ast.parse(inspect.getsource(module)).body
    found: list[tuple[str, Any, str]] = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        value = getattr(module, name)
        if name.isupper() and isinstance(value, int) and _text(after):
            found.append((name, value, _text(after)))
    return found


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def document() -> dict[str, Any]:
    """Build the document."""
    types = wire_types()
    references, definitions = msgspec.json.schema_components(types, ref_template=_REF)
    reference = dict(zip(types, references, strict=True))
    for (name, field), schema in UNDECODED.items():
        definitions[name]["properties"][field] = schema
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:hostler:agent-runner-protocol:v1",
        "title": "AgentRunner Protocol v1",
        "protocol_version": limits.PROTOCOL_VERSION,
        "methods": {name: _method(method, reference) for name, method in METHODS.items()},
        "calls": {name: _call(name, reference) for name in CALLS},
        "results": {
            name: {
                "data": reference[kind],
                "sender": "host" if name in HOST_ONLY_RESULTS else "runner",
                "terminal": name in TERMINAL_RESULTS,
            }
            for name, kind in RESULT_TYPES.items()
        },
        "errors": {
            code: {"description": summary(kind), "retryable": kind.retryable}
            for code, kind in errors.ERRORS.items()
        },
        "run_failures": {code: failure.meaning for code, failure in errors.RUN_FAILURES.items()},
        "retryable_run_failures": [
            code for code, failure in errors.RUN_FAILURES.items() if failure.retryable
        ],
        "limits": {
            name: {"value": value, "description": reason} for name, value, reason in constants(limits)
        },
        "$defs": dict(sorted(definitions.items())),
    }


def _method(method: Method, reference: dict[Any, Any]) -> dict[str, Any]:
    row = {
        "sender": method.sender.value,
        "kind": "request" if method.is_request else "notification",
        "params": reference[method.params],
    }
    return row | ({"reply": reference[method.reply]} if method.is_request else {})


def _call(name: str, reference: dict[Any, Any]) -> dict[str, Any]:
    call = CALLS[name]
    row: dict[str, Any] = {"method": f"host/{name}", "effect": call.effect}
    if call.permission is not None:
        row["permission"] = {call.permission[0]: call.permission[1]}
    if call.resource is not None:
        row["resource"] = call.resource
    if call.chunk is not None:
        row["chunk"] = reference[call.chunk]
    return row


def text() -> str:
    """Return the text of `schema/v1.json`."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
