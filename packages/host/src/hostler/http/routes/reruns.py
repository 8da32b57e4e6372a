"""Runs as recordings: exported whole, done again, gone on from."""

from __future__ import annotations

from hostler.domain.tapes import TapeFile
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler.journal.export import tape_of
from hostler.version import VERSION
from hostler_protocol._base import Strict
from hostler_protocol.events import Input
from hostler_protocol.limits import Count
from hostler_protocol.runs import RunRecord


class RetryRun(Strict):
    """`agent_version`: another than the agent's current one."""

    agent_version: Count | None = None


class ForkRun(Strict):
    """How to go on from a recorded run.

    `at`: the last step that is taken from the recording; left out: all of them, 0: none. `input` stands in
    the place of the event's, a text alone being its text. `agent_version`: another than the run's own.
    """

    at: Count | None = None
    input: str | Input | None = None
    agent_version: Count | None = None
    effects: bool = False


@endpoint("GET", "/v1/runs/{run_id}/export", right="runs:read", tag="runs")
async def export_run(request: ApiRequest) -> TapeFile:
    """Export a run as one document: what `hostler replay` works with.

    Its start, every result, every call with what it was told. Large answers are inline up to 16 MiB in all; a
    journal over 64 MiB is `payload_too_large`.
    """
    host = request.state.host
    run_id = request.parameters["run_id"]
    return await tape_of(host.db, host.blobs, request.workspace_id, run_id, host_version=VERSION)


@endpoint("POST", "/v1/runs/{run_id}/retry", right="runs:write", tag="runs", status=201)
async def retry_run(request: ApiRequest, body: RetryRun) -> Json[RunRecord]:
    """Do an ended run again: a new run of the same event, with the agent as it is now.

    It takes its place in its conversation. A run that is not over is a `conflict`.
    """
    host = request.state.host
    made = await host.reruns.retry(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        agent_version=body.agent_version,
    )
    return Json(await host.run_record(request.workspace_id, made), 201)


@endpoint("POST", "/v1/runs/{run_id}/fork", right="runs:write", tag="runs", status=201)
async def fork_run(request: ApiRequest, body: ForkRun) -> Json[RunRecord]:
    """Go on from a recorded run with a new one: from any step, with another input, another version.

    Calls that the recording holds up to that step are answered from it. Unless `effects` is true, calls that
    change something outside of the run are refused as `denied`, and its messages stay out of the
    conversation.
    """
    host = request.state.host
    made = await host.reruns.fork(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        at=body.at,
        edited=Input(text=body.input) if isinstance(body.input, str) else body.input,
        agent_version=body.agent_version,
        effects=body.effects,
    )
    return Json(await host.run_record(request.workspace_id, made), 201)
