"""What was decided of a message that is read again: the results of a run say only what was asked."""

from __future__ import annotations

import msgspec

from hostler.domain.pause_views import CallView
from hostler.domain.record import Record
from hostler.http.ai_sdk.dialect import chunk
from hostler.http.ai_sdk.parts import output, text_of
from hostler.http.auth import has_right
from hostler.http.dialects.paused_calls import decided_views
from hostler.http.request import ApiRequest


class Settled(Record):
    """A request that is decided: the host's id of its call, the decision, and its reason.

    `answer`: to a question, or of a tool of the client, as JSON; `null` if the reader may not see it.
    """

    call_id: str
    decision: str
    comment: str | None = None
    answer: bytes = b"null"
    is_error: bool = False

    def verdict(self, approval_id: str) -> bytes:
        """Return the chunk that says how an approval was decided."""
        approved = self.decision == "approved"
        return chunk("tool-approval-response", approvalId=approval_id, approved=approved, reason=self.comment)

    def outcome(self, key: str) -> bytes:
        """Return the chunk that says what was answered, or that nobody did."""
        if self.decision != "answered":
            return chunk("tool-output-error", toolCallId=key, errorText=f"this was {self.decision}")
        if self.is_error:
            return chunk(
                "tool-output-error", toolCallId=key, errorText=text_of(msgspec.json.decode(self.answer))
            )
        return output(key, msgspec.Raw(self.answer))


async def settled_requests(request: ApiRequest, run_id: str) -> tuple[Settled, ...]:
    """Return what is decided of a run's requests, without its words for a caller without `pauses:read`."""
    reads = has_right(request.caller, "pauses:read")
    return tuple(
        Settled(call.call_id, call.decision, call.comment, _answer(call), call.is_error)
        if reads
        else Settled(call.call_id, call.decision, is_error=call.is_error)
        for call in await decided_views(request, run_id)
    )


def _answer(call: CallView) -> bytes:
    if call.kind != "question":
        return msgspec.json.encode(call.result)
    pressed = {} if call.action is None else {"action": call.action}
    return msgspec.json.encode({"values": call.values, **pressed})
