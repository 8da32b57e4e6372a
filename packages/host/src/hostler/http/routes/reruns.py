"""Recordings of runs: export, retry, fork and replay."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.config_overrides import ConfigOverrides
from hostler.domain.tapes import TapeFile
from hostler.http.auth import require_right
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler.http.routes.agents import reference_rights
from hostler.journal.export import tape_of
from hostler.version import VERSION
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Input
from hostler_protocol.limits import MIB, Count
from hostler_protocol.runs import RunRecord


class RetryRun(Strict):
    """`agent_version`: a version other than the current one."""

    agent_version: Count | None = None


class ForkRun(Strict):
    """How to continue from a recorded run.

    `at`: the last step taken from the recording; default: all, 0: none. Or `position`: the last entry of the
    journal. `input` replaces the event's; a string is its text. `config` changes values of the agent's
    configuration, such as the prompt. `agent_version`: a version other than the run's own. `effects`: allow
    side effects.
    """

    at: Count | None = None
    position: Count | None = None
    input: str | Input | None = None
    config: dict[str, Any] | None = None
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
    `config` needs the right `agents:write`, too: secrets cannot be changed, beside one that is written out
    only prompts, and beside a reference to one what the key may change in the agent.
    """
    host = request.state.host
    if body.at is not None and body.position is not None:
        raise InvalidArgumentError("at and position both name where the fork begins: leave one out")
    new_run_id = await host.reruns.fork(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        at=body.at,
        position=body.position,
        config=_overrides(request, body.config),
        edited=Input(text=body.input) if isinstance(body.input, str) else body.input,
        agent_version=body.agent_version,
        effects=body.effects,
    )
    return Json(await host.runs.record(request.workspace_id, new_run_id), 201)


class ReplayRun(Strict):
    """With what to replay a run: by default as it was.

    `config` changes values of the configuration, `agent_version` names the version of the agent that has
    runner and configuration.
    """

    config: dict[str, Any] | None = None
    agent_version: Count | None = None


class Difference(Strict):
    """The first difference between a replay and the recording.

    `step`: the recorded step, and `position` its place in the journal, null behind the end. `recorded` and
    `replayed`: what differs, null where one has nothing; values over 1 MiB are left out, and `lines` has the
    difference in short.
    """

    step: int
    position: int | None
    kind: str
    title: str
    lines: list[str]
    recorded: Any
    replayed: Any


class ReplayReport(Strict):
    """The outcome of a replay. `difference` null: it is identical.

    `steps`: recorded ones. `asked`: calls that the runner made. `text`, `recorded_text`: its messages.
    `network`: why the runner could reach the network; null: it could not.
    """

    run_id: str
    identical: bool
    difference: Difference | None
    steps: int
    asked: int
    seconds: float
    text: str
    recorded_text: str
    notes: list[str]
    network: str | None


@endpoint("POST", "/v1/runs/{run_id}/replay", right="runs:write", tag="runs")
async def replay_run(request: ApiRequest, body: ReplayRun) -> ReplayReport:
    """Replay a recorded run: its runner works again, against the recording alone, and nothing is changed.

    The runner has a process of its own without network access, and gets the recorded answers. The response
    has the first difference. A replay takes a minute at most once its plugin has started, which takes two at
    most; while too many wait it is `rate_limited`. `config` needs the right `agents:write`, too, and is
    bounded as in a fork.
    """
    made = await request.state.host.replays.replay(
        request.workspace_id,
        request.parameters["run_id"],
        actor=request.caller.subject,
        config=_overrides(request, body.config),
        agent_version=body.agent_version,
    )
    replayed, found = made.replayed, made.replayed.divergence
    return ReplayReport(
        run_id=replayed.run_id,
        identical=found is None,
        difference=None
        if found is None
        else Difference(
            step=found.step,
            position=made.position,
            kind=found.kind,
            title=found.title,
            lines=list(found.lines),
            recorded=_bounded(found.recorded),
            replayed=_bounded(found.replayed),
        ),
        steps=replayed.steps,
        asked=replayed.asked,
        seconds=replayed.seconds,
        text=replayed.text,
        recorded_text=replayed.recorded_text,
        notes=list(replayed.notes),
        network=made.network,
    )


def _overrides(request: ApiRequest, config: dict[str, Any] | None) -> ConfigOverrides | None:
    if not config:
        return None
    require_right(request.caller, "agents:write")
    return ConfigOverrides(config, reference_rights(request))


def _bounded(value: Any) -> Any:
    return value if len(msgspec.json.encode(value)) <= MIB else None
