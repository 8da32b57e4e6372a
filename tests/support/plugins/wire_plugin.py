"""A plugin in plain Python that speaks the wire itself and does on demand what real plugins do wrong.

The behaviour is told by HOSTLER_PLUGIN_TEST (at start) and by the text of a run's input (per run).
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

START = os.environ.get("HOSTLER_PLUGIN_TEST", "")
AUTHOR = os.environ.get("HOSTLER_PLUGIN_AUTHOR", "test")
NAME = os.environ.get("HOSTLER_PLUGIN_NAME", "wire")
RUNNER = {"id": f"plugin:{AUTHOR}/{NAME}/default", "name": "default", "label": {"en": "Wire"}}
SLEEPER = "import time\nwhile True: time.sleep(60)\n"

out_lock = threading.Lock()
out = sys.stdout.buffer
calls = {}
granted = {}
call_ids = itertools.count(1)


def send(message):
    with out_lock:
        out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        out.flush()


def result(run_id, sequence, kind, data):
    send(
        {
            "method": "run/result",
            "params": {"run_id": run_id, "type": kind, "sequence": sequence, "data": data},
        }
    )


def say(run_id, text, sequence=1):
    result(run_id, sequence, "message.completed", {"message": {"role": "assistant", "content": text}})


def end(run_id):
    send({"method": "run/end", "params": {"run_id": run_id}})


def call(run_id, method, params, then):
    id_ = f"c{next(call_ids)}"
    calls[id_] = (run_id, then)
    send({"id": id_, "method": f"host/{method}", "params": {"run_id": run_id, **params}})
    return id_


def spawn_daemon():
    """A grandchild that leaves the session, the group and its parent behind; returns once it has."""
    code = (
        "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        f"print('ready', flush=True)\n{SLEEPER}"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    child.stdout.readline()
    child.wait()


def run_start(run_id, text):
    word, _, rest = text.partition(" ")
    if word == "echo":
        say(run_id, rest)
        end(run_id)
    elif word == "wait":
        pass
    elif word == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "exit":
        sys.stderr.write("about to leave\n")
        sys.stderr.flush()
        os._exit(int(rest))
    elif word == "hang":
        while True:
            time.sleep(60)
    elif word == "daemon":
        spawn_daemon()
        say(run_id, "started")
        end(run_id)
    elif word == "pids":
        say(run_id, json.dumps([os.getpid(), os.getppid(), sorted(os.environ)]))
        end(run_id)
    elif word == "call":
        call(
            run_id,
            "state.get",
            {"scope": "actor", "key": rest},
            lambda answer: (say(run_id, answer), end(run_id)),
        )
    elif word == "calls":
        send_many_calls(run_id, int(rest))
    elif word == "giveup":
        id_ = call(run_id, "host.info", {}, lambda answer: None)
        send({"method": "host/cancel", "params": {"id": id_}})
    elif word == "flood":
        flood(run_id, int(rest))
    elif word == "overspend":
        for index in range(1, 80):
            say(run_id, "x", index)
    elif word == "big":
        say(run_id, "x" * int(rest))
        end(run_id)
    elif word == "noise":
        out.write(b"this is not JSON\n")
        out.flush()
    elif word == "foreign":
        for index in range(int(rest)):
            say(f"not-mine-{index}", "x")
        call("not-mine", "state.get", {"scope": "actor", "key": "k"}, lambda a: (say(run_id, a), end(run_id)))
    elif word == "stderr":
        chunk = "e" * 99 + "\n"
        for _ in range(int(rest) // 100):
            sys.stderr.write(chunk)
        sys.stderr.flush()
        say(run_id, "written")
        end(run_id)
    elif word == "badresults":
        for _ in range(int(rest)):
            send({"method": "run/result", "params": {"run_id": run_id, "type": 5, "sequence": 1}})
        say(run_id, "done")
        end(run_id)
    elif word == "deaf":
        say(run_id, "deaf now")
        threading.Event().wait()


def send_many_calls(run_id, count):
    left = [count]

    def answered(answer):
        left[0] -= 1
        if left[0] == 0:
            say(run_id, "all answered", 2)
            end(run_id)

    for _ in range(count):
        call(run_id, "history.page", {"limit": 100}, answered)
    result(run_id, 1, "log", {"level": "info", "text": "all asked"})


def flood(run_id, count):
    def work():
        for index in range(1, count + 1):
            while granted[run_id] <= 0:
                time.sleep(0.001)
            granted[run_id] -= 1
            data = {"chunk": {"role": "assistant", "content": "y" * 1000}}
            result(run_id, index, "message.delta", data)
        end(run_id)

    threading.Thread(target=work, daemon=True).start()


def answer_request(message):
    method, id_, params = message["method"], message["id"], message.get("params") or {}
    if method == "initialize":
        if START == "refuse":
            fault = {"code": "invalid_argument", "message": "only protocol 7"}
            send({"id": id_, "error": {"code": -32000, "message": "only protocol 7", "data": fault}})
            return
        version = 9 if START == "version" else 1
        author = "somebody-else" if START == "identity" else AUTHOR
        send(
            {
                "id": id_,
                "result": {"protocol": version, "plugin": {"author": author, "name": NAME, "version": "1.2"}},
            }
        )
    elif method == "runners/list":
        runners = [RUNNER]
        if START == "runners":
            runners = [
                {**RUNNER, "id": "plugin:other/thing/default"},
                {"name": "broken"},
                {**RUNNER, "capabilities": {"telepathy": True}},
                RUNNER,
            ]
        send({"id": id_, "result": {"runners": runners}})
    elif method == "run/start":
        context = params["context"]
        text = context["input"].get("text") or ""
        if text == "refuse":
            fault = {"code": "not_found", "message": "no such runner here"}
            send({"id": id_, "error": {"code": -32000, "message": "no", "data": fault}})
            return
        if text == "silent":
            return
        send({"id": id_, "result": {}})
        granted[context["run_id"]] = params["credit"]
        run_start(context["run_id"], text)
    elif method == "ping":
        if START != "noping":
            send({"id": id_, "result": {}})
    elif method == "shutdown":
        send({"id": id_, "result": {}})
        if START != "stubborn":
            sys.exit(0)
    else:
        send({"id": id_, "error": {"code": -32601, "message": f"unknown method {method}"}})


def take(message):
    if "method" not in message:
        _, then = calls.pop(message["id"])
        then(json.dumps(message.get("result", message.get("error"))))
    elif "id" in message:
        answer_request(message)
    elif message["method"] == "run/credit":
        granted[message["params"]["run_id"]] += message["params"]["results"]
    elif message["method"] == "run/cancel" and START != "ignores":
        say(message["params"]["run_id"], "cancelled")
        end(message["params"]["run_id"])


def main():
    if START == "crash":
        sys.stderr.write(
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'nowhere'\n"
        )
        sys.exit(1)
    if START == "explain":
        sys.stderr.write("hostler-plugin-error: echo.py has no class Ecko; did you mean Echo?\n")
        sys.exit(3)
    if START == "mute":
        time.sleep(3600)
    if START == "stdout":
        out.write(b"Loading the model...\n")
        out.flush()
    if START == "daemon":
        spawn_daemon()
    for line in sys.stdin.buffer:
        take(json.loads(line))


if __name__ == "__main__":
    main()
