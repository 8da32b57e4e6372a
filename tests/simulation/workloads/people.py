"""People who decide what waits for them, and find out what became of calls in doubt."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action as PauseAction
from hostler.domain.pause_actions import ActRequest
from hostler.domain.pauses import PauseStatus
from hostler.host.host import Host
from hostler.pauses.service import PausePage
from hostler.simulation.world import HostGoneError
from hostler.storage.stores import api_keys
from hostler_protocol.errors import HostlerError, StorageError
from simulation.life import WORKSPACE, Life, wait

ADMIN = frozenset({"admin"})
LOOK_SECONDS = 0.5
SAID = {"approve": "approved", "deny": "denied", "result": "answered", "answer": "answered"}


async def attend(life: Life) -> None:
    """Decide what comes, for as long as the life lasts."""
    unanswered: list[tuple[str, ActRequest, str]] = []
    clerk = await _clerk(life)
    while not life.over:
        host = await life.some_host(0)
        try:
            while unanswered:
                pause_id, request, key = unanswered[-1]
                await _say(life, clerk, host, pause_id, request, key)
                unanswered.pop()
            for status in ("open", "needs_review"):
                page = await host.ask(partial(_page, clerk, status))
                for pause in page.items:
                    for call in pause.calls:
                        if call.review == "in_doubt":
                            await _resolve(life, clerk, host, pause.id, pause.run_id, call.call_id)
                        elif call.decision == "undecided":
                            request = ActRequest(revision=pause.revision, actions=[_action(call)])
                            unanswered.append((pause.id, request, f"{call.call_id} {pause.revision}"))
                            await _say(life, clerk, host, *unanswered[-1])
                            unanswered.pop()
        except HostGoneError:
            pass
        except HostlerError as error:  # somebody else, or the clock, was quicker
            unanswered.clear()
            life.outside.note("decision refused", code=error.code, error=error.message)
        await wait(LOOK_SECONDS)


async def _clerk(life: Life) -> Caller:
    """Make a key for who decides: a vote counts only while its key is valid."""
    while True:
        host = await life.some_host(0)
        try:
            key, _ = await host.ask(
                lambda h: h.db.write(
                    lambda tx: api_keys.create(
                        tx, WORKSPACE, name="clerk", subject="clerk", roles=ADMIN, rights=ADMIN
                    )
                )
            )
        except (HostGoneError, StorageError):
            await wait(LOOK_SECONDS)
        else:
            return Caller(
                workspace_id=WORKSPACE, subject="clerk", key_id=key.key_id, rights=ADMIN, roles=ADMIN
            )


async def _page(clerk: Caller, status: PauseStatus, host: Host) -> PausePage:
    return await host.pauses.page(clerk, status=status)


async def _say(life: Life, clerk: Caller, host: Any, pause_id: str, request: ActRequest, key: str) -> None:
    await host.ask(lambda h: h.pauses.act(clerk, pause_id, request, idempotency_key=key))
    (action,) = request.actions
    life.outside.note("decided", pause=pause_id, call=action.call_id, decision=SAID[action.type])


async def _resolve(life: Life, clerk: Caller, host: Any, pause_id: str, run_id: str, call_id: str) -> None:
    made = [e for e in life.outside.effects if (e.run, e.call) == (run_id, call_id) and e.made]
    outcome, result = ("happened", {"serial": made[-1].serial}) if made else ("not_happened", None)
    await host.ask(lambda h: h.pauses.resolve(clerk, pause_id, call_id, outcome, result))
    life.outside.note("resolved", run=run_id, call=call_id, outcome=outcome)


def _action(call: Any) -> PauseAction:
    """The same for the same call, whoever asks and whenever."""
    if call.kind == "question":
        return PauseAction(call_id=call.call_id, type="answer", values={"size": "xl"})
    if call.kind == "client_tool":
        return PauseAction(call_id=call.call_id, type="result", result={"picked": call.args["text"]})
    kind: Literal["deny", "approve"] = "deny" if int(call.args_hash[:2], 16) < 256 // 5 else "approve"
    return PauseAction(call_id=call.call_id, type=kind, args_hash=call.args_hash)
