"""Numbers of any size in bodies: taken or refused, never a failure; an agent that was taken can be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.http_host import PUPPET_RUNNER, Served, serving

ANY: list[int | float] = [0, -1, 1, 60, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, -(10**30)]
ANY += [0.5, -0.5, 1e-320, 1e18, 1e308, -1e308]
OF_AGENTS: dict[str, Any] = {
    "approvals": lambda n: {"resource_policy": {"tool_approval": {"x.*": {"min_approvals": n}}}},
    "expires_in": lambda n: {"resource_policy": {"tool_approval": {"x.*": {"expires_in": n}}}},
    "tokens a run": lambda n: {"resource_policy": {"budget": {"max_tokens_per_run": n}}},
    "tokens a day": lambda n: {"resource_policy": {"budget": {"max_tokens_per_day": n}}},
    "cost a run": lambda n: {"resource_policy": {"budget": {"max_cost_per_run": n}}},
    "cost a day": lambda n: {"resource_policy": {"budget": {"max_cost_per_day": n}}},
    "calls a run": lambda n: {"resource_policy": {"budget": {"max_calls_per_run": n}}},
    "calls a day": lambda n: {"resource_policy": {"budget": {"max_calls_per_day": n}}},
    "calls a second": lambda n: {"resource_policy": {"rate": {"calls_per_second": n}}},
    "message size": lambda n: {"delivery_policy": {"max_message_size": n}},
    "idle": lambda n: {"idle_timeout": n},
    "debounce": lambda n: {"concurrency": {"debounce": n}},
    "runs": lambda n: {"concurrency": {"max_runs": n}},
    "attempts": lambda n: {"recovery": {"max_attempts": n}},
    "priority": lambda n: {"priority": n},
}
BODIES: dict[str, tuple[str, Any]] = {
    "event_time": ("/v1/events", lambda n: _event(event_time=n)),
    "delay": ("/v1/events", lambda n: _event(delay=n)),
    "message size": ("/v1/events", lambda n: _event(delivery={"max_message_size": n})),
    "size of an attachment": (
        "/v1/events",
        lambda n: _event(input={"text": "a", "attachments": [{"artifact_id": "none", "size_bytes": n}]}),
    ),
    "expiry of a key": ("/v1/keys", lambda n: {"name": "k", "rights": ["runs:read"], "expires_at": n}),
    **{
        f"days of {kind}": ("/v1/config?dry_run=true", lambda n, kind=kind: {"retention": {kind: n}})
        for kind in ("events", "transcripts", "journals", "deltas", "artifacts", "states")
    },
}


def _event(**fields: Any) -> dict[str, Any]:
    return {"event_type": "message.received", "agent": "puppet", "input": {"text": "say 1"}, **fields}


async def refusals(served: Served, method: str, path: str, bodies: list[Any]) -> list[Any]:
    """Send them all; the bodies that were taken."""
    taken = []
    for body in bodies:
        answer = await served.client.request(method, path, json=body)
        assert answer.status_code < 500, (path, json.dumps(body), answer.text)
        if answer.is_success:
            taken.append(body)
        else:
            assert answer.json()["code"] in ("invalid_argument", "not_found"), answer.text
    return taken


async def test_no_number_in_a_body_makes_the_host_fail(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for path, made in BODIES.values():
            await refusals(served, "POST", path, [made(number) for number in ANY])
        later = await served.client.post("/v1/events", json=_event(event_time=253_402_300_800))
        assert "expected UTC epoch seconds" in later.json()["detail"]

    await _with(tmp_path, scenario)


async def test_an_agent_that_is_taken_with_any_number_can_be_run(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for name, made in OF_AGENTS.items():
            bodies = [{"name": "a", "runner": PUPPET_RUNNER, **made(number)} for number in ANY]
            taken = await refusals(served, "PUT", "/v1/agents/a", bodies)
            assert taken, name
            for body in (taken[0], taken[-1]):
                await served.client.put("/v1/agents/a", json=body)
                said = await served.say("say 1", agent="a", conversation_id=None)
                assert said["status"] == "completed", (json.dumps(body), said)

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any) -> None:
    async with serving(tmp_path) as served:
        await scenario(served)
