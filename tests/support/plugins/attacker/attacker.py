"""A plugin that tries what it may not, in raw JSON. Standard library only.

A run's input is JSON: `do` names a behaviour below. `attack` makes `count` attempts from `seed` and writes to
the file `report` how often each kind got which code, and every answer that it should not have got.
"""

import itertools
import json
import random
import sys
from collections import Counter

NOT_OURS = {"not_found"}
PERMISSIONS = {
    "history": ["page", "search"],
    "events": ["get", "page"],
    "artifacts": ["metadata", "read"],
    "storage": ["plugin"],
    "runs": ["get", "list", "events", "cancel"],
}
RUNNER = {
    "id": "plugin:test/attacker/default",
    "name": "default",
    "label": {"en": "Attacker"},
    "permissions": PERMISSIONS,
    "config_schema": [],
}
WINDOW = 64
MEBIBYTE = 1024 * 1024

ids = itertools.count(1)
waiting = {}
attacks = {}


def send(message):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def result(run_id, sequence, kind, data):
    params = {"run_id": run_id, "type": kind, "sequence": sequence, "data": data}
    send({"method": "run/result", "params": params})


def say(run_id, text, sequence=1):
    result(run_id, sequence, "message.completed", {"message": {"role": "assistant", "content": text}})


def end(run_id):
    send({"method": "run/end", "params": {"run_id": run_id}})


