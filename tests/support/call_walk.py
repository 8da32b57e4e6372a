"""Every host call in every way in which it must be refused: the table behind docs/gates.md, and its test.

The calls are those of `CALLS`; each way makes them by the real gate, or the real link, and gives the code
that they are refused with.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.calls.gate import CallToCharge, Gate, GatedRun
from hostler.domain.agents import Rate
from hostler.domain.budgets import Account, AccountLimits
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import OPEN_CALLS, REMOTE_WORKER_CALLS, STATE_CALLS, STORAGE_CALLS, Grant
from hostler.domain.reservations import BudgetExhausted
from hostler.domain.token_bucket import TokenBucket
from hostler_protocol.calls import CALLS
from hostler_protocol.errors import HostlerError
from hostler_protocol.grants import FileResource
from hostler_protocol.incoming import Called
from hostler_protocol.limits import (
    KIB,
    MAX_EMBED_INPUTS,
    MAX_RERANK_DOCUMENTS,
    MAX_STORAGE_VALUE_BYTES,
    MAX_UPLOAD_PART_BYTES,
    Limits,
)
from hostler_protocol.manifest import Capabilities, FormItem, Permissions
from support.call_params import ARGUMENTS, params_of
from support.gate_checks import check
from support.grants import (
    FORM,
    ResourcePolicy,
    StatePolicy,
    agent_of,
    catalog_of,
    event_of,
    grant_of,
    manifest_of,
)
from support.links import Pair, line, lines

NOW = 1_700_000_000.0


def full_grant(workspace: str = "main", **policy: Any) -> Grant:
    """All that a grant can hold."""
    plain = catalog_of(["gpt"], ["search"], ["handbook"])
    files = {"f1": FileResource(file_id="f1", source="config")}
    return grant_of(
        manifest=manifest_of(
            capabilities=Capabilities(steering=True),
            form=[*FORM, FormItem(name="files", type="array[file]")],
        ),
        agent=agent_of(
            workspace_id=workspace,
            resource_policy=ResourcePolicy(
                **{
                    "allow_workspace_storage": True,
                    "allow_schedules": True,
                    "allowed_agents": ["helper"],
                    "allowed_model_ids": ["gpt", "judge", "vectors"],
                    **policy,
                }
            ),
            state_policy=StatePolicy(state_scopes=["conversation", "actor"]),
        ),
        event=event_of(workspace_id=workspace),
        config={
            "model": "gpt",
            "reranker": "judge",
            "knowledge": ["handbook"],
            "tools": ["search"],
            "files": ["f1"],
        },
        catalog=ResourceCatalog(
            plain.models, plain.tools, plain.knowledge_bases, files=files, interactions=True
        ),
    )


def bare_grant() -> Grant:
    """What a runner that asks for nothing has, of an agent without state."""
    agent = agent_of(state_policy=StatePolicy(enable_state=False))
    return grant_of(manifest=manifest_of(Permissions()), agent=agent, catalog=catalog_of(["gpt"]))


def refusal(method: str, run: GatedRun, run_id: str = "r1", **changes: Any) -> str:
    """The code that a call is refused with; "open" if it is let through."""
    try:
        check(Gate(lambda: NOW), run, method, params_of(method, run_id, **changes))
    except HostlerError as error:
        return error.code
    return "open"


def gated(grant: Grant | None = None, **fields: Any) -> GatedRun:
    return GatedRun("r1", grant or full_grant(), **fields)


class Exhausted:
    """A budget with nothing left."""

    async def take(self, charged: CallToCharge) -> None:
        account = Account("run", "r1", AccountLimits(calls=0))
        raise BudgetExhausted(account, "calls", 0, None).error


# -- the ways -----------------------------------------------------------------------------------------

LONG = "x" * 5_000
WRONG_SCOPE: dict[str, dict[str, Any]] = {
    **{method: {"scope": "runner"} for method in STATE_CALLS},
    **{method: {"area": "workspace"} for method in STORAGE_CALLS},
    "history.page": {"conversation_id": "another"},
    "history.search": {"filters": {"conversation_id": "another"}},
    "run.create": {"conversation_id": "another"},
}
"""Calls that name a scope, an area or a conversation, and one that is not open to the run."""
OVERSIZE: dict[str, dict[str, Any]] = {
    **{method: {"key": LONG} for method in ("state.get", "state.set", "state.delete")},
    "state.list": {"prefix": LONG},
    **{method: {"key": LONG} for method in ("storage.get", "storage.delete")},
    "storage.set": {"content_base64": base64.b64encode(bytes(MAX_STORAGE_VALUE_BYTES + 1)).decode()},
    "storage.keys": {"prefix": LONG},
    "artifact.upload": {"content_base64": base64.b64encode(bytes(MAX_UPLOAD_PART_BYTES + 1)).decode()},
    "artifact.metadata": {"artifact_id": LONG},
    "artifact.read": {"artifact_id": LONG},
    "event.get": {"event_id": LONG},
    "event.page": {"before_cursor": LONG},
    "history.page": {"before_cursor": LONG},
    "history.search": {"query": LONG},
    "run.list": {"before_cursor": LONG},
    "run.cancel": {"reason": LONG},
    "run.create": {"data": {"x": LONG * 100}},
    "schedule.create": {"text": LONG * 2},
    "schedule.delete": {"name": LONG},
    "model.rerank": {"documents": ["x"] * (MAX_RERANK_DOCUMENTS + 1)},
    "model.embed": {"inputs": ["x"] * (MAX_EMBED_INPUTS + 1)},
}
"""Calls with a limit of their own, and what is over it. The others have that of the wire."""
WIRE_BYTES = 64 * KIB


def _not_granted(method: str) -> str | None:
    return None if method in OPEN_CALLS else refusal(method, gated(bare_grant()))


def _other_resource(method: str) -> str | None:
    resource = CALLS[method].resource
    if method == "run.create":
        return refusal(method, gated(), agent="another")
    return None if resource is None else refusal(method, gated(), **{resource: "claude"})


def _foreign_plugin(method: str) -> str:
    """The run of another plugin, named on the connection of this one."""
    theirs = GatedRun("r2", msgspec.structs.replace(full_grant(), owner="evil/plugin"))
    return refusal(method, theirs)


def _foreign_workspace(method: str) -> str:
    """A run of another workspace, named by a run of this one."""
    return refusal(method, GatedRun("r2", full_grant("other")))


def _wrong_scope(method: str) -> str | None:
    if method not in WRONG_SCOPE:
        return None
    grant = full_grant(allow_workspace_storage=False)
    return refusal(method, gated(grant), **WRONG_SCOPE[method])


def _oversize(method: str) -> str:
    return refusal(method, gated(), **OVERSIZE[method]) if method in OVERSIZE else _over_the_wire(method)


def _over_the_wire(method: str) -> str:
    """A call with more bytes than a message may have, as the host's link answers it."""
    pair = Pair.ready(Limits(max_message_bytes=WIRE_BYTES))
    pair.start("r1")
    params = {"run_id": "r1", **ARGUMENTS[method], "pad": "x" * WIRE_BYTES}
    message = line({"id": 1, "method": f"host/{method}", "params": params})
    if any(isinstance(event, Called) for event in pair.to_host(message)):
        return "open"
    (answer,) = lines(pair.host.data_to_send())
    code: str = answer["error"]["data"]["code"]
    return code


