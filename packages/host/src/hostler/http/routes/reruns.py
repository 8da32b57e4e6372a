"""Recordings of runs: export, retry and fork."""

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
    """`agent_version`: a version other than the current one."""

    agent_version: Count | None = None


class ForkRun(Strict):
    """How to continue from a recorded run.

    `at`: the last step taken from the recording; default: all, 0: none. `input` replaces the event's; a
    string is its text. `agent_version`: a version other than the run's own. `effects`: allow side effects.
    """

    at: Count | None = None
    input: str | Input | None = None
    agent_version: Count | None = None
    effects: bool = False


@endpoint("GET", "/v1/runs/{run_id}/export", right="runs:read", tag="runs")
async def export_run(request: ApiRequest) -> TapeFile:
    """Export a run as one document, the input of `hostler replay`.

    It has the start of the run, every result, and every call with its response. Large responses are inline up
    to 16 MiB in total; a journal over 64 MiB is `payload_too_large`.
    """
    host = request.state.host
    run_id = request.parameters["run_id"]
    return await tape_of(host.db, host.blobs, request.workspace_id, run_id, host_version=VERSION)


@endpoint("POST", "/v1/runs/{run_id}/retry", right="runs:write", tag="runs", status=201)
async def retry_run(request: ApiRequest, body: RetryRun) -> Json[RunRecord]:
    """Retry an ended run: open a new run of the same event, with the current version of the agent.

    The new run takes its place in the conversation. A run that has not ended is a `conflict`.
    """
    host = request.state.host
    new_run_id = await host.reruns.retry(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        agent_version=body.agent_version,
    )
    return Json(await host.runs.record(request.workspace_id, new_run_id), 201)


@endpoint("POST", "/v1/runs/{run_id}/fork", right="runs:write", tag="runs", status=201)
async def fork_run(request: ApiRequest, body: ForkRun) -> Json[RunRecord]:
    """Fork a recorded run: continue with a new one from any step, with another input or version.

    Calls recorded up to that step get their recorded responses. Unless `effects` is true, calls with side
    effects outside of the run are refused as `denied`, and its messages stay out of the conversation.
    """
    host = request.state.host
    new_run_id = await host.reruns.fork(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        at=body.at,
        edited=Input(text=body.input) if isinstance(body.input, str) else body.input,
        agent_version=body.agent_version,
        effects=body.effects,
    )
    return Json(await host.runs.record(request.workspace_id, new_run_id), 201)
