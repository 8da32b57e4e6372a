"""Host and SDK agree about each answer that was sent ahead of its call, whatever is on its way between them.

The real queues of both sides, with a wire between them that delivers when Hypothesis says so. The runner
makes the recorded calls, or others. Each answer that it takes is that of its call, by name and number.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.calls.answers_ahead import AnswersAhead as Sender
from hostler.calls.answers_ahead import SendAhead
from hostler.calls.gate import GatedRun
from hostler.domain.recording import CallName, Recording
from hostler.journal.call_records import RecordedAnswer
from hostler.journal.resume import Resumption
from hostler_protocol.calls import CALLS
from hostler_protocol.calls.digest import digest_of
from hostler_protocol.frames import raw
from hostler_protocol.methods import AnswerAhead, RunAheadNote
from hostler_sdk.answers_ahead import AnswersAhead
from support.call_attempt import attempt_grant

EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 200
GRANT = attempt_grant()
KEYS = st.sampled_from("aab")


async def _unread(_: Any) -> RecordedAnswer:
    raise AssertionError("every answer is in memory")


def params_of(key: str) -> dict[str, Any]:
    return {"run_id": "r", "alone": True, "scope": "conversation", "key": key}


def digest_for(key: str) -> str:
    return digest_of(msgspec.convert(params_of(key), CALLS["state.get"].params))


class Wire:
    """One resumed attempt: the host's side, the SDK's, and what is on its way."""

    def __init__(self, recorded: list[tuple[str, bool]], max_bytes: int) -> None:
        recording, nth = Recording(), Counter[str]()
        for position, (key, alone) in enumerate(recorded, 1):
            nth[key] += 1
            data = {"params": params_of(key), "reply": {"value": [key, nth[key]], "version": 1}}
            name = CallName("state.get", digest_for(key), nth[key])
            recording.add_call(name, position, msgspec.json.encode(data).decode(), changed=False, alone=alone)
        self.resumption = Resumption(
            recording, _unread, stall_seconds=60, live=lambda _: None, diverged=lambda _: None
        )
        self.sender = Sender(self.resumption, GatedRun("r", GRANT), SendAhead(self._send, max_bytes))
        self.sdk = AnswersAhead()
        self.to_host: deque[tuple[str, bool]] = deque()
        """Keys of calls, and whether they took their answer ahead."""
        self.to_sdk: deque[RunAheadNote | None] = deque()
        """Answers ahead, and None for the answer to a call with an id."""
        self.seen: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.taken = 0

    def _send(self, requests: int, answers: list[AnswerAhead]) -> None:
        self.to_sdk.append(RunAheadNote(run_id="r", requests=requests, answers=answers))

    def call(self, key: str) -> bool:
        """The runner makes a call. Return whether it has its answer."""
        self.made[key] += 1
        reply = self.sdk.take("state.get", raw(params_of(key)))
        if reply is None:
            self.sdk.requested()
        else:
            self.taken += 1
            assert reply.value == [key, self.made[key]], "an answer of another call"
        self.to_host.append((key, reply is not None))
        return reply is not None

    def host_reads(self) -> None:
        key, ahead = self.to_host.popleft()
        self.seen[key] += 1
        name = CallName("state.get", digest_for(key), self.seen[key])
        recorded = self.resumption.peek(name)
        if ahead:
            assert self.sender.take(name) is recorded, "the host did not send it"
        else:
            self.sender.requested(None if recorded is None else name)
        if recorded is None:
            self.resumption.go_live()
        else:
            self.resumption.find(name)
            self.resumption.answered(recorded)
        self.sender.send_more()
        if not ahead:
            self.to_sdk.append(None)

    def sdk_reads(self) -> bool:
        """Deliver one message to the SDK. Return whether it is the answer to a call with an id."""
        note = self.to_sdk.popleft()
        if note is not None:
            self.sdk.add(note)
        return note is None


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    recorded=st.lists(st.tuples(KEYS, st.sampled_from([True, True, True, False])), max_size=12),
    others=st.dictionaries(st.integers(0, 12), KEYS, max_size=2),
    max_bytes=st.sampled_from([400, 100_000]),
    order=st.lists(st.booleans(), max_size=60),
)
def test_they_agree(
    recorded: list[tuple[str, bool]], others: dict[int, str], max_bytes: int, order: list[bool]
) -> None:
    wire, turns = Wire(recorded, max_bytes), iter(order)
    program = [others.get(at, key) for at, (key, _) in enumerate(recorded)]
    for key in [*program, "b"]:
        if wire.call(key):
            while (wire.to_host or wire.to_sdk) and next(turns, False):
                if wire.to_host:
                    wire.host_reads()
                elif wire.sdk_reads():
                    raise AssertionError("nothing waits for an answer")
            continue
        answered = False
        while not answered:
            if wire.to_sdk and (not wire.to_host or next(turns, False)):
                answered = wire.sdk_reads()
            else:
                wire.host_reads()


@settings(max_examples=20, deadline=None)
@given(count=st.integers(3, 40))
def test_a_runner_that_does_the_same_waits_for_two_answers_only(count: int) -> None:
    wire = Wire([("a", True)] * count, 100_000)
    for _ in range(count):
        if not wire.call("a"):
            while wire.to_host:
                wire.host_reads()
            while not wire.sdk_reads():
                pass
    assert wire.taken == count - 2