def _over_rate(method: str) -> str:
    run = gated(full_grant(rate=Rate(calls_per_second=1)), bucket=TokenBucket(1, 1, NOW))
    assert run.bucket is not None
    run.bucket.take(NOW)
    return refusal(method, run)


@dataclass(frozen=True)
class Way:
    """One way to be unauthorised. `make` gives the code, or None where it does not exist for a call."""

    name: str
    what: str
    make: Callable[[str], str | None]
    none: str = ""
    """Why it does not exist for some calls."""


WAYS = (
    Way(
        "not granted",
        "the grant does not hold the call: the manifest does not ask for it, or the policy does not allow it",
        _not_granted,
        "the call concerns only the run itself, and needs no permission",
    ),
    Way(
        "other resource",
        "it names a model, tool, knowledge base, file or agent that the grant does not hold",
        _other_resource,
        "the call names none",
    ),
    Way("other run", "it names a run that is not this one", lambda method: refusal(method, gated(), "r2")),
    Way("ended run", "the run is over", lambda method: refusal(method, gated(standing="ended"))),
    Way(
        "fenced attempt",
        "another attempt took over",
        lambda method: refusal(method, gated(standing="fenced")),
    ),
    Way("paused run", "the run waits for people", lambda method: refusal(method, gated(standing="paused"))),
    Way("deadline", "the run's time is over", lambda method: refusal(method, gated(deadline_at=NOW))),
    Way("foreign plugin", "it comes over the connection of another plugin", _foreign_plugin),
    Way("foreign workspace", "it comes from a run of another workspace", _foreign_workspace),
    Way(
        "wrong scope",
        "it names a state scope, storage area or conversation that is not open to the run",
        _wrong_scope,
        "the call names none",
    ),
    Way("oversize", "an argument, or else the whole message, is over its limit", _oversize),
    Way("over rate", "more calls in a second than the policy allows", _over_rate),
    Way("over budget", "nothing is left", lambda method: refusal(method, gated(budget=Exhausted()))),
)
NEVER_HELD = REMOTE_WORKER_CALLS
"""Calls that no grant holds: they are refused before any other check but run and attempt."""


def walk() -> dict[str, dict[str, str | None]]:
    """Make every call in every way: method -> way -> code."""
    return {method: {way.name: way.make(method) for way in WAYS} for method in sorted(CALLS)}
