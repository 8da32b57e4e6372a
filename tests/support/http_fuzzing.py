"""A host with something of everything in it, and what schemathesis is told of it.

`furnish` makes runs, pauses, files and keys over HTTP; `configuration` is a schemathesis.toml whose
dictionaries hold their ids, so that requests reach what exists. What is there to be deleted is named apart.
`HOOKS` is the file that brings requests further and keeps them from waiting (see there).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

HOOKS = Path(__file__).with_name("http_fuzzing_hooks.py")
RUNNERS = ["plugin:acme/shop/default", "plugin:hostler/guide/default"]
WORDS = ["note: buy bread", "count to 9", "bread", "shop.prices {}", 'shop.refund {"receipt": "R2"}', "null"]
ASKS = 'shop.book {"kind": "double"}\nshop.refund {"receipt": "R1"}'
PAUSES = 6
ENDLESS = ["/v1/stream", "/v1/conversations/{conversation_id}/stream"]
"""Streams over many runs, which a request waits for in vain; test_http_fuzz.py asks for them."""

Ids = dict[str, list[str]]


@dataclass
class Furniture:
    """Ids by what they are of; `spare` are those that may be deleted, cancelled, decided."""

    ids: Ids = field(default_factory=dict)
    spare: Ids = field(default_factory=dict)


def furnish(client: httpx.Client) -> Furniture:
    """Fill a host that serves the guide and the shop, under the agents `guide` and `clerk`."""
    ended = [
        _say(client, "guide", text, "talk")
        for text in ("my name is Ada", "note: buy bread", "count to 9", "what did I say?")
    ]
    gone = [_say(client, "guide", "my name is Eve", f"gone-{number}") for number in range(3)]
    waiting = [_say(client, "clerk", ASKS, f"desk-{number}") for number in range(PAUSES)]
    assert {run["status"] for run in ended + gone} == {"completed"}
    assert {run["status"] for run in waiting} == {"paused"}
    later = _post(client, "/v1/events", {**_event("guide", "later", "talk"), "delay": 3_000_000})
    pauses = [_get(client, f"/v1/pauses?run_id={run['run_id']}")["items"][0] for run in waiting]
    files = [client.post(f"/v1/artifacts?name={name}.txt", content=name) for name in ("a", "b", "c", "d")]
    keys = [_post(client, "/v1/keys", {"name": f"k{n}", "rights": ["runs:read"]}) for n in range(3)]
    for number in range(3):
        _post(client, "/v1/agents", {"name": f"spare-{number}", "runner": RUNNERS[1]})
    deliveries = _get(client, "/v1/webhooks/deliveries")["items"]
    runs = [run["run_id"] for run in ended]
    artifacts = [file.json()["artifact_id"] for file in files]
    calls = [call for pause in pauses for call in pause["calls"]]
    return Furniture(
        ids={
            "run_id": runs,
            "event_id": [run["event_id"] for run in ended] + [later["event_id"]],
            "pause_id": [pause["id"] for pause in pauses],
            "call_id": [call["call_id"] for call in calls],
            "args_hash": [call["args_hash"] for call in calls],
            "artifact_id": artifacts[:2],
            "conversation_id": ["talk", *(f"desk-{number}" for number in range(PAUSES))],
            "agent": ["guide", "clerk"],
            "plugin": ["acme~shop", "hostler~guide"],
            "runner_id": [runner.replace("/", "~") for runner in RUNNERS],
            "tool": ["shop.book", "shop.choose_seat"],
            "actor_id": ["ada"],
            "delivery_id": [delivery["id"] for delivery in deliveries],
        },
        spare={
            "run_id": [*runs, *(run["run_id"] for run in waiting), later["run"]["run_id"]],
            "artifact_id": artifacts[2:],
            "conversation_id": [run["conversation_id"] for run in gone],
            "agent": [f"spare-{number}" for number in range(3)],
            "key_id": [key["record"]["key_id"] for key in keys],
        },
    )


def configuration(made: Furniture, *, examples: int) -> str:
    """The text of a schemathesis.toml."""
    lists: dict[str, list[Any]] = {
        **made.ids,
        **{f"spare-{name}": ids for name, ids in made.spare.items()},
        "text": WORDS,
        "word": ["bread", "Ada", "null", "%", "_", "OR"],
        "sequence": ["0", "1", "3", "null", "-1"],
        "key": ["the same", "another"],
        "type": ["message.received", "run.started"],
    }
    named = {
        **{f"path.{name}": name for name in made.ids if name not in ("agent", "args_hash")},
        "path.name": "agent",
        "query.agent": "agent",
        "query.run_id": "run_id",
        "query.conversation_id": "conversation_id",
        "query.q": "word",
        "query.last_event_id": "sequence",
        "header.Idempotency-Key": "key",
        "body.conversation_id": "conversation_id",
        "body.event_type": "type",
        "body.input.text": "text",
        "body.actions[*].call_id": "call_id",
        "body.actions[*].args_hash": "args_hash",
        "body.tool_actions[*].call_id": "call_id",
    }
    spared = {
        "cancel_run": {"path.run_id": "spare-run_id"},
        "retry_run": {"path.run_id": "spare-run_id"},
        "fork_run": {"path.run_id": "spare-run_id"},
        "replay_run": {"path.run_id": "spare-run_id"},
        "delete_artifact": {"path.artifact_id": "spare-artifact_id"},
        "delete_conversation": {"path.conversation_id": "spare-conversation_id"},
        "delete_agent": {"path.name": "spare-agent"},
        "put_agent": {"path.name": "spare-agent", "body.name": "spare-agent"},
        "revoke_key": {"path.key_id": "spare-key_id"},
    }
    lines = [f"hooks = {_quoted(str(HOOKS))}", "request-timeout = 200"]
    lines += ["[generation]", f"max-examples = {examples}", 'database = "none"']
    lines += ["[phases.coverage]", "unexpected-methods = []"]
    lines += [f"[dictionaries.{_quoted(name)}]\nvalues = {_quoted(ids)}" for name, ids in lists.items()]
    lines += ["[parameters]", *_bindings(named)]
    for operation, bound in spared.items():
        lines += [f"[[operations]]\ninclude-operation-id = {_quoted(operation)}", "[operations.parameters]"]
        lines += _bindings(bound)
    lines += [f"[[operations]]\ninclude-path = {_quoted(path)}\nenabled = false" for path in ENDLESS]
    return "\n".join(lines) + "\n"


def _bindings(named: dict[str, str]) -> list[str]:
    return [
        f"{_quoted(place)} = {{ dictionary = {_quoted(of)}, probability = {0.1 if of == 'key' else 0.6} }}"
        for place, of in named.items()
    ]


def _quoted(value: Any) -> str:
    """A text or a list of texts: JSON's are TOML's."""
    return json.dumps(value)


def _event(agent: str, text: str, conversation: str) -> dict[str, Any]:
    return {
        "event_type": "message.received",
        "agent": agent,
        "conversation_id": conversation,
        "actor": {"actor_type": "user", "actor_id": "ada"},
        "input": {"text": text},
    }


def _say(client: httpx.Client, agent: str, text: str, conversation: str) -> dict[str, Any]:
    run = _post(client, "/v1/events?wait=300", _event(agent, text, conversation))
    return {**run, "conversation_id": conversation}


def _post(client: httpx.Client, path: str, body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def _get(client: httpx.Client, path: str) -> Any:
    answer = client.get(quote(path, safe="/?=&"))
    assert answer.is_success, answer.text
    return answer.json()
