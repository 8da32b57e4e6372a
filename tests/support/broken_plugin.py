"""A plugin that keeps every rule but one: `python broken_plugin.py FAULT` (or `none`).

Standard library only, one loop, no threads: a run is a list of results that go out as credit comes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

FAULT = sys.argv[1]
IDENTITY = {"author": "acme", "name": "broken", "version": "1.0.0"}
MANIFEST: dict[str, Any] = {"id": "plugin:acme/broken/default", "name": "default", "label": {"en": "Broken"}}
READ_BYTES = 1 << 20

runs: dict[str, Run] = {}
held: list[dict[str, Any]] = []
shutdowns: list[Any] = []
channels: set[str] = set()
closed: list[dict[str, Any]] = []


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def refuse(id_: Any, code: int, text: str, fault_code: str = "invalid_argument") -> None:
    fault = {"code": fault_code, "message": text, "retryable": False, "details": {}}
    send({"id": id_, "error": {"code": code, "message": text, "data": fault}})


class Run:
    def __init__(self, run_id: str, credit: int) -> None:
        self.id, self.credit, self.sequence = run_id, credit, 0
        self.left: list[tuple[str, dict[str, Any]]] = [
            ("message.delta", {"chunk": {"role": "assistant", "content": "a"}}),
            ("message.delta", {"chunk": {"role": "assistant", "content": "b"}}),
            ("message.completed", {"message": {"role": "assistant", "content": "ab"}}),
        ]
        if FAULT == "bad_payload":
            self.left[1] = ("message.delta", {"text": "b"})
        if FAULT == "host_only_result":
            self.left[1] = ("attempt.started", {"attempt": 2, "cause": "me", "discard_after": 0})
        if FAULT == "sequence_from_zero":
            self.sequence = -1
        if FAULT == "sequence_gap":
            self.sequence = 4

    def advance(self) -> None:
        while self.left and (self.credit > 0 or FAULT == "ignores_credit"):
            self.credit -= 1
            self.sequence += 1
            kind, data = self.left.pop(0)
            params = {"run_id": self.id, "type": kind, "sequence": self.sequence, "data": data}
            send({"method": "run/result", "params": params})
        if not self.left and FAULT != "no_run_end":
            self.end()

    def end(self) -> None:
        del runs[self.id]
        send({"method": "run/end", "params": {"run_id": self.id}})
        if FAULT == "talks_after_end":
            data = {"level": "info", "text": "late"}
            params = {"run_id": self.id, "type": "log", "sequence": self.sequence + 1, "data": data}
            send({"method": "run/result", "params": params})


def initialize(id_: Any, params: Any) -> None:
    versions = params["protocol"]
    if not versions["min"] <= 1 <= versions["max"] and FAULT != "any_version":
        refuse(id_, -32000, "only version 1")
        return
    version = {"chooses_outside": 7, "any_version": versions["max"]}.get(FAULT, 1)
    offers = FAULT != "no_runners"
    offered = {"tools": offers, "channels": offers}
    send({"id": id_, "result": {"protocol": version, "plugin": IDENTITY, **offered}})


def list_runners(id_: Any) -> None:
    manifest = dict(MANIFEST)
    if FAULT == "bad_manifest":
        manifest["capabilities"] = {"flying": True}
    if FAULT == "foreign_id":
        manifest["id"] = "plugin:acme/other/default"
    runners = [] if FAULT == "no_runners" else [manifest] * (2 if FAULT == "twins" else 1)
    send({"id": id_, "result": {"runners": runners}})


def list_tools(id_: Any) -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    clock = {"name": "clock", "description": "The time.", "parameters": closed, "effect": "pure"}
    ring = {"name": "ring", "description": "Rings.", "parameters": closed, "effect": "reconcilable"}
    tools = [clock, ring, *([ring] if FAULT == "tool_twins" else [])]
    send({"id": id_, "result": {"tools": tools}})


def call_tool(id_: Any, params: Any) -> None:
    if params["tool_name"] not in {"clock", "ring"} and FAULT != "any_tool":
        refuse(id_, -32000, "no such tool")
    elif params["parameters"] and FAULT not in {"any_parameters", "any_tool"}:
        refuse(id_, -32000, "no such parameter")
    elif FAULT == "drops_calls" and not hasattr(call_tool, "dropped"):
        call_tool.dropped = True  # type: ignore[attr-defined]
    else:
        send({"id": id_, "result": {"result": "noon"}})


def list_channels(id_: Any) -> None:
    bell = {"name": "bell", "label": {"en": "Bell"}}
    send({"id": id_, "result": {"channels": [bell] * (2 if FAULT == "channel_twins" else 1)}})


def use_channel(id_: Any, method: str, params: Any) -> None:
    channel_id = params["channel_id"]
    health = {"channel_id": channel_id, "health": "failed", "reason": "there is no bell"}
    if method == "channel/open":
        if params["channel"] != "bell" and FAULT != "any_channel":
            refuse(id_, -32000, "no such channel", "not_found")
        elif channel_id in channels and FAULT != "opens_twice":
            refuse(id_, -32000, "open already", "conflict")
        else:
            channels.add(channel_id)
            send({"id": id_, "result": {}})
            if FAULT != "silent_channel":
                send({"method": "ingest/health", "params": health})
    elif channel_id not in channels:
        refuse(id_, -32000, "not open", "not_found")
    elif method == "channel/close":
        channels.discard(channel_id)
        send({"id": id_, "result": {}})
        closed.append(health)
    elif FAULT != "mute_send":
        refuse(id_, -32000, "there is no bell")


def start(id_: Any, params: Any) -> None:
    try:
        run_id, runner = params["context"]["run_id"], params["runner_id"]
    except (TypeError, KeyError):
        if FAULT == "crashes_on_bad_params":
            raise
        refuse(id_, -32000 if FAULT == "bad_params_code" else -32602, "bad parameters")
        return
    if runner != MANIFEST["id"] and FAULT != "any_runner":
        refuse(id_, -32000, "no such runner")
        return
    run = runs[run_id] = Run(run_id, params["credit"])
    if FAULT == "results_before_answer":
        run.advance()
    send({"id": id_, "result": {}})
    if run_id in runs:
        run.advance()


def take_request(message: dict[str, Any]) -> None:
    id_, method, params = message["id"], message["method"], message.get("params")
    if method == "initialize":
        initialize(id_, params)
    elif method == "runners/list":
        list_runners(id_)
    elif method == "tools/list":
        list_tools(id_)
    elif method == "tool/call":
        call_tool(id_, params)
    elif method == "tool/lookup":
        send({"id": id_, "result": {"found": FAULT == "invents_outcomes"}})
    elif method == "channels/list":
        list_channels(id_)
    elif method.startswith("channel/"):
        use_channel(id_, method, params)
    elif method == "run/start":
        if FAULT == "one_at_a_time" and runs:
            held.append(message)
        else:
            start(id_, params)
    elif method == "ping":
        if FAULT == "talks_after_close" and closed:  # after the answer was read: not in one piece with it
            send({"method": "ingest/health", "params": closed[-1]})
        if not (FAULT == "deaf_during_runs" and runs):
            send({"id": id_, "result": {}})
    elif method == "shutdown":
        shutdowns.append(id_)
        if FAULT == "drops_runs":
            runs.clear()
    elif FAULT != "silent_on_unknown":
        refuse(id_, -32600 if FAULT == "unknown_code" else -32601, "unknown method")


def take_note(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params") or {}
    run = runs.get(str(params.get("run_id")))
    if method == "run/credit" and run:
        run.credit += params["results"]
        run.advance()
    elif method == "run/cancel" and run and FAULT != "ignores_cancel":
        run.end()
    elif method == "run/ahead" and FAULT == "takes_any":
        params = {"run_id": params["run_id"], "scope": "actor", "key": "k"}
        send({"method": "host/state.get", "params": params})
    elif method.startswith("conformance/") and FAULT == "answers_notifications":
        refuse(None, -32601, "unknown notification")


def take(message: dict[str, Any]) -> None:
    if "id" in message and "method" in message:
        take_request(message)
    elif "method" in message:
        take_note(message)
    if held and not runs:
        first = held.pop(0)
        start(first["id"], first["params"])
    if shutdowns and not runs:
        if FAULT != "mute_shutdown":
            send({"id": shutdowns[0], "result": {}})
        if FAULT != "stays_after_shutdown":
            sys.exit(5 if ("loses_channels" if channels else "exits_with_status") == FAULT else 0)


def main() -> None:
    if FAULT == "prints":
        sys.stdout.write("Starting up!\n")
        sys.stdout.flush()
    if FAULT == "dies":
        sys.exit("cannot find my model")
    buffer = b""
    while data := os.read(0, READ_BYTES):
        if FAULT == "whole_reads":  # takes what one read gives for whole messages
            for line in data.splitlines():
                take(json.loads(line))
            continue
        buffer += data
        if FAULT == "small_buffer" and len(buffer) > 4 << 20:
            sys.exit("line too long")
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            take(json.loads(line))
    while FAULT == "ignores_eof":
        os.read(os.pipe()[0], 1)


main()
