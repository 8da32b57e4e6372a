"""The people and clients of runs with effects: they decide what waits, and find out what is in doubt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from support.counting import Counter
from support.server_process import HostProcess
from support.wire_client import LOST, Answer, ask

LOOK_SECONDS = 0.1
STATUSES = ("open", "needs_review")
_DECIDED = {"approve": "approved", "deny": "denied", "result": "answered", "answer": "answered"}


@dataclass
class People:
    """They look again and again what waits, and say the same whenever they say it.

    What was acknowledged is kept: decisions by (pause, call), and what became of calls in doubt.
    """

    host: HostProcess
    counter: Counter
    decided: dict[tuple[str, str], str] = field(default_factory=dict)
    resolved: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(run, call) -> outcomes, in the order in which they were asked."""
    repeated: int = 0
    """Decisions whose answer was lost, and that were then said again."""
    _unanswered: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)

    async def attend(self) -> None:
        """Decide what comes, for ever."""
        while True:
            await self.host.up.wait()
            try:
                await self._say_again()
                for status in STATUSES:
                    found = await ask(self.host.url, "GET", f"/v1/pauses?status={status}")
                    assert found.status == 200, found
                    for pause in found.json()["items"]:
                        await self._look_at(pause)
            except LOST:
                pass
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_at(self, pause: dict[str, Any]) -> None:
        for call in pause["calls"]:
            if call["review"] == "in_doubt":
                await self._resolve(pause, call)
            elif call["decision"] == "undecided":
                await self._decide(pause, call)

    async def _decide(self, pause: dict[str, Any], call: dict[str, Any]) -> None:
        action = _action(call)
        body = {"revision": pause["revision"], "actions": [{"call_id": call["call_id"], **action}]}
        key = {"Idempotency-Key": f"{call['call_id']} {pause['revision']}"}
        path = f"/v1/pauses/{pause['id']}/actions"
        self._unanswered.append((path, body, key))
        answer = await ask(self.host.url, "POST", path, body, key)
        self._unanswered.pop()
        self._note(path, body, answer)

    async def _say_again(self) -> None:
        while self._unanswered:
            path, body, key = self._unanswered[-1]
            answer = await ask(self.host.url, "POST", path, body, key)
            self._unanswered.pop()
            self.repeated += 1
            self._note(path, body, answer)

    def _note(self, path: str, body: dict[str, Any], answer: Answer) -> None:
        assert answer.status == 202, (body, answer)
        (action,) = body["actions"]
        self.decided[path.split("/")[3], action["call_id"]] = _DECIDED[action["type"]]

    async def _resolve(self, pause: dict[str, Any], call: dict[str, Any]) -> None:
        result = await self.counter.outcome(pause["run_id"], call["call_id"])
        outcome = "not_happened" if result is None else "happened"
        path = f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve"
        answer = await ask(self.host.url, "POST", path, {"outcome": outcome, "result": result})
        assert answer.status == 200, answer
        self.resolved.setdefault((pause["run_id"], call["call_id"]), []).append(outcome)


def _action(call: dict[str, Any]) -> dict[str, Any]:
    """The same for the same call, whoever asks and whenever."""
    match call["kind"]:
        case "question":
            return {"type": "answer", "values": {"size": "xl"}}
        case "client_tool":
            return {"type": "result", "result": {"picked": call["args"]["text"]}}
        case _ if int(call["call_id"][:2], 16) < 256 // 5:
            return {"type": "deny", "args_hash": call["args_hash"], "comment": "rather not"}
        case _:
            return {"type": "approve", "args_hash": call["args_hash"]}
