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
IN_GROUPS = {"memory", "processes", "processor time", "open files"}
SOME = found({"pids": 2}, "no controller for memory, cpu")


@pytest.mark.parametrize(
    ("mechanism", "groups", "own_user", "exact", "no_quota"),
    [
        ("bubblewrap", ALL, True, IN_GROUPS | {"temporary files"}, "no file system has them"),
        ("bubblewrap", ALL, True, IN_GROUPS | {"temporary files", "disk"}, None),
        ("landlock", ALL, True, IN_GROUPS, "no file system has them"),
        ("landlock", ALL, True, IN_GROUPS | {"disk"}, None),
        ("landlock", NO_GROUPS, False, {"open files"}, None),
        ("bubblewrap", SOME, False, {"processes", "temporary files", "open files"}, "it has none"),
        ("bubblewrap", NO_GROUPS, False, {"processes", "temporary files", "open files"}, "it has none"),
        ("landlock", NO_GROUPS, True, {"processes", "open files"}, "it has none"),
        ("landlock", NO_GROUPS, False, {"open files"}, "it has none"),
    ],
)
def test_which_limits_are_exact(
    mechanism: Mechanism, groups: FoundGroups, own_user: bool, exact: set[str], no_quota: str | None
) -> None:
    capabilities = SandboxCapabilities(
        (mechanism,), groups=groups, maps_users=own_user, changes_user=own_user
    )
    reports = {report.limit: report for report in limit_reports(capabilities, mechanism, no_quota)}
    assert {name for name, report in reports.items() if report.is_exact} == exact
    for name in exact & {"memory", "processes"} if groups is ALL else ():
        assert "control groups (version 2)" in reports[name].text
    if "memory" not in exact:
        assert reports["memory"].text.startswith("by looks: ")
        assert "Delegate=yes" in reports["control groups"].text
    if "disk" in exact:
        assert reports["disk"].text.startswith("exact (project quota)")
    else:
        assert reports["disk"].text.startswith("by looks: ")
        assert reports["disk"].text.endswith(
            (no_quota or "") if own_user else "only a host that is root sets them"
        )
