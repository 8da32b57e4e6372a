"""Hooks of schemathesis: what it sends gets further into the host, and never waits.

- `wait` keeps what is wrong with it; of what is right no more than a moment is waited for.
- The stream of a run that is not over stays open until it is: such a run is cancelled first, then it ends.
- Streams over many runs have no end, and are not asked for here: tests/host/http/test_http_fuzz.py does.
- Methods that a path does not have are not sent (see `configuration`): tests/host/http/test_http_refusals.py
  sends them to all paths.
- The document does not say all that the host demands (an event's agent exists, a name is not empty). Bodies
  are made of narrower copies of their schemas, else all of them were refused at the door; answers are held
  against the document as it is.
- A key of idempotency that is made up is one of its own; schemathesis would send "0" with all requests, and
  get the first one's answer. Slashes of ids stand as `~` in its configuration, which takes none in a path.
"""

from __future__ import annotations

import copy
import itertools
import os
from typing import Any
from urllib.parse import quote

import httpx
import schemathesis

MOMENT_SECONDS = 0.05
BOUND_SECONDS = 200.0
URL, KEY = os.environ["FUZZED_URL"], os.environ["FUZZED_KEY"]
OVER = {"completed", "failed", "cancelled", "timeout"}
RUNNERS = ["plugin:acme/shop/default", "plugin:hostler/guide/default"]
TEXT = {"type": "string", "minLength": 1}
NAME = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,20}$"}
NARROWER: dict[str, dict[str, Any]] = {
    "Input": {"text": TEXT},
    "PostedEvent": {
        "input": {"$ref": "#/components/schemas/NarrowInput"},
        "event_type": {"enum": ["message.received", "order.placed"]},
        "agent": {"enum": ["guide", "clerk", None]},
        "conversation_id": {"enum": ["talk", "desk-0", "new", None]},
        "workspace_id": {"enum": ["default", None]},
        **{
            name: {"anyOf": [TEXT, {"type": "null"}]}
            for name in (
                *("event_id", "source_event_type", "source_event_id", "bot_id", "thread_id", "raw_ref"),
                *("launcher_type", "launcher_id", "sender_id", "session_id"),
            )
        },
        "source": TEXT,
    },
    "AgentSpec": {
        "name": NAME,
        "runner": {"enum": RUNNERS},
        "event_types": {"type": "array", "items": TEXT},
        "filters": {"type": "array", "items": {"enum": ["true", "event.input.text == 'a'"]}},
    },
    "ConfigFile": {
        "plugins": {"type": "array", "maxItems": 0},
        "agents": {"type": "array", "items": {"$ref": "#/components/schemas/NarrowAgentSpec"}},
        "webhooks": {"type": "array", "maxItems": 0},
        "pause_key": {"type": "array", "maxItems": 0},
        "master_key": {"type": "array", "maxItems": 0},
        "tools": {"type": "array", "maxItems": 0},
        "skills": {"type": "array", "maxItems": 0},
    },
    "NewKey": {"rights": {"type": "array", "minItems": 1, "items": {"enum": ["runs:read", "admin"]}}},
    "ActRequest": {
        "revision": {"enum": [1, 2]},
        "actions": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Action"}},
    },
}

host = httpx.Client(
    base_url=URL, headers={"authorization": f"Bearer {KEY}"}, timeout=BOUND_SECONDS, trust_env=False
)
numbers = itertools.count()


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Give bodies narrower schemas."""
    schemas = raw_schema["components"]["schemas"]
    for name, changes in NARROWER.items():
        narrow = copy.deepcopy(schemas[name])
        unknown = set(changes) - set(narrow["properties"])
        assert not unknown, f"{name} has no {unknown} any more"
        narrow["properties"] |= changes
        narrow["required"] = [*narrow.get("required", []), *(["text"] if name == "Input" else [])]
        schemas[f"Narrow{name}"] = narrow
    for operation in (one for path in raw_schema["paths"].values() for one in path.values()):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            if name in NARROWER:
                content["schema"] = {"$ref": f"#/components/schemas/Narrow{name}"}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Look at one request before it is sent."""
    query, headers, path = case.query or {}, case.headers or {}, case.path_parameters or {}
    wait = _number(query.get("wait"))
    if wait is not None and wait > MOMENT_SECONDS:
        query["wait"] = MOMENT_SECONDS
    key = headers.get("Idempotency-Key")
    if isinstance(key, str) and key not in ("the same", "another") and 0 < len(key) < 200 and key.isascii():
        headers["Idempotency-Key"] = f"{key}{next(numbers)}"
    for name in ("plugin", "runner_id"):
        if isinstance(path.get(name), str) and "~" in path[name]:
            path[name] = path[name].replace("~", "%2F")
    if case.operation.path == "/v1/runs/{run_id}/stream":
        _end(str(path.get("run_id", "")))


def _end(run_id: str) -> None:
    found = host.get(f"/v1/runs/{quote(run_id, safe='')}")
    if found.status_code == 200 and found.json()["status"] not in OVER:
        host.post(f"/v1/runs/{quote(run_id, safe='')}/cancel", json={"grace": 0}).raise_for_status()


def _number(value: Any) -> float | None:
    """What the host would take for a number of seconds; None: it refuses it, or there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number <= 86_400 else None
