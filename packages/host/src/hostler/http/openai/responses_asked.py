"""What a response was asked, as items of its input."""

from __future__ import annotations

from typing import Any

from hostler.domain.pause_views import CallView
from hostler.http.auth import has_right
from hostler.http.dialects import answers, paused_calls
from hostler.http.dialects.fold import Answer
from hostler.http.openai.items import message_item
from hostler.http.openai.responses_items import approval_id, json_text
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import events
from hostler.storage.stores.run_rows import Run
from hostler_protocol.content import Content


async def input_items(request: ApiRequest, run: Run, answer: Answer) -> list[dict[str, Any]]:
    """Return the items of a response's input, oldest first.

    The first response of a run was asked by its event. One that goes on was asked by decisions, which are
    shown to a caller that may see the pause.
    """
    if answer.after:
        return await _decisions(request, answer)

    def read(tx: Tx) -> Content | None:
        stored = None if run.event_id is None else events.find(tx, request.workspace_id, run.event_id)
        return None if stored is None or stored.envelope is None else stored.envelope.input.contents

    contents = await request.state.host.db.read(read)
    return [] if contents is None else [message_item(f"msg_{run.run_id}_in", "user", contents)]


async def _decisions(request: ApiRequest, answer: Answer) -> list[dict[str, Any]]:
    """Return the decisions of the pause that an answer goes on after; none if it goes on after a message."""
    if not has_right(request.caller, "pauses:read"):
        return []
    asked = await request.state.host.runs.requests(request.workspace_id, answer.run_id)
    call_id = next((call_id for sequence, call_id in asked if sequence == answer.after), None)
    if call_id is None:
        return []
    page = await request.state.host.pauses.page(
        request.caller, run_id=answer.run_id, limit=paused_calls.MAX_PAUSES_OF_RUN
    )
    calls = next((p.calls for p in page.items if any(call.call_id == call_id for call in p.calls)), [])
    return [item for call in calls if (item := _item(answer, call)) is not None]


def _item(answer: Answer, call: CallView) -> dict[str, Any] | None:
    run_id = answer.run_id
    if call.kind == "client_tool" and call.decision == "answered":
        return {
            "type": "function_call_output",
            "id": f"fco_{run_id}_{call.call_id}",
            "call_id": answers.call_id_of(answer, call.call_id),
            "output": json_text(call.result),
            "status": "incomplete" if call.is_error else "completed",
        }
    if call.kind == "approval" and call.decision in ("approved", "denied"):
        return {
            "type": "mcp_approval_response",
            "id": f"mcpa_{run_id}_{call.call_id}",
            "approval_request_id": approval_id(run_id, call.call_id, call.args_hash),
            "approve": call.decision == "approved",
            "reason": call.comment,
        }
    return None
