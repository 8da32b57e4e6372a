"""The commands of `/v1/ws` that change something. Each does what its HTTP route does, with the same right."""

from __future__ import annotations

from hostler.domain.pause_actions import ActionAnswer, ActRequest
from hostler.domain.pause_views import PauseView
from hostler.http.auth import require_right
from hostler.http.live.messages import Cancel, Decide, Resolve, Send, Steer
from hostler.http.narrow import check_run
from hostler.http.request import ApiRequest
from hostler.runs.orchestrator import Accepted
from hostler.storage.stores import runs
from hostler_protocol.errors import ConflictError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord


async def send(request: ApiRequest, command: Send) -> Accepted:
    """Accept an event."""
    require_right(request.caller, "events:write")
    return await _accept(request, command.event.envelope(), command.event.delay)


async def steer(request: ApiRequest, command: Steer) -> Accepted:
    """Send a message to a run's conversation. NotFoundError; ConflictError if the run has ended."""
    require_right(request.caller, "events:write")
    await check_run(request, command.run_id)
    run = await request.state.host.db.read(lambda tx: runs.get(tx, request.workspace_id, command.run_id))
    if run.status in TERMINAL_STATUSES:
        raise ConflictError(f"run {run.run_id} has ended ({run.status}): send the message as an event")
    envelope = EventEnvelope(
        event_type="message.received",
        input=command.input,
        event_id=command.event_id,
        agent=run.agent_name,
        bot_id=run.bot_id,
        conversation_id=run.conversation_id,
        thread_id=run.thread_id,
        actor=command.actor,
    )
    return await _accept(request, envelope, None)


async def decide(request: ApiRequest, command: Decide) -> ActionAnswer:
    """Decide calls of a pause."""
    require_right(request.caller, "pauses:write")
    actions = ActRequest(revision=command.revision, actions=command.actions)
    return await request.state.host.pauses.act(request.caller, command.pause_id, actions)


async def resolve(request: ApiRequest, command: Resolve) -> PauseView:
    """Say what became of a call in doubt."""
    require_right(request.caller, "pauses:write")
    return await request.state.host.pauses.resolve(
        request.caller,
        command.pause_id,
        command.call_id,
        command.outcome,
        command.result,
        comment=command.comment,
    )


async def cancel(request: ApiRequest, command: Cancel) -> RunRecord:
    """Cancel a run."""
    require_right(request.caller, "runs:write")
    await check_run(request, command.run_id)
    return await request.state.host.cancel(
        request.workspace_id,
        command.run_id,
        reason=command.reason,
        actor=request.caller.subject,
        grace=command.grace,
    )


async def _accept(request: ApiRequest, envelope: EventEnvelope, delay: float | None) -> Accepted:
    accepted = await request.state.host.orchestrator.accept(envelope, request.caller, delay=delay)
    request.state.metrics.count_event(accepted.outcome, duplicate=accepted.duplicate)
    return accepted
