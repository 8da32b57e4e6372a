"""The part of a link that takes results: whose they are, their order, their credit and their sizes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import RunFailure
from hostler_protocol.frames import Oversized, params_of_result
from hostler_protocol.incoming import Incoming, ResultArrived, RunBroken, Warned
from hostler_protocol.limits import MAX_INTEGER, MAX_REASON_CHARS
from hostler_protocol.methods import Side
from hostler_protocol.results import AgentRunResult
from hostler_protocol.sending import Sending

_decode_result = msgspec.json.Decoder(AgentRunResult).decode


class Taking(Sending):
    """The part that takes results."""

    def _take_plain_result(self, line: bytes | Oversized) -> ResultArrived | None:
        """The short way of a result as nearly all are: of a run of ours, in order, within credit and size.

        None: `_take` says what it is, and what is wrong with it. Nothing was changed.
        """
        if self.side is Side.PLUGIN or isinstance(line, Oversized):
            return None
        params = params_of_result(line)
        if params is None or len(params) > self.limits.max_result_bytes:
            return None
        try:
            result = _decode_result(params)
        except DECODE_ERRORS:
            return None
        flow = self._runs.get(result.run_id)  # where there is one, results may be sent in this state
        return ResultArrived(result, len(params)) if flow and flow.take_next(result.sequence) else None

    def _take_result(
        self, result: AgentRunResult, size: int, left_out: str | None = None
    ) -> Iterator[Incoming]:
        """Take a result in any order. `left_out` says what was wrong with its usage."""
        run_id = result.run_id
        flow = self._runs.get(run_id)
        if flow is None or not flow.live:
            yield from self._foreign("run/result", run_id)
            return
        if flow.credit <= 0:
            yield self._break(run_id, "runner.protocol", "more results were sent than the host had credited")
            return
        flow.credit -= 1
        if size > self.limits.max_result_bytes:
            yield self._break(run_id, "payload_too_large", too_large(size, self.limits.max_result_bytes))
            return
        if not 1 <= result.sequence <= MAX_INTEGER:
            reason = "a sequence starts at 1, rises by 1 and stays below 2**53"
            yield self._break(run_id, "runner.protocol", reason)
            return
        previous = flow.last
        verdict = flow.note(result.sequence)
        if verdict == "repeated":
            yield Warned(f"result {result.sequence} repeated: dropped", run_id=run_id)
            return
        if verdict is not None:
            what = "a gap" if verdict == "gap" else "a late result"
            yield Warned(f"{what}: sequence {result.sequence} after {previous}", run_id=run_id)
        if left_out is not None:
            yield Warned(brief(f"result {result.sequence}: {left_out}"), run_id=run_id)
        # `data` points into the receive buffer; copied so that a kept result does not keep the buffer
        kept = msgspec.structs.replace(result, data=msgspec.Raw(bytes(result.data)))
        yield ResultArrived(kept, size)

    def _break(self, run_id: str, code: RunFailure, reason: str) -> RunBroken:
        self.end_run(run_id)
        return RunBroken(run_id, code, reason)

    def _foreign(self, what: str, run_id: str) -> Iterator[Incoming]:
        if run_id in self._ended:
            return
        self.foreign_messages += 1
        yield Warned(
            f"{what} names run {run_id[:64]!r}, which is not of this connection", run_id[:64], foreign=True
        )


def brief(text: str) -> str:
    """Shorten what may quote the peer."""
    return text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 3] + "..."


def too_large(size: int, limit: int) -> str:
    """Say that a message is over a limit of bytes."""
    return f"a message of {size:,} bytes is over the limit of {limit:,}"
