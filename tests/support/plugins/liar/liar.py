"""A plugin in plain Python whose tools answer in every wrong way; a good one among them."""

import json
import os
import sys
import time

WAYS = [
    "good",
    "wrong_id",
    "twice",
    "no_result",
    "number",
    "huge",
    "too_huge",
    "denied",
    "expired",
    "cancelled",
    "odd_code",
    "no_data",
    "flood",
    "deep",
    "silent",
    "late",
    "garbage",
]
late = []


def write(data):
    while data:
        data = data[os.write(1, data) :]


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def fault(id_, code, text="a person said so", number=-32000):
    data = {"code": code, "message": text, "retryable": False, "details": {"decided_by": "ada"}}
    send({"id": id_, "error": {"code": number, "message": text, "data": data}})


def answer(id_, way):
    good = {"id": id_, "result": {"result": way}}
    if way == "good":
        send(good)
    elif way == "wrong_id":
        send({"id": id_ + 1000, "result": {"result": "not yours"}})
        send({"id": str(id_), "result": {"result": "not yours"}})
        send(good)
    elif way == "twice":
        send(good)
        send({"id": id_, "result": {"result": "again"}})
    elif way == "no_result":
        send({"id": id_, "result": {"outcome": 1}})
    elif way == "number":
        send({"id": id_, "result": 7})
    elif way in ("huge", "too_huge"):
        size = (2 if way == "huge" else 9) * 1024 * 1024
        send({"id": id_, "result": {"result": "x" * size}})
    elif way in ("denied", "expired", "cancelled"):
        fault(id_, way)
    elif way == "odd_code":
        fault(id_, "exploded")
    elif way == "no_data":
        send({"id": id_, "error": {"code": 1, "message": "no data"}})
    elif way == "flood":
        for number in range(30_000):
            send({"id": 10_000_000 + number, "result": {"result": 1}})
    elif way == "deep":
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"result":%s%s}}\n' % (id_, b"[" * 90_000, b"]" * 90_000))
    elif way == "late":
        late.append(id_)
    elif way == "garbage":
        write(b"no json at all\n")


def take(message):
    id_, method, params = message.get("id"), message["method"], message.get("params")
    if method == "initialize":
        identity = {"author": "evil", "name": "liar", "version": "1.0.0"}
        send({"id": id_, "result": {"protocol": 1, "plugin": identity, "tools": True}})
    elif method == "runners/list":
        send({"id": id_, "result": {"runners": []}})
    elif method == "tools/list":
        tools = [{"name": way} for way in WAYS]
        send({"id": id_, "result": {"tools": [{"name": "bad name"}, 5, {"name": "x", "y": 1}, *tools]}})
    elif method == "tool/call":
        answer(id_, params["tool_name"])
    elif method == "tool/lookup":
        send({"id": id_, "result": {"found": "perhaps"}})
    elif method == "tool/cancel":
        for one in late:
            send({"id": one, "result": {"result": "after all"}})
        late.clear()
    elif id_ is not None:
        send({"id": id_, "result": {}})
        if method == "shutdown":
            sys.exit(0)


for line in sys.stdin.buffer:
    take(json.loads(line))
time.sleep(0)
