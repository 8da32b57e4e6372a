"""A process in a plugin's place that speaks the wire of LangBot's runtime by hand, well or badly.

The first argument says how it behaves.
"""

import itertools
import json
import os
import subprocess
import sys
import time

CAPABILITY = os.environ["LANGBOT_PLUGIN_REGISTRATION_CAPABILITY"]
how = sys.argv[1]
numbers = itertools.count(1)


def send(message):
    write(json.dumps(message) + "\n")


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def ask(action, data, **more):
    number = next(numbers)
    send({"seq_id": number, "action": action, "data": data, **more})
    return number


def receive():
    while True:
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        message = json.loads(line)
        if message.get("type") == "chunk_start":
            text = ""
            while (part := json.loads(sys.stdin.readline()))["type"] == "chunk_data":
                text += part["data"]
            message = json.loads(text)
        if message.get("action") in ("__stream_ack", "__cancel_action"):
            notes.append(message)
            answer(message, {})
        elif message.get("action") == "__ping" and how == "deaf":
            continue
        else:
            return message


notes = []


def answer(request, data, **more):
    whole = {"seq_id": request["seq_id"], "code": 0, "message": "success", "data": data}
    send({**whole, "chunk_status": "continue", **more})


def say(request, text, index=None, run_id=None, kind="message.completed"):
    run = run_id or request["data"]["context"]["run_id"]
    message = {"role": "assistant", "content": text}
    data = {"message": message} if kind == "message.completed" else {"chunk": message}
    more = {} if index is None else {"stream_index": index}
    answer(request, {"run_id": run, "type": kind, "data": data}, **more)


def end(request):
    answer(request, {}, chunk_status="end")


def answer_of(seq_id):
    """The answer to a request; other messages are left out."""
    while (message := receive()).get("seq_id") != seq_id or "code" not in message:
        pass
    return message


# -- the beginning -----------------------------------------------------------------------------------

if how == "exits":
    sys.exit(7)
if how == "silent":
    time.sleep(1000)
if how == "giant-before":
    write('{"type": "chunk_start", "total_size": 99999999}\n')
    time.sleep(1000)
stated = "wrong" if how == "impostor" else CAPABILITY
registered = answer_of(ask("register_plugin", {"registration_capability": stated, "plugin_container": {}}))
if how == "impostor":
    sys.stderr.write(registered["message"])
    sys.exit(1)
while (message := receive()).get("action") != "initialize_plugin":
    pass
if how == "unwilling":
    send({"seq_id": message["seq_id"], "code": 1, "message": "ValueError: no key", "data": {}})
answer(message, {})


# -- runs --------------------------------------------------------------------------------------------


def act(request):
    run_id = request["data"]["context"]["run_id"]
    match how:
        case "again":
            twice = answer_of(ask("register_plugin", {"registration_capability": CAPABILITY}))
            say(request, json.dumps(twice["data"]["error"]["code"]))
        case "garbage":
            write("Traceback (most recent call last):\n\x00\xff\n[1, 2]\n{}\n" + "{" * 5000 + "\n")
            write('{"type": "chunk_data", "data": "x", "offset": 0}\n')
            say(request, "well")
        case "giant-line":
            say(request, "so far", kind="message.delta")
            write("x" * 17_000_000)
        case "giant-message":
            say(request, "so far", kind="message.delta")
            write('{"type": "chunk_start", "total_size": 17000000}\n')
        case "closes":
            os.close(1)
            time.sleep(1000)
        case "leaves-one":
            left = subprocess.Popen(["sleep", "1000"])
            say(request, str(left.pid), kind="message.delta")
            os._exit(9)
        case "wrong-seq":
            for seq_id in (99999, -1, 0, "1", None, True, 1.5, 2**70):
                send({"seq_id": seq_id, "code": 0, "message": "", "data": {"x": 1}, "chunk_status": "end"})
            for seq_id in ("1", None, True):
                send({"seq_id": seq_id, "action": "run_get", "data": {"run_id": run_id}})
            send({"seq_id": 5, "action": 7, "data": {}})
            refused = answer_of(5)
            say(request, refused["data"]["error"]["message"])
        case "same-seq":
            send({"seq_id": 40, "action": "call_tool", "data": {"run_id": run_id, "tool_name": "slow"}})
            send({"seq_id": 40, "action": "run_get", "data": {"run_id": run_id}})
            first = answer_of(40)
            say(request, first["data"]["error"]["message"])
        case "foreign":
            refused = answer_of(ask("state_get", {"run_id": "other", "scope": "actor", "key": "k"}))
            say(request, "for another", run_id="other")
            say(request, refused["data"]["error"]["code"])
        case "flood":
            for index in range(1, 200):
                say(request, f"w{index} ", index, kind="message.delta")
        case "old-flood":
            for _ in range(2000):
                say(request, "w ", kind="message.delta")
        case "wrong-index":
            say(request, "one", 1)
            say(request, "three", 3)
        case "busy":
            asked = [ask("call_tool", {"run_id": run_id, "tool_name": "slow"}) for _ in range(140)]
            busy = {receive()["data"]["error"]["code"] for _ in range(12)}
            for seq_id in asked:
                ask("__cancel_action", {"seq_id": seq_id})
            say(request, json.dumps(sorted(busy)))
        case "unread":
            say(request, "so far", kind="message.delta")
            while True:
                ask("get_langbot_version", {"run_id": "x" * 3000})
        case "slow-reader":
            call = {"run_id": run_id, "llm_model_uuid": "any-model", "messages": []}
            seq_id = ask("invoke_llm_stream", call, stream_flow_control=1)
            got = [receive() for _ in range(8)]
            ask("__ping", {})
            got.append(receive())  # the ninth piece is not sent: the next message is the answer to the ping
            ask("__stream_ack", {"seq_id": seq_id, "index": 8})
            rest = [receive() for _ in range(3)]
            say(request, json.dumps([one.get("stream_index") for one in got + rest]))
        case "gives-up":
            call = {"run_id": run_id, "llm_model_uuid": "any-model", "messages": []}
            seq_id = ask("invoke_llm_stream", call, stream_flow_control=1)
            receive()
            cancelled = ask("__cancel_action", {"seq_id": seq_id})
            say(request, json.dumps(answer_of(cancelled)["data"]))
        case "no-terminal":
            say(request, "said")
            return
        case _:
            say(request, "well")
    end(request)


while True:
    message = receive()
    match message.get("action"):
        case "run_runner":
            act(message)
        case "shutdown" | "__ping":
            answer(message, {})
