"""What `hostler doctor` says of each limit: exact, or a look, and by which means."""

from __future__ import annotations

import pytest

from hostler.domain.control_groups import Controller
from hostler.sandbox.capabilities import SandboxCapabilities
from hostler.sandbox.control_groups import NO_GROUPS, ControlGroups, FoundGroups
from hostler.sandbox.limit_reports import limit_reports
from hostler.sandbox.port import Mechanism


def found(versions: dict[Controller, int], why: str = "") -> FoundGroups:
    groups = ControlGroups([])
    groups.versions.update(versions)  # type: ignore[arg-type]
    return FoundGroups(groups, why)


ALL = found({"memory": 2, "pids": 2, "cpu": 1})
SOME = found({"pids": 2}, "no controller for memory, cpu")


@pytest.mark.parametrize(
    ("mechanism", "groups", "own_user", "exact"),
    [
        ("bubblewrap", ALL, True, {"memory", "processes", "processor time", "temporary files", "open files"}),
        ("landlock", ALL, True, {"memory", "processes", "processor time", "open files"}),
        ("bubblewrap", SOME, False, {"processes", "temporary files", "open files"}),
        ("bubblewrap", NO_GROUPS, False, {"processes", "temporary files", "open files"}),
        ("landlock", NO_GROUPS, True, {"processes", "open files"}),
        ("landlock", NO_GROUPS, False, {"open files"}),
    ],
)
def test_which_limits_are_exact(
    mechanism: Mechanism, groups: FoundGroups, own_user: bool, exact: set[str]
) -> None:
    capabilities = SandboxCapabilities(
        (mechanism,), groups=groups, maps_users=own_user, changes_user=own_user
    )
    reports = {report.limit: report for report in limit_reports(capabilities, mechanism)}
    assert {name for name, report in reports.items() if report.is_exact} == exact
    for name in exact & {"memory", "processes"} if groups is ALL else ():
        assert "control groups (version 2)" in reports[name].text
    if "memory" not in exact:
        assert reports["memory"].text.startswith("by looks: ")
        assert "Delegate=yes" in reports["control groups"].text
    assert reports["disk"].text.startswith("by looks: ")
