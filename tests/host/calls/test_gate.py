"""The gate: every call in every situation that must be refused, and with which code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.calls.gate import CallToCharge, Gate, GatedRun
from hostler.domain.agents import Rate
from hostler.domain.arguments import MAX_CURSOR_CHARS
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant
from hostler.domain.recording import CallName
from hostler.domain.token_bucket import TokenBucket
from hostler.journal.call_log import CallRecord
from hostler_protocol.calls import CALLS
from hostler_protocol.errors import HostlerError, NotFoundError, RateLimitedError, UnauthorizedError
from hostler_protocol.grants import FileResource
from hostler_protocol.manifest import Capabilities, FormItem, Permissions
from support.call_params import params_of
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

pytestmark = pytest.mark.gate("gate-of-calls")

NEVER_HELD = {"run.append", "run.finalize"}
HELD = sorted(set(CALLS) - NEVER_HELD)
UNCONDITIONAL = {"artifact.upload", "prompt.get", "host.info"}
WITH_RESOURCE = sorted(method for method, call in CALLS.items() if call.resource is not None)


def catalog() -> ResourceCatalog:
    plain = catalog_of(["gpt"], ["search"], ["handbook"])
    files = {"f1": FileResource(file_id="f1", source="config")}
    return ResourceCatalog(plain.models, plain.tools, plain.knowledge_bases, files=files, interactions=True)


def full_grant(**policy: Any) -> Grant:
    manifest = manifest_of(
        capabilities=Capabilities(steering=True), form=[*FORM, FormItem(name="files", type="array[file]")]
    )
    models = ["gpt", "judge", "vectors"]
    policy = {
        "allow_workspace_storage": True,
        "allow_schedules": True,
        "allowed_agents": ["helper"],
        "allowed_model_ids": models,
        **policy,
    }
    return grant_of(
        manifest=manifest,
        agent=agent_of(
            resource_policy=ResourcePolicy(**policy),
            state_policy=StatePolicy(state_scopes=["conversation", "actor", "subject"]),
        ),
        config={
            "model": "gpt",
            "reranker": "judge",
            "knowledge": ["handbook"],
            "tools": ["search"],
            "files": ["f1"],
        },
        catalog=catalog(),
    )


def bare_grant() -> Grant:
    """What a runner without any permission gets, of an agent without state."""
    agent = agent_of(state_policy=StatePolicy(enable_state=False))
    return grant_of(manifest=manifest_of(Permissions()), agent=agent, catalog=catalog_of(["gpt"]))


class Clock:
    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def gated(grant: Grant | None = None, **fields: Any) -> GatedRun:
    return GatedRun("r1", grant or full_grant(), **fields)


def refusal(run: GatedRun, method: str, *, clock: Clock | None = None, **changes: Any) -> str:
    """The code a call is refused with; 'ok' when it is let through."""
    gate = Gate(clock or Clock())
    run_id = changes.pop("run_id", "r1")
    code = "ok"
    try:
        check(gate, run, method, params_of(method, run_id, **changes))
    except HostlerError as error:
        code = error.code if error.message else "refused without a word"
    assert gate.counts == {(method, code): 1}
    return code


@pytest.mark.parametrize("method", HELD)
def test_a_granted_call_is_let_through(method: str) -> None:
    assert refusal(gated(), method) == "ok"


@pytest.mark.parametrize("method", sorted(CALLS))
def test_every_call_is_refused_in_every_wrong_situation(method: str) -> None:
    deadline = Clock().now
    situations: list[tuple[str, dict[str, Any], str]] = [
        ("another run's id", {"run_id": "r2"}, "not_found"),
        ("a run that ended", {"run": gated(standing="ended")}, "cancelled"),
        ("a run that is paused", {"run": gated(standing="paused")}, "cancelled"),
        ("a run that was fenced", {"run": gated(standing="fenced")}, "cancelled"),
    ]
    if method in NEVER_HELD:
        assert refusal(gated(), method) == "unauthorized"
    else:
        situations.append(("an expired deadline", {"run": gated(deadline_at=deadline)}, "deadline_exceeded"))
    if method not in UNCONDITIONAL:
        situations.append(("nothing granted", {"run": gated(bare_grant())}, "unauthorized"))
    for name, situation, code in situations:
        run = situation.pop("run", gated())
        assert refusal(run, method, **situation) == code, name


@pytest.mark.gate("plugin-identity")
@pytest.mark.parametrize("method", sorted(CALLS))
def test_a_call_that_names_another_run_learns_nothing(method: str) -> None:
    """Whatever the caller's own run may do, the answer about another run is the same."""
    answers = set()
    for run in (gated(), gated(standing="ended"), gated(bare_grant()), gated(deadline_at=0.0)):
        with pytest.raises(NotFoundError) as caught:
            check(Gate(Clock()), run, method, params_of(method, "r2"))
        answers.add(msgspec.json.encode([caught.value.message, caught.value.details]))
    assert len(answers) == 1


