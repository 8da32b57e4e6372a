"""A thread whose run waits takes no other message before that is answered, where clients expect an error.

An agent whose policy is to give up what waits (`on_pause: supersede`), or to reject by itself, is left to it.
"""

from __future__ import annotations

from hostler.http.auth import has_right
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import WAITING, waiting_calls
from hostler.http.dialects.requests import request_id, requests_of
from hostler.http.request import ApiRequest
from hostler.storage.stores import agents
from hostler_protocol.errors import ConflictError

MAX_OPEN_PAUSES = 100
"""Open pauses of a conversation that are looked at: one per run, of few runs at once."""


class StillWaitsError(ConflictError):
    """409: a run of the thread waits for what the message does not answer."""

    def __init__(self, interrupts: list[str], tool_call_ids: list[str]) -> None:
        wanted = " and ".join(
            [
                *(["the interrupts " + ", ".join(interrupts) + " by resume"] if interrupts else []),
                *(["the calls " + ", ".join(tool_call_ids) + " by tool messages"] if tool_call_ids else []),
            ]
        )
        super().__init__(
            f"this thread waits: answer {wanted} first, or stop it",
            reason="interrupts_pending" if interrupts else "tool_calls_pending",
            interrupts=interrupts,
            tool_call_ids=tool_call_ids,
        )


async def check_nothing_waits(request: ApiRequest, agent: str, thread_id: str) -> None:
    """Raise StillWaitsError if a run of the agent waits in the thread for what the caller may answer."""
    if not has_right(request.caller, "pauses:write"):
        return  # it can answer nothing, so its message waits as the agent's policy has it
    host = request.state.host
    found = await host.db.read(lambda tx: agents.find(tx, request.workspace_id, agent))
    if found is None or found.spec.concurrency.on_pause != "hold":
        return
    page = await host.pauses.page(
        request.caller, conversation_id=thread_id, statuses=WAITING, limit=MAX_OPEN_PAUSES
    )
    interrupts: list[str] = []
    tool_call_ids: list[str] = []
    for pause in page.items:
        waiting = {call.call_id for call in waiting_calls(pause) if call.may_decide}
        if pause.agent != agent or not waiting:
            continue
        for call_id, asked in (await requests_of(request, pause.run_id)).items():
            if call_id not in waiting:
                continue
            if asked.request.kind != "client_tool":
                interrupts.append(request_id(pause.run_id, asked.request))
            elif asked.key is not None:
                tool_call_ids.append(call_id_of(Answer(pause.run_id), asked.key))
    if interrupts or tool_call_ids:
        raise StillWaitsError(interrupts, tool_call_ids)