class Attack:
    """The attempts of one run."""

    def __init__(self, run_id, plan):
        self.own = run_id
        self.plan = plan
        self.victim = plan["victim"]
        self.chance = random.Random(plan["seed"])
        self.left = plan["count"]
        self.open = 0
        self.codes = Counter()
        self.wrong = []
        self.kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("try_")]
        self.real_cursor = None
        self.sequence = 1

    def go(self):
        """Keep so many attempts in flight; report when all are answered."""
        while self.left and self.open < WINDOW:
            self.left -= 1
            kind = self.chance.choice(self.kinds)
            kind(kind.__name__.removeprefix("try_"))
        if not self.left and not self.open:
            self.report()
            say(self.own, "attacked", self.sequence)
            end(self.own)

    def report(self):
        """How far it is."""
        told = {
            "codes": [[*key, count] for key, count in self.codes.items()],
            "wrong": self.wrong[:20],
            "open": [str(asked[1:])[:200] for asked in waiting.values()],
        }
        with open(self.plan["report"], "w") as file:
            json.dump(told, file)

    def request(self, kind, method, params, allowed, id_=None):
        """One attempt; `allowed`: the codes that are right, or a check of the result."""
        id_ = f"a{next(ids)}" if id_ is None else id_
        waiting[id_] = (self, kind, method, params, allowed)
        self.open += 1
        send({"id": id_, "method": method, "params": params})

    def answered(self, kind, method, params, allowed, answer):
        self.open -= 1
        if "error" in answer:
            error = answer["error"]
            code = (error.get("data") or {}).get("code", error["code"])
            right = not callable(allowed) and code in allowed
            named = code
        else:
            right = callable(allowed) and allowed(answer["result"])
            named = "answered"
        self.codes[kind, str(named)] += 1
        if not right:
            self.wrong.append([kind, method, str(params)[:300], str(answer)[:300]])
        if self.left % 100 == 0 or self.left < 10:
            self.report()
        self.go()

    def noted(self, kind):
        """An attempt that has no answer."""
        self.codes[kind, "unanswered"] += 1

    def any_call(self, run_id):
        """A call that would be fine for a run of this plugin."""
        key = self.chance.choice(["secret", "name", "a:b", "%", "external.conversation_id"])
        artifact = {"artifact_id": self.victim["artifact_id"]}
        return self.chance.choice(
            [
                ("host/state.get", {"run_id": run_id, "scope": "conversation", "key": key}),
                ("host/state.set", {"run_id": run_id, "scope": "conversation", "key": key, "value": "owned"}),
                ("host/state.delete", {"run_id": run_id, "scope": "conversation", "key": key}),
                ("host/state.list", {"run_id": run_id, "scope": "conversation"}),
                ("host/storage.get", {"run_id": run_id, "area": "plugin", "key": key}),
                ("host/history.page", {"run_id": run_id}),
                ("host/history.search", {"run_id": run_id, "query": "secret"}),
                ("host/event.page", {"run_id": run_id}),
                ("host/event.get", {"run_id": run_id, "event_id": self.victim["event_id"]}),
                ("host/artifact.read", {"run_id": run_id, **artifact}),
                ("host/artifact.metadata", {"run_id": run_id, **artifact}),
                ("host/run.get", {"run_id": run_id}),
                ("host/run.cancel", {"run_id": run_id}),
                ("host/run.events", {"run_id": run_id}),
                ("host/steering.pull", {"run_id": run_id}),
                ("host/prompt.get", {"run_id": run_id}),
                ("host/host.info", {"run_id": run_id}),
            ]
        )

    # -- runs that are not ours, or are over ----------------------------------------------------------

    def try_foreign_run(self, kind):
        """The run of another plugin, and runs that do not exist."""
        made_up = self.chance.choice([self.victim["run_id"]] * 3 + ["", "../..", "x" * 5000, "\u0000", "❄"])
        self.request(kind, *self.any_call(made_up), NOT_OURS)

    def try_ended_run(self, kind):
        self.request(kind, *self.any_call(self.plan["ended"]), {"cancelled", "not_found"})

    def try_foreign_result(self, kind):
        """Results and ends for runs of others."""
        run_id = self.chance.choice([self.victim["run_id"], self.plan["ended"], "made-up"])
        if self.chance.random() < 0.3:
            end(run_id)
        else:
            data = {"message": {"role": "assistant", "content": "forged"}}
            kind_of = self.chance.choice(["message.completed", "run.completed", "state.updated", "nonsense"])
            result(run_id, self.chance.choice([1, 2, 5, -1]), kind_of, data)
        self.noted(kind)

    # -- things outside the grant -----------------------------------------------------------------

    def try_foreign_things(self, kind):
        """What belongs to another conversation, by its true id."""
        victim = self.victim
        method, params = self.chance.choice(
            [
                ("host/artifact.read", {"artifact_id": victim["artifact_id"]}),
                ("host/artifact.metadata", {"artifact_id": victim["artifact_id"]}),
                ("host/event.get", {"event_id": victim["event_id"]}),
                ("host/history.page", {"conversation_id": victim["conversation_id"]}),
                (
                    "host/history.search",
                    {"query": "secret", "filters": {"conversation_id": victim["conversation_id"]}},
                ),
                ("host/run.get", {"target_run_id": victim["run_id"]}),
                ("host/run.events", {"target_run_id": victim["run_id"]}),
                ("host/run.cancel", {"target_run_id": victim["run_id"], "reason": "mine now"}),
            ]
        )
        self.request(kind, method, {"run_id": self.own, **params}, NOT_OURS)

    def try_not_granted(self, kind):
        """Operations that no permission holds."""
        message = {"role": "user", "content": "hi"}
        method, params = self.chance.choice(
            [
                ("host/model.invoke", {"model_id": "any", "messages": [message]}),
                ("host/model.stream", {"model_id": "any", "messages": [message]}),
                ("host/model.rerank", {"model_id": "any", "query": "q", "documents": ["d"]}),
                ("host/tool.call", {"tool_name": "shell", "parameters": {"command": "id"}}),
                ("host/tool.detail", {"tool_name": "shell"}),
                ("host/knowledge.retrieve", {"kb_id": "kb", "query_text": "q"}),
                ("host/file.get", {"file_id": "../../etc/passwd"}),
                ("host/run.create", {"agent": "victim", "input": {"text": "hold"}}),
                (
                    "host/run.append",
                    {"target_run_id": self.victim["run_id"], "result": {"type": "log", "data": {}}},
                ),
                ("host/run.finalize", {"target_run_id": self.victim["run_id"], "status": "completed"}),
                ("host/storage.get", {"area": "workspace", "key": "k"}),
                ("host/storage.set", {"area": "workspace", "key": "k", "content_base64": "aGk="}),
                ("host/steering.pull", {}),
                ("host/schedule.create", {"text": "again", "every": 300}),
                ("host/schedule.list", {}),
                ("host/schedule.delete", {"name": "tea"}),
            ]
        )
        allowed = {"unauthorized", "invalid_argument"} if "run." in method else {"unauthorized"}
        self.request(kind, method, {"run_id": self.own, **params}, allowed)

    def try_wrong_scope(self, kind):
        scope = self.chance.choice(
            ["subject", "runner", "global", "conversation/../actor", "", "CONVERSATION"]
        )
        known = scope in {"subject", "runner"}
        method, params = self.chance.choice(
            [
                ("host/state.get", {"key": "secret"}),
                ("host/state.set", {"key": "secret", "value": 1}),
                ("host/state.delete", {"key": "secret"}),
                ("host/state.list", {}),
            ]
        )
        allowed = {"unauthorized"} if known else {"invalid_argument"}
        self.request(kind, method, {"run_id": self.own, "scope": scope, **params}, allowed)

    def try_forged_identity(self, kind):
        """Claims to be somebody else: they are not even read."""
        claims = {
            "plugin": {"author": "test", "name": "puppet"},
            "workspace_id": "other",
            "agent_id": self.victim["agent"],
            "runner_id": "plugin:test/puppet/default",
            "conversation_id": self.victim["conversation_id"],
            "owner": "test/puppet",
            "actor": {"actor_type": "user", "actor_id": "admin"},
        }
        taken = dict(self.chance.sample(sorted(claims.items()), 3))
        params = {"run_id": self.own, "scope": "conversation", "key": "secret", **taken}
        self.request(kind, "host/state.get", params, lambda got: got == {"value": None, "version": 0})

    def try_forged_cursor(self, kind):
        real = self.plan["cursor"]
        place = self.chance.randrange(len(real))
        letter = self.chance.choice([c for c in "ABCxyz019-_" if c != real[place]])
        forged = self.chance.choice(
            [real[:place] + letter + real[place + 1 :], "", "AAAA", "a.b", "%", "❄", "A" * 10_000]
        )
        if self.chance.random() < 0.2:  # a true one, of another call
            self.request(
                kind, "host/history.page", {"run_id": self.own, "before_cursor": real}, {"invalid_argument"}
            )
            return
        method, name = self.chance.choice(
            [
                ("host/history.page", "before_cursor"),
                ("host/history.page", "after_cursor"),
                ("host/event.page", "before_cursor"),
                ("host/run.list", "before_cursor"),
            ]
        )
        self.request(kind, method, {"run_id": self.own, name: forged}, {"invalid_argument"})

    # -- messages that are no good ----------------------------------------------------------------

    def try_unknown_method(self, kind):
        method = self.chance.choice(
            [
                "host/shell",
                "host/",
                "run/start",
                "run/cancel",
                "initialize",
                "ping",
                "shutdown",
                "x" * 3000,
                "",
            ]
        )
        self.request(kind, method, {"run_id": self.own}, {"invalid_argument"})

    def try_malformed(self, kind):
        """Right methods with wrong parameters."""
        method, params = self.chance.choice(
            [
                ("host/state.get", {"scope": "conversation"}),
                ("host/state.get", {"scope": 5, "key": []}),
                ("host/state.get", {"scope": "conversation", "key": ""}),
                ("host/state.set", {"scope": "conversation", "key": "k" * 256, "value": 1}),
                ("host/state.set", {"scope": "conversation", "key": "k", "value": 1, "if_version": "x"}),
                ("host/state.set", {"scope": "conversation", "key": "nul\u0000", "value": 1}),
                ("host/history.page", {"limit": -5}),
                ("host/history.page", {"limit": "all"}),
                ("host/history.page", {"direction": "sideways"}),
                ("host/history.search", {"query": "q" * 5000}),
                ("host/artifact.read", {"artifact_id": self.victim["artifact_id"], "offset": -1}),
                ("host/artifact.upload", {"part": 0, "content_base64": "§", "last": True}),
                ("host/artifact.upload", {"part": -1, "content_base64": "aGk=", "last": True}),
                ("host/storage.set", {"area": "plugin", "key": "k", "content_base64": "no base64 !"}),
                ("host/storage.set", {"area": "disk", "key": "k", "content_base64": "aGk="}),
            ]
        )
        self.request(kind, method, {"run_id": self.own, **params}, {"invalid_argument"})

    def try_not_even_parameters(self, kind):
        params = self.chance.choice([[], None, 5, "text", {}, {"run_id": 5}, {"run_id": None}, [[[]]] * 50])
        self.request(kind, "host/state.get", params, {"invalid_argument"})

    def try_too_large(self, kind):
        """Rarely a message over every limit, more often a value over its own."""
        value = "x" * (9 * MEBIBYTE if self.chance.random() < 0.02 else 257 * 1024)
        params = {"run_id": self.own, "scope": "conversation", "key": "big", "value": value}
        self.request(kind, "host/state.set", params, {"payload_too_large"})

    def try_odd_notification(self, kind):
        method = self.chance.choice(
            ["run/result", "run/end", "host/cancel", "run/credit", "host/stream", "x"]
        )
        params = self.chance.choice(
            [{}, [], None, {"run_id": self.victim["run_id"]}, {"run_id": 5}, {"id": "a1"}, {"id": {"x": 1}}]
        )
        send({"method": method, "params": params})
        self.noted(kind)

    def try_odd_answer(self, kind):
        """Answers to questions nobody asked."""
        id_ = self.chance.choice([0, 10**9, "1", "host", "a1"])
        send(
            {"id": id_, "result": {"protocol": 1}}
            if self.chance.random() < 0.5
            else {"id": id_, "error": {"code": -32000, "message": "no"}}
        )
        self.noted(kind)

    def try_host_only_result(self, kind):
        """Results that only the host makes, or with payloads that are wrong; each takes one credit."""
        if self.plan["odd_results"] <= 0:
            self.request(kind, "host/host.info", {"run_id": self.own}, lambda got: "version" in got)
            return
        self.plan["odd_results"] -= 1
        kind_of, data = self.chance.choice(
            [
                ("attempt.started", {"attempt": 9, "cause": "me", "discard_after": 0}),
                ("interaction.requested", {"call_id": "c", "title": "t", "kind": "form"}),
                ("message.completed", {"message": {"role": "system", "content": 5}}),
                ("message.completed", {}),
                ("state.updated", {"scope": "runner", "key": "k", "value": 1}),
                ("state.updated", {"scope": "conversation", "key": "", "value": 1}),
                ("artifact.created", {"artifact_type": "file", "artifact_id": self.victim["artifact_id"]}),
                ("artifact.created", {"artifact_type": "file", "content_base64": "aGk=", "sha256": "0" * 64}),
                ("log", {"level": "loud", "text": "x"}),
            ]
        )
        result(self.own, self.sequence, kind_of, data)
        self.sequence += 1
        self.noted(kind)


