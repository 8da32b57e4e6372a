"""A plugin without an SDK: AgentRunner Protocol v1 in plain Python, standard library only.

One JSON object per line: requests and notifications of the host on standard input, ours on standard
output. Standard error is free for logs. Any language that reads and writes lines can do the same.
"""

import contextlib
import json
import os
import sys
import threading

PLUGIN = {"author": "acme", "name": "wire", "version": "1.0.0"}
RUNNER = {
    "id": "plugin:acme/wire/default",
    "name": "default",
    "label": {"en": "Wire"},
    "description": {"en": "Counts your visits, and answers in capitals."},
    "capabilities": {"streaming": True},
    "config_schema": [],
}
METHOD_NOT_FOUND, INVALID_PARAMS, REFUSED = -32601, -32602, -32000

sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8", newline="\n")
OUTPUT = sys.stdout  # the wire; from here on a stray print goes to the log instead
sys.stdout = sys.stderr
writing = threading.Lock()
runs: dict[str, "Run"] = {}


def send(**message):
    """Write one message. Several runs write at once, so each line is written whole."""
    line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, allow_nan=False)
    with writing:
        OUTPUT.write(line + "\n")
        OUTPUT.flush()


class StoppedError(Exception):
    """The host cancelled the run, or is gone."""


class Run(threading.Thread):
    """One run on a thread of its own, so that the main thread always reads."""

    def __init__(self, params):
        super().__init__(daemon=True)
        self.context = params["context"]
        self.id = self.context["run_id"]
        self.credit = params.get("credit", 64)
        self.sequence = 0
        self.answers = {}
        self.stopped = False
        self.silent = False
        self.news = threading.Condition()

    def run(self):
        """Answer the event, then say that nothing follows."""
        with contextlib.suppress(StoppedError):
            self.answer(self.context["input"].get("text") or "")
        with self.news:
            over, self.stopped = self.silent, True
        if runs.get(self.id) is self:
            del runs[self.id]
            if not over:
                send(method="run/end", params={"run_id": self.id})

    def answer(self, text):
        """Do what this runner is there for."""
        visits = self.call("state.get", scope="conversation", key="visits").get("value") or 0
        self.call("state.set", scope="conversation", key="visits", value=visits + 1)
        for word in text.upper().split():
            self.result("message.delta", {"chunk": {"role": "assistant", "content": word + " "}})
        whole = f"{text.upper()} (visit {visits + 1})"
        self.result("message.completed", {"message": {"role": "assistant", "content": whole}})

    def result(self, kind, data):
        """Send one result, once the host has room for it: each costs one credit."""
        self.wait_until(lambda: self.credit > 0)
        self.credit -= 1
        self.sequence += 1
        params = {"run_id": self.id, "type": kind, "sequence": self.sequence, "data": data}
        send(method="run/result", params=params)

    def call(self, name, **params):
        """Make a Host API call and wait for its answer; {} where the host refuses."""
        request_id = f"{self.id}/{len(self.answers)}"
        self.answers[request_id] = None
        send(id=request_id, method=f"host/{name}", params={"run_id": self.id, **params})
        self.wait_until(lambda: self.answers[request_id] is not None)
        return self.answers[request_id].get("result", {})

    def wait_until(self, reached):
        """Wait for news from the main thread."""
        with self.news:
            self.news.wait_for(lambda: reached() or self.stopped)
            if self.stopped:
                raise StoppedError

    def tell(self, *, credit=0, answer=None, stop=False, silent=False):
        """Bring news from the host (called by the main thread)."""
        with self.news:
            self.credit += credit
            self.stopped, self.silent = self.stopped or stop, self.silent or silent
            if answer is not None:
                self.answers[answer["id"]] = answer
            self.news.notify_all()


class RefusedError(Exception):
    """A request we cannot serve: a JSON-RPC code, our error code, and a sentence."""

    def __init__(self, number, code, text):
        super().__init__(text)
        self.error = {
            "code": number,
            "message": text,
            "data": {"code": code, "message": text, "retryable": False, "details": {}},
        }


def serve(method, params):
    """Give the result of one request."""
    if method == "initialize":
        versions = params["protocol"]
        if not versions["min"] <= 1 <= versions["max"]:
            raise RefusedError(REFUSED, "invalid_argument", f"this plugin speaks protocol 1, not {versions}")
        return {"protocol": 1, "plugin": PLUGIN}
    if method == "runners/list":
        return {"runners": [RUNNER]}
    if method == "run/start":
        run = Run(params)
        if params["runner_id"] != RUNNER["id"]:
            raise RefusedError(REFUSED, "not_found", f"there is only {RUNNER['id']} here")
        runs[run.id] = run
        return {}
    if method == "ping":
        return {}
    raise RefusedError(METHOD_NOT_FOUND, "invalid_argument", f"unknown method {method!r}")


def take_request(id_, method, params):
    """Answer one request of the host; a run begins once its start is answered."""
    try:
        answer = {"result": serve(method, params)}
    except RefusedError as refusal:
        answer = {"error": refusal.error}
    except (KeyError, TypeError) as error:
        text = f"{method}: bad parameters: {error!r}"
        answer = {"error": RefusedError(INVALID_PARAMS, "invalid_argument", text).error}
    send(id=id_, **answer)
    if method == "run/start" and "result" in answer:
        runs[params["context"]["run_id"]].start()


def take_note(method, params):
    """Take one notification of the host; those we do not know are ignored."""
    run = runs.get(params.get("run_id"))
    if run is None:
        return
    if method == "run/credit":
        run.tell(credit=params["results"])
    elif method == "run/cancel":
        run.tell(stop=True)
    elif method == "run/park":
        del runs[run.id]
        run.tell(stop=True, silent=True)


def leave_when_drained(shutdown_id):
    """Let the runs at work finish, then answer and exit."""
    for run in list(runs.values()):
        run.join()
    send(id=shutdown_id, result={})
    os._exit(0)  # the main thread still waits for the host's next line


def main():
    """Read until the host closes our input; runs are daemon threads and end with us."""
    for line in sys.stdin:
        message = json.loads(line)
        method, id_ = message.get("method"), message.get("id")
        if method is None:
            if run := runs.get(str(id_).partition("/")[0]):
                run.tell(answer=message)
        elif id_ is None:
            take_note(method, message.get("params") or {})
        elif method == "shutdown":
            threading.Thread(target=leave_when_drained, args=(id_,)).start()
        else:
            take_request(id_, method, message.get("params") or {})


if __name__ == "__main__":
    main()
