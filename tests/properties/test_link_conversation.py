"""Two links talk over wires that deliver in any portions: what one said is what the other heard, in order.

The machine plays the programs behind the links. Every message carries a token; only what an attempt
said that the host had fenced may get lost, and nothing may come twice or in another order.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hostler_protocol import Side
from hostler_protocol.errors import NotFoundError
from hostler_protocol.incoming import (
    CallCancelled,
    Called,
    Incoming,
    Noted,
    Refused,
    Replied,
    ResultArrived,
    RunEnded,
    RunLeft,
    StreamArrived,
    Warned,
)
from hostler_protocol.methods import CallCancelNote, NoParams, RunCreditNote, RunEndNote, RunParkNote
from hostler_protocol.results import LogWritten, decode_data, result_of
from support.links import Pair, start

RUNS = ("r1", "r2", "r3")
CREDIT = 3


class Attempt:
    """One attempt of a run, as the program on the plugin's side knows it."""

    def __init__(self, run_id: str, number: int) -> None:
        self.run_id = run_id
        self.name = f"{run_id}.{number}"
        self.sequence = 0


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair.ready()
        self.wire = {side: bytearray() for side in Side}  # by receiver
        self.said: dict[Side, list[str]] = {side: [] for side in Side}  # by receiver
        self.heard: dict[Side, list[str]] = {side: [] for side in Side}
        self.numbers: Counter[str] = Counter()
        self.running: dict[str, Attempt] = {}  # by the plugin, answered
        self.starting: dict[Any, Attempt] = {}  # by the plugin, not answered yet
        self.calls: dict[Any, str] = {}  # the plugin's open calls and the attempt that made them
        self.asked: dict[Any, str] = {}  # calls that the host has heard and not answered
        self.pieces: Counter[Any] = Counter()
        self.lost: set[str] = set()  # attempts that were fenced, and calls that were given up

    def say(self, receiver: Side, token: str, data: bytes) -> None:
        if data:
            self.wire[receiver] += data
            self.said[receiver].append(token)

    # -- what the host's program does -------------------------------------------------------------

    @rule(run_id=st.sampled_from(RUNS))
    def start_run(self, run_id: str) -> None:
        if run_id in self.pair.host.runs:
            return
        self.numbers[run_id] += 1
        params = msgspec.structs.replace(
            start(run_id, CREDIT), runner_name=f"{run_id}.{self.numbers[run_id]}"
        )
        _, data = self.pair.host.request("run/start", params)
        self.say(Side.PLUGIN, f"start {params.runner_name}", data)

    @rule(run_id=st.sampled_from(RUNS), results=st.integers(1, 5))
    def grant_credit(self, run_id: str, results: int) -> None:
        if run_id in self.pair.host.runs:
            data = self.pair.host.notify("run/credit", RunCreditNote(run_id=run_id, results=results))
            self.say(Side.PLUGIN, f"credit {run_id} {results}", data)

    @rule(run_id=st.sampled_from(RUNS))
    def park(self, run_id: str) -> None:
        if run_id in self.pair.host.runs:
            self.lost.add(f"{run_id}.{self.numbers[run_id]}")
            data = self.pair.host.notify("run/park", RunParkNote(run_id=run_id))
            self.say(Side.PLUGIN, f"park {run_id}", data)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), how=st.sampled_from(["reply", "refuse", "stream", "stream"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.asked)))
        if how == "stream":
            sent = self.pair.host.stream(id_, {"delta": {"content": f"{id_}#{self.pieces[id_]}"}})
            self.say(Side.PLUGIN, f"piece {id_}#{self.pieces[id_]}", sent)
            self.pieces[id_] += 1
            return
        del self.asked[id_]
        if how == "reply":
            whole = {"message": {"role": "assistant", "content": id_}, "finish_reason": "stop"}
            self.say(Side.PLUGIN, f"answer {id_}", self.pair.host.reply(id_, whole))
        else:
            self.say(Side.PLUGIN, f"refusal {id_}", self.pair.host.refuse(id_, NotFoundError(id_)))

    # -- what the plugin's program does -----------------------------------------------------------

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def answer_start(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.starting)))
        attempt = self.starting.pop(id_)
        if attempt.run_id in self.pair.plugin.runs and not self._later_is_starting(attempt):
            self.running[attempt.run_id] = attempt
        self.say(Side.HOST, f"started {attempt.name}", self.pair.plugin.reply(id_, NoParams()))

    def _later_is_starting(self, attempt: Attempt) -> bool:
        return any(other.run_id == attempt.run_id for other in self.starting.values())

    @rule(run_id=st.sampled_from(RUNS), many=st.integers(1, 4))
    def send_results(self, run_id: str, many: int) -> None:
        attempt = self.running.get(run_id)
        for _ in range(many):
            if attempt is None or self.pair.plugin.credit(run_id) <= 0:
                return
            self.pair.plugin.spend_credit(run_id)
            attempt.sequence += 1
            token = f"result {attempt.name}#{attempt.sequence}"
            result = result_of(run_id, attempt.sequence, LogWritten(level="info", text=token))
            self.say(Side.HOST, token, self.pair.plugin.notify("run/result", result))

    @rule(run_id=st.sampled_from(RUNS))
    def call(self, run_id: str) -> None:
        if attempt := self.running.get(run_id):
            params = {"run_id": run_id, "model_id": attempt.name, "messages": []}
            id_, data = self.pair.plugin.request("host/model.stream", params)
            self.calls[id_] = attempt.name
            self.say(Side.HOST, f"call {id_} {attempt.name}", data)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.calls)))
        self.lost |= {id_}
        self.pair.plugin.abandon(id_)
        del self.calls[id_]
        note = self.pair.plugin.notify("host/cancel", CallCancelNote(id=id_))
        self.say(Side.HOST, f"cancel {id_}", note)

    @rule(run_id=st.sampled_from(RUNS))
    def end(self, run_id: str) -> None:
        if attempt := self.running.pop(run_id, None):
            note = self.pair.plugin.notify("run/end", RunEndNote(run_id=run_id))
            self.say(Side.HOST, f"end {attempt.name}", note)

    # -- the wires --------------------------------------------------------------------------------

    @rule(receiver=st.sampled_from(Side), size=st.integers(1, 700))
    def deliver(self, receiver: Side, size: int) -> None:
        data = bytes(self.wire[receiver][:size])
        del self.wire[receiver][:size]
        link = self.pair.host if receiver is Side.HOST else self.pair.plugin
        for event in link.receive(data):
            token = self.host_hears(event) if receiver is Side.HOST else self.plugin_hears(event)
            if token:
                self.heard[receiver].append(token)
        back = link.data_to_send()  # the host's own refusal of a call that a fenced attempt made
        assert receiver is Side.HOST or not back
        self.wire[receiver.peer] += back

    def host_hears(self, event: Incoming) -> str:
        match event:
            case ResultArrived(result=result):
                log = decode_data(result.type, result.data)
                assert isinstance(log, LogWritten)
                return log.text
            case Called(id=id_, params=params):
                self.asked[id_] = params.model_id
                return f"call {id_} {params.model_id}"
            case CallCancelled(id=id_):
                self.asked.pop(id_, None)
                return f"cancel {id_}"
            case RunEnded(run_id=run_id):
                return f"end {run_id}.{self.numbers[run_id]}"
            case RunLeft():
                return ""  # the host parked it before it heard that it ended
            case Replied(method="run/start"):
                return ""  # which attempt it was is known by its id alone
        raise AssertionError(f"the host heard {event}")

    def plugin_hears(self, event: Incoming) -> str:
        match event:
            case Called(id=id_, method="run/start", params=params):
                run_id, _, number = params.runner_name.partition(".")
                self.starting[id_] = Attempt(run_id, int(number))
                return f"start {params.runner_name}"
            case Noted(method="run/credit", params=params):
                return f"credit {params.run_id} {params.results}"
            case Noted(method="run/park", params=params):
                attempt = self.running.pop(params.run_id, None)
                name = attempt.name if attempt else ""
                self.calls = {id_: owner for id_, owner in self.calls.items() if owner != name}
                return f"park {params.run_id}"
            case StreamArrived(id=id_, index=index, chunk=chunk):
                assert msgspec.json.decode(chunk) == {"delta": {"content": f"{id_}#{index}"}}
                return f"piece {id_}#{index}"
            case Replied(id=id_, result=result):
                assert result.message.content == id_
                del self.calls[id_]
                return f"answer {id_}"
            case Refused(id=id_, error=error):
                # the host's program says the id; the link itself says that the attempt is over
                owner = self.calls.pop(id_)
                assert error.message == id_ or owner in self.lost or owner not in self.running_names()
                return f"refusal {id_}" if error.message == id_ else ""
            case Warned(reason=reason):
                assert "not an open request" in reason or "no open request" in reason
                return ""
        raise AssertionError(f"the plugin heard {event}")

    def running_names(self) -> set[str]:
        return {attempt.name for attempt in self.running.values()}

    @invariant()
    def nothing_comes_twice_or_out_of_order(self) -> None:
        for side in Side:
            said = iter(self.said[side])
            assert all(token in said for token in self.heard[side]), (self.said[side], self.heard[side])

    def teardown(self) -> None:
        while any(self.wire.values()):
            for side in Side:
                self.deliver(side, 10_000_000)
        self.nothing_comes_twice_or_out_of_order()
        for side in Side:
            heard = set(self.heard[side])
            for token in self.said[side]:
                excused = token.startswith(("started", "cancel")) or self._excused(token)
                assert token in heard or excused, token
        assert self.pair.host.foreign_messages == 0

    def _excused(self, token: str) -> bool:
        words = token.replace("#", " ").split()[1:]
        owners = {word for word in words if word in self.lost}
        made_by = {
            said.split()[1]: said.split()[2] for said in self.said[Side.HOST] if said.startswith("call")
        }
        return bool(owners) or any(made_by.get(word) in self.lost for word in words)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(deadline=None, max_examples=60, stateful_step_count=60)
