"""What of a sandbox's violations is told: no group hides another one, and no hour the next."""

from __future__ import annotations

import pytest

from hostler.sandbox.report_budget import (
    MAX_GROUPS,
    MAX_PER_GROUP,
    OTHERS,
    PERIOD_SECONDS,
    ReportBudget,
    group_of,
)

pytestmark = pytest.mark.gate("sandbox-violations")


def test_groups_have_budgets_of_their_own_for_an_hour() -> None:
    now = [0.0]
    budget = ReportBudget(lambda: now[0])
    files = [budget.take("refused", f"reading /etc/{number}") for number in range(MAX_PER_GROUP * 3)]
    assert files == ["report"] * MAX_PER_GROUP + ["last"] + ["no"] * (2 * MAX_PER_GROUP - 1)
    assert budget.take("refused", "ptrace") == "report"
    assert budget.take("refused", "ptrace") == "no", "it was told"
    assert budget.take("limit", "memory") == "report"
    now[0] = PERIOD_SECONDS - 1
    assert budget.take("refused", "reading /etc/other") == "no"
    now[0] = PERIOD_SECONDS
    assert budget.take("refused", "reading /etc/other") == "report"
    assert budget.take("refused", "ptrace") == "report"


def test_all_that_can_be_told_is_bounded() -> None:
    budget = ReportBudget(lambda: 0.0)
    told = [budget.take("refused", f"call{n} {m}") for n in range(MAX_GROUPS * 3) for m in range(3)]
    assert told.count("report") == MAX_GROUPS * 3 + MAX_PER_GROUP
    assert told.count("last") == 1
    assert len(budget._told) == MAX_GROUPS + 1
    assert OTHERS in budget._told


def test_a_group_is_a_verb_a_call_or_a_kind() -> None:
    assert group_of("refused", "reading /etc/shadow") == "reading"
    assert group_of("refused", "socket UDP") == "socket"
    assert group_of("network", "example.com:443") == "network"
    assert group_of("limit", "memory") == "limit"
