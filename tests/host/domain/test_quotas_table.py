"""Quotas, decided: what counts for whom, what fits, and what the refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.quotas import (
    NO_ROOM,
    QUANTITIES,
    UNBOUNDED,
    Account,
    AgentQuota,
    Amounts,
    Holder,
    WorkspaceQuota,
    added,
    exceeded_quota,
    moved,
    quotas_of,
    room_for,
    state_size,
)
from hostler_protocol.errors import PayloadTooLargeError

pytestmark = pytest.mark.gate("quotas")

RUN = Holder("a1", "r1")
WORKSPACE, AGENT, OWN = Account("workspace"), Account("agent", "a1"), Account("run", "r1")
FREE = WorkspaceQuota(**dict.fromkeys(WorkspaceQuota.__struct_fields__, None))


def agent(**bounds: Any) -> AgentQuota:
    return AgentQuota(**dict.fromkeys(AgentQuota.__struct_fields__, None) | bounds)


def test_what_a_run_stores_counts_three_times_and_what_comes_from_outside_once() -> None:
    one = Amounts(artifacts=1, artifact_bytes=5)
    assert added(RUN, one) == {WORKSPACE: one, AGENT: one, OWN: one}
    assert added(Holder(), one) == {WORKSPACE: one}
    assert added(Holder("a1"), one) == {WORKSPACE: one, AGENT: one}
    assert added(RUN, Amounts()) == {}


def test_a_value_that_changes_hands_moves() -> None:
    before, after = Amounts(storage_values=-1, storage_bytes=-10), Amounts(storage_values=1, storage_bytes=4)
    changes = moved((RUN, before), (Holder("a2", "r2"), after))
    assert changes == {
        WORKSPACE: Amounts(storage_bytes=-6),
        AGENT: before,
        OWN: before,
        Account("agent", "a2"): after,
        Account("run", "r2"): after,
    }
    assert moved((RUN, before), (RUN, before.negated())) == {}, "written again as it was"


@pytest.mark.parametrize("what", QUANTITIES)
@pytest.mark.parametrize(
    ("used", "more", "fits"), [(0, 10, True), (9, 1, True), (9, 2, False), (10, 1, False)]
)
def test_a_quota_is_reached_and_not_passed(what: str, used: int, more: int, fits: bool) -> None:
    quotas = quotas_of(WorkspaceQuota(**{f"max_{what}": 10}))
    changes = added(Holder(), Amounts(**{what: more}))
    exceeded = exceeded_quota(changes, {WORKSPACE: Amounts(**{what: used})}, quotas)
    assert (exceeded is None) == fits
    if exceeded is not None:
        assert (exceeded.what, exceeded.limit, exceeded.used, exceeded.more) == (what, 10, used, more)


def test_what_shrinks_or_stays_fits_also_over_a_quota_that_was_lowered() -> None:
    quotas = quotas_of(NO_ROOM, agent(max_state_bytes=0))
    full = {account: Amounts(state_bytes=50) for account in (WORKSPACE, AGENT)}
    assert exceeded_quota(added(Holder("a1"), Amounts(state_bytes=-1)), full, quotas) is None
    assert exceeded_quota({}, full, quotas) is None
    grows = moved((RUN, Amounts(artifacts=-1)), (RUN, Amounts(artifacts=1, artifact_bytes=1)))
    assert exceeded_quota(grows, full, quotas) is not None, "one quantity grows, another one stays"


def test_nothing_is_bounded_where_all_is_null() -> None:
    much = added(RUN, Amounts(*([2**62] * len(QUANTITIES))))
    assert exceeded_quota(much, {}, quotas_of(FREE, agent())) is None
    assert exceeded_quota(much, {}, UNBOUNDED) is None
    assert room_for("artifact_bytes", added(RUN, Amounts(1)), {}, UNBOUNDED) is None


def test_defaults_bound_everything_and_a_run_less_than_its_agent_and_that_less_than_the_workspace() -> None:
    workspace, of_agent, of_run = quotas_of(WorkspaceQuota(), AgentQuota())
    for what in QUANTITIES:
        widest, middle, least = (getattr(bounds, what) for bounds in (workspace, of_agent, of_run))
        assert widest > middle > 0
        assert (least is None) == (what == "state_bytes"), "state belongs to no run"
        assert least is None or middle > least


def test_room_is_the_least_that_is_left_anywhere() -> None:
    quotas = quotas_of(WorkspaceQuota(max_artifact_bytes=100), agent(max_artifact_bytes=50))
    accounts = added(RUN, Amounts(artifacts=1))
    uses = {WORKSPACE: Amounts(artifact_bytes=70), AGENT: Amounts(artifact_bytes=10)}
    assert room_for("artifact_bytes", accounts, uses, quotas) == 30
    assert room_for("artifact_bytes", accounts, uses | {WORKSPACE: Amounts(0, 500)}, quotas) == 0


@pytest.mark.parametrize(
    ("account", "field", "where"),
    [
        (WORKSPACE, "quota.max_artifact_bytes", "workspaces"),
        (AGENT, "quota.max_artifact_bytes", "resource_policy"),
        (OWN, "quota.max_artifact_bytes_per_run", "resource_policy"),
    ],
)
def test_the_refusal_says_which_quota_it_was_how_much_is_used_and_who_can_raise_it(
    account: Account, field: str, where: str
) -> None:
    bounds = {WORKSPACE: quotas_of(WorkspaceQuota(max_artifact_bytes=1_000))}.get(account)
    bounds = bounds or quotas_of(FREE, agent(**{field.removeprefix("quota."): 1_000}))
    exceeded = exceeded_quota(added(RUN, Amounts(1, 300)), {account: Amounts(0, 900)}, bounds)
    assert exceeded is not None
    error = exceeded.error
    assert isinstance(error, PayloadTooLargeError)
    for part in (f"this {account.level}", "1,000 bytes of artifacts", "900", "300", f"`{field}`", where):
        assert part in error.message, error.message
    assert error.details == {
        "reason": "quota_exceeded",
        "quota": field.removeprefix("quota."),
        "level": account.level,
        "limit": 1_000,
        "used": 900,
        "asked": 300,
    }


def test_a_state_value_counts_in_bytes_and_its_row_stays_when_it_is_deleted() -> None:
    assert state_size("k", '"é"') == 1 + 4 + 100
    assert state_size("k", "") == 101
