"""Calls of a run that wait: found, watched, and decided over the HTTP API."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.limits import LOOK_SECONDS
from hostler.cli.pause_show import WAITING
from hostler.cli.routes import route
from hostler.domain.record import Record
from hostler_protocol.errors import HostlerError, NotFoundError, UnauthorizedError, UnavailableError

MAX_PAUSES = 100
"""Pauses of one run that are searched for a call, newest first."""
log = logging.getLogger(__name__)
Action = dict[str, Any]


class WaitingCall(Record):
    """A call of a pause, as it was when it was looked at."""

    pause: dict[str, Any]
    call: dict[str, Any]

    @property
    def is_open(self) -> bool:
        """Whether a decision is still missing."""
        undecided = self.call["decision"] == "undecided" or self.call.get("review") is not None
        return self.pause["status"] in WAITING and undecided

    @property
    def view(self) -> tuple[Any, ...]:
        """What a person sees of it: if that changes, the question has changed."""
        return (
            self.pause["revision"],
            self.call["args_hash"],
            self.call["may_decide"],
            self.call.get("review"),
        )


async def find_call(host: HostAccess, run_id: str, call_id: str) -> WaitingCall | None:
    """Return a call of a run; None if there is none that this key may see."""
    try:
        pauses = await host.ask(lambda api: api.items("/v1/pauses", limit=MAX_PAUSES, run_id=run_id))
    except (UnauthorizedError, NotFoundError) as error:
        log.info("pauses of the run %s are not shown: %s", run_id, error.message)
        return None
    for pause in pauses:
        for call in pause["calls"]:
            if call["call_id"] == call_id:
                return WaitingCall(pause, call)
    return None


async def decisions_of(host: HostAccess, run_id: str) -> dict[str, str]:
    """Return the decisions on the calls of a run, as far as this key may see them. HostlerError."""
    pauses = await host.ask(lambda api: api.items("/v1/pauses", limit=MAX_PAUSES, run_id=run_id))
    return {call["call_id"]: call["decision"] for pause in pauses for call in pause["calls"]}


async def until_changed(host: HostAccess, run_id: str, waiting: WaitingCall) -> None:
    """Return once the call is decided, or is another one than was shown."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            now = await find_call(host, run_id, waiting.call["call_id"])
        except UnavailableError:
            continue
        if now is None or not now.is_open or now.view != waiting.view:
            return


async def decide(host: HostAccess, waiting: WaitingCall, action: Action) -> dict[str, Any]:
    """Send the decision on a call. It may be sent again: the same decision changes nothing. HostlerError."""
    path = route("pauses", waiting.pause["id"])
    if "outcome" in action:
        path = route("pauses", waiting.pause["id"], "calls", waiting.call["call_id"], "resolve")
        found: dict[str, Any] = await host.ask(lambda api: api.post(path, action))
        return found
    body = {
        "revision": waiting.pause["revision"],
        "actions": [{"call_id": waiting.call["call_id"], **action}],
    }
    answered: dict[str, Any] = await host.ask(lambda api: api.post(f"{path}/actions", body))
    return answered


def refusal(error: HostlerError) -> str:
    """Return the sentence for a decision that was not taken."""
    return f"The decision was not taken: {error.message}"