@pytest.mark.parametrize("method", WITH_RESOURCE)
def test_an_id_outside_the_grant_is_not_found_whether_it_exists_or_not(method: str) -> None:
    resource = CALLS[method].resource
    assert resource is not None
    # 'claude' exists in the workspace; the grant does not hold it
    for name in ("claude", "gone", "gpt*", "*", ""):
        changes: dict[str, Any] = {resource: name}
        assert refusal(gated(), method, **changes) == "not_found", name


def test_an_operation_that_the_resource_is_not_granted_for_is_unauthorized() -> None:
    assert refusal(gated(), "model.rerank", model_id="gpt") == "unauthorized"
    assert refusal(gated(), "model.invoke", model_id="judge") == "unauthorized"


@pytest.mark.parametrize("method", ["state.get", "state.set", "state.delete", "state.list"])
def test_state_scopes(method: str) -> None:
    assert refusal(gated(), method, scope="conversation") == "ok"
    assert refusal(gated(), method, scope="runner") == "unauthorized"
    assert refusal(gated(), method, scope="subject") == "unauthorized"
    assert refusal(gated(), method, scope="galaxy") == "invalid_argument"


@pytest.mark.parametrize("method", ["storage.get", "storage.set", "storage.delete", "storage.keys"])
def test_storage_areas(method: str) -> None:
    only_plugin = gated(full_grant(allow_workspace_storage=False))
    assert refusal(only_plugin, method, area="plugin") == "ok"
    assert refusal(only_plugin, method, area="workspace") == "unauthorized"


def test_other_conversations() -> None:
    everywhere = gated(full_grant(allow_cross_conversation_history=True))
    for run, code in ((gated(), "not_found"), (everywhere, "ok")):
        assert refusal(run, "history.page", conversation_id="c2") == code
        assert refusal(run, "history.search", filters={"conversation_id": "c2"}) == code
    # reading elsewhere is not writing elsewhere
    assert refusal(everywhere, "run.create", conversation_id="c2") == "not_found"
    assert refusal(everywhere, "run.create", conversation_id="c1") == "ok"


@pytest.mark.gate("child-runs")
def test_agents_that_the_policy_does_not_name() -> None:
    none: list[list[str] | None] = [None, []]
    for listed in none:
        assert refusal(gated(full_grant(allowed_agents=listed)), "run.create") == "unauthorized"
    some = gated(full_grant(allowed_agents=["helper", "team.*"]))
    for name, code in (
        ("helper", "ok"),
        ("team.a", "ok"),
        ("team.", "ok"),
        ("team", "not_found"),
        ("Helper", "not_found"),
        ("helper.a", "not_found"),
        ("*", "not_found"),
    ):
        assert refusal(some, "run.create", agent=name) == code, name


