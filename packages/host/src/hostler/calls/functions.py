"""The function of each call of the Host API."""

from __future__ import annotations

from hostler.calls import (
    artifacts,
    events,
    files,
    history,
    host,
    knowledge,
    models,
    runs,
    schedules,
    state,
    steering,
    storage,
    tools,
)
from hostler.calls.scope import CallFunction, StreamFunction

CALL_FUNCTIONS: dict[str, CallFunction] = {
    "model.invoke": models.invoke,
    "model.rerank": models.rerank,
    "model.embed": models.embed,
    "model.count_tokens": models.count_tokens,
    "tool.detail": tools.detail,
    "knowledge.retrieve": knowledge.retrieve,
    "history.page": history.page,
    "history.search": history.search,
    "event.get": events.get,
    "event.page": events.page,
    "steering.pull": steering.pull,
    "artifact.metadata": artifacts.metadata,
    "artifact.read": artifacts.read,
    "artifact.upload": artifacts.upload,
    "state.get": state.get,
    "state.set": state.set_,
    "state.delete": state.delete,
    "state.list": state.list_,
    "storage.get": storage.get,
    "storage.set": storage.set_,
    "storage.delete": storage.delete,
    "storage.keys": storage.keys,
    "file.get": files.get,
    "prompt.get": host.prompt,
    "run.get": runs.get,
    "run.list": runs.list_,
    "run.events": runs.events,
    "run.cancel": runs.cancel,
    "run.create": runs.create,
    "run.append": runs.append,
    "run.finalize": runs.finalize,
    "schedule.create": schedules.create,
    "schedule.list": schedules.list_,
    "schedule.delete": schedules.delete,
    "host.info": host.info,
}
"""Host API method (without `host/`) -> its function. Together with the two below: all of `CALLS`."""

STREAM_FUNCTIONS: dict[str, StreamFunction] = {"model.stream": models.stream}
"""Calls that answer in pieces."""

SEES_RUNS = frozenset(
    {*(method for method in CALL_FUNCTIONS if method.startswith("run.")), "tool.call", "action.request"}
)
"""Calls that may look at the status and the journal of their own run."""

LEDGER_CALLS = frozenset({"tool.call", "action.request", "interaction.request"})
"""Calls that may wait for people, or reach what no transaction of ours does: executor.py and tool_calls.py
carry them out."""