def begin(run_id, plan):
    do = plan["do"]
    if do == "attack":
        attacks[run_id] = Attack(run_id, plan)
        attacks[run_id].go()
    elif do == "cursor":
        id_ = f"a{next(ids)}"
        waiting[id_] = (None, run_id)
        send({"id": id_, "method": "host/event.page", "params": {"run_id": run_id, "limit": 1}})
    elif do == "echo":
        say(run_id, plan["text"])
        end(run_id)
    elif do == "flood":
        for number in range(1, 20_001):
            result(run_id, number, "message.delta", {"chunk": {"role": "assistant", "content": "y" * 500}})
    elif do == "large":
        say(run_id, "x" * 2 * MEBIBYTE)
    elif do == "huge":
        say(run_id, "x" * 20 * MEBIBYTE)
    elif do == "pause":
        result(run_id, 1, "run.paused", {"pending": [], "state": {}})
    elif do == "sequence":
        say(run_id, "x", -1)
    elif do == "noise":
        sys.stdout.buffer.write(plan["line"].encode("utf-8", "surrogateescape") + b"\n")
        sys.stdout.buffer.flush()
    elif do == "silence":
        pass


def answer(message):
    method, id_ = message["method"], message["id"]
    if method == "initialize":
        plugin = {"author": "test", "name": "attacker", "version": "1.0.0"}
        send({"id": id_, "result": {"protocol": 1, "plugin": plugin}})
    elif method == "runners/list":
        send({"id": id_, "result": {"runners": [RUNNER]}})
    elif method == "run/start":
        send({"id": id_, "result": {}})
        context = message["params"]["context"]
        begin(context["run_id"], json.loads(context["input"]["text"]))
    else:
        send({"id": id_, "result": {}})


def take(message):
    if "method" in message:
        if "id" in message:
            answer(message)
        return
    asked = waiting.pop(message.get("id"), None)
    if asked is None:
        return
    if asked[0] is None:
        say(asked[1], json.dumps(message))
        end(asked[1])
    else:
        attack, *rest = asked
        attack.answered(*rest, message)


for line in sys.stdin.buffer:
    take(json.loads(line))