BIG = 5 * 1024 * 1024


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("method", "changes", "code"),
    [
        ("state.set", {"value": "x" * 262_143}, "payload_too_large"),
        ("state.set", {"value": "x" * 262_142}, "ok"),
        ("state.set", {"key": "x" * 256}, "invalid_argument"),
        ("state.get", {"key": ""}, "invalid_argument"),
        ("state.delete", {"key": "a\x00"}, "invalid_argument"),
        ("state.set", {"value": nested(126)}, "ok"),
        ("state.set", {"value": nested(129)}, "invalid_argument"),
        ("tool.call", {"parameters": {"x": nested(129)}}, "invalid_argument"),
        ("model.invoke", {"extra_args": {"x": nested(129)}}, "invalid_argument"),
        ("artifact.upload", {"metadata": {"x": nested(129)}}, "invalid_argument"),
        ("run.create", {"data": {"x": nested(129)}}, "invalid_argument"),
        ("state.list", {"prefix": "x" * 256}, "invalid_argument"),
        ("state.list", {"limit": 0}, "invalid_argument"),
        ("state.list", {"limit": 10_000}, "ok"),
        ("storage.set", {"content_base64": "A" * (BIG // 3 * 4)}, "payload_too_large"),
        ("storage.set", {"content_base64": "A"}, "invalid_argument"),
        ("storage.set", {"key": "x" * 256}, "invalid_argument"),
        ("artifact.upload", {"content_base64": "A" * (BIG // 3 * 4)}, "payload_too_large"),
        ("artifact.upload", {"part": 1}, "invalid_argument"),
        ("artifact.upload", {"sha256": "no digest"}, "invalid_argument"),
        ("artifact.upload", {"expires_in": -1}, "invalid_argument"),
        ("artifact.upload", {"metadata": {"x": "y" * 70_000}}, "payload_too_large"),
        ("artifact.read", {"limit": 0}, "invalid_argument"),
        ("artifact.read", {"artifact_id": "a\x00"}, "invalid_argument"),
        ("artifact.metadata", {"artifact_id": "a" * 600}, "invalid_argument"),
        ("model.invoke", {"messages": []}, "invalid_argument"),
        ("model.invoke", {"extra_args": {"temperature": 1}}, "ok"),
        ("model.invoke", {"extra_args": {"api_base": "http://evil"}}, "invalid_argument"),
        ("model.stream", {"extra_args": {"model": "bigger"}}, "invalid_argument"),
        ("model.rerank", {"documents": []}, "invalid_argument"),
        ("model.rerank", {"documents": ["x"] * 65}, "invalid_argument"),
        ("model.rerank", {"documents": ["x"] * 64}, "ok"),
        ("model.rerank", {"query": ""}, "invalid_argument"),
        ("model.embed", {"inputs": []}, "invalid_argument"),
        ("model.embed", {"inputs": ["x"] * 65}, "invalid_argument"),
        ("model.embed", {"inputs": ["x"] * 64}, "ok"),
        ("model.embed", {"inputs": [[1, 2], [3]]}, "ok"),
        ("model.embed", {"inputs": ["a", ""]}, "invalid_argument"),
        ("model.embed", {"inputs": [[]]}, "invalid_argument"),
        ("model.embed", {"dimensions": 0}, "invalid_argument"),
        ("model.embed", {"dimensions": 4097}, "invalid_argument"),
        ("model.embed", {"model_id": "gpt"}, "unauthorized"),
        ("knowledge.retrieve", {"top_k": 0}, "invalid_argument"),
        ("knowledge.retrieve", {"query_text": " "}, "invalid_argument"),
        ("history.page", {"before_cursor": "x", "after_cursor": "y"}, "invalid_argument"),
        ("history.page", {"before_cursor": "x" * (MAX_CURSOR_CHARS + 1)}, "invalid_argument"),
        ("history.page", {"limit": 0}, "invalid_argument"),
        ("history.page", {"limit": 1_000_000}, "ok"),
        ("history.search", {"query": "\n"}, "invalid_argument"),
        ("history.search", {"query": "x" * 1_001}, "invalid_argument"),
        ("history.search", {"filters": {"after": 1e300}}, "invalid_argument"),
        ("event.get", {"event_id": ""}, "invalid_argument"),
        ("event.page", {"event_types": ["x"] * 101}, "invalid_argument"),
        ("run.list", {"statuses": ["done"]}, "invalid_argument"),
        ("run.list", {"statuses": ["completed"]}, "ok"),
        ("run.cancel", {"reason": "x" * 501}, "invalid_argument"),
        ("run.create", {"wait": 1e9}, "invalid_argument"),
        ("run.create", {"data": {"x": "y" * 300_000}}, "payload_too_large"),
        ("steering.pull", {"limit": 0}, "invalid_argument"),
    ],
)
def test_arguments(method: str, changes: dict[str, Any], code: str) -> None:
    assert refusal(gated(), method, **changes) == code


def test_the_order_of_the_checks() -> None:
    """What comes earlier in the order decides, so that a refusal says no more than it must."""
    bad: dict[str, Any] = {"scope": "galaxy", "key": ""}
    spent = gated(full_grant(rate=Rate(calls_per_second=1)), deadline_at=0.0)
    spent.bucket = TokenBucket(1, 1, Clock().now)
    spent.bucket.take(Clock().now)
    ended = gated(bare_grant(), standing="ended", deadline_at=0.0)
    assert refusal(ended, "state.get", **bad) == "cancelled"
    assert refusal(gated(bare_grant(), deadline_at=0.0), "state.get", **bad) == "unauthorized"
    assert refusal(spent, "state.get", **bad) == "invalid_argument"
    assert refusal(spent, "state.get") == "rate_limited"
    assert refusal(gated(deadline_at=0.0), "state.get") == "deadline_exceeded"


def test_rate_is_an_average_with_a_burst_and_says_when_to_come_again() -> None:
    clock, run = Clock(), gated(full_grant(rate=Rate(calls_per_second=4)))
    gate = Gate(clock)

    def burst() -> tuple[int, float]:
        let_through = 0
        while True:
            try:
                check(gate, run, "host.info", params_of("host.info"))
            except RateLimitedError as error:
                return let_through, error.retry_after
            let_through += 1

    assert burst() == (4, 0.25)
    clock.now += 0.25
    assert burst() == (1, 0.25)
    clock.now += 100
    assert burst() == (4, 0.25)
    clock.now -= 50
    assert burst()[0] == 0, "a clock that goes back gives no calls"
    assert gate.counts["host.info", "ok"] == 9
    assert gate.counts["host.info", "rate_limited"] == 4


class Purse:
    """A budget of so many calls, of which so many may spend."""

    def __init__(self, calls: int, spending: int) -> None:
        self.calls, self.spending = calls, spending

    async def take(self, charged: CallToCharge) -> None:
        spends = charged.call.spends
        if self.calls == 0 or (spends and self.spending == 0):
            raise UnauthorizedError("used up")
        self.calls -= 1
        self.spending -= spends


def test_a_budget_is_asked_last_and_told_what_spends() -> None:
    run = gated(budget=Purse(4, 1))
    methods = ["host.info", "model.invoke", "model.stream", "model.count_tokens", "state.set", "host.info"]
    assert [refusal(run, method) for method in methods] == [
        "ok",
        "ok",
        "unauthorized",
        "ok",
        "ok",
        "unauthorized",
    ]
    untouched = Purse(1, 0)
    assert refusal(gated(budget=untouched, deadline_at=0.0), "host.info") == "deadline_exceeded"
    assert refusal(gated(budget=untouched), "state.get", scope="galaxy") == "invalid_argument"
    assert untouched.calls == 1


async def test_a_call_that_a_recording_answers_takes_nothing() -> None:
    clock, purse = Clock(), Purse(1, 0)
    run = gated(full_grant(rate=Rate(calls_per_second=1)), budget=purse, deadline_at=clock.now + 1)
    gate = Gate(clock)
    for _ in range(3):
        assert gate.admit(run, "state.get", params_of("state.get")).repeat().method == "state.get"
    assert purse.calls == 1
    admitted = gate.admit(run, "state.get", params_of("state.get"))
    assert gate.counts == {("state.get", "ok"): 3}, "what was admitted and not made yet is not counted"
    record = CallRecord(CallName("state.get", "", 1), params_of("state.get"))
    assert (await admitted.charge(record)).method == "state.get"
    assert purse.calls == 0
    assert gate.counts == {("state.get", "ok"): 4}


def test_an_unknown_method_is_counted_under_one_name() -> None:
    gate = Gate(Clock())
    for method in ("no.such", "x" * 1000):
        with pytest.raises(HostlerError):
            check(gate, gated(), method, params_of("host.info"))
    assert gate.counts == {("unknown", "invalid_argument"): 2}


def test_missing_identities_are_named() -> None:
    run = gated(grant_of(event=event_of(conversation_id=None)))
    with pytest.raises(HostlerError, match="no conversation_id"):
        check(Gate(Clock()), run, "state.get", params_of("state.get", scope="conversation"))
