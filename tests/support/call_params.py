"""Parameters for every Host API call, as a run may send them."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from hostler_protocol.calls import CALLS, CallParams

MESSAGES = [{"role": "user", "content": "hi"}]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "model.invoke": {"model_id": "gpt", "messages": MESSAGES},
    "model.stream": {"model_id": "gpt", "messages": MESSAGES},
    "model.rerank": {"model_id": "judge", "query": "q", "documents": ["a", "b"]},
    "model.embed": {"model_id": "vectors", "inputs": ["a", "b"]},
    "model.count_tokens": {"model_id": "gpt", "messages": MESSAGES},
    "tool.detail": {"tool_name": "search"},
    "tool.call": {"tool_name": "search", "parameters": {"q": "x"}},
    "knowledge.retrieve": {"kb_id": "handbook", "query_text": "holiday"},
    "history.page": {},
    "history.search": {"query": "hello"},
    "event.get": {"event_id": "e1"},
    "event.page": {},
    "steering.pull": {},
    "artifact.metadata": {"artifact_id": "a1"},
    "artifact.read": {"artifact_id": "a1"},
    "artifact.upload": {"part": 0, "content_base64": base64.b64encode(b"bytes").decode(), "last": True},
    "state.get": {"scope": "actor", "key": "k"},
    "state.set": {"scope": "actor", "key": "k", "value": 1},
    "state.delete": {"scope": "actor", "key": "k"},
    "state.list": {"scope": "actor"},
    "storage.get": {"area": "plugin", "key": "k"},
    "storage.set": {"area": "plugin", "key": "k", "content_base64": ""},
    "storage.delete": {"area": "plugin", "key": "k"},
    "storage.keys": {"area": "plugin"},
    "file.get": {"file_id": "f1"},
    "prompt.get": {},
    "interaction.request": {"kind": "form", "title": "t"},
    "action.request": {"action": "message.react", "payload": {"emoji": "+"}},
    "run.get": {},
    "run.list": {},
    "run.events": {},
    "run.cancel": {},
    "run.create": {"agent": "helper", "input": {"text": "x"}},
    "run.append": {"target_run_id": "r1", "result": {}},
    "run.finalize": {"target_run_id": "r1", "status": "completed"},
    "schedule.create": {"text": "tea", "delay": 3_600},
    "schedule.list": {},
    "schedule.delete": {"name": "tea"},
    "host.info": {},
}
assert set(ARGUMENTS) == set(CALLS)


def params_of(method: str, run_id: str = "r1", **changes: Any) -> CallParams:
    """The parameters of a call; `changes` replace some of them."""
    data = {"run_id": run_id, **ARGUMENTS[method], **changes}
    params: CallParams = msgspec.json.decode(msgspec.json.encode(data), type=CALLS[method].params)
    return params
