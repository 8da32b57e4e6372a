"""`hostler schedules` as real commands, with a server and without."""

from __future__ import annotations

import time

import pytest

from support.command_line import ECHO, CommandLine


@pytest.mark.parametrize("with_server", [True, False])
def test_a_schedule_from_its_first_to_its_last_command(hostler: CommandLine, with_server: bool) -> None:
    config = hostler.cwd / "hostler.yaml"
    config.write_text(
        f"plugins: [{{path: {ECHO}, level: trusted}}]\n"
        'agents: [{name: clerk, runner: "plugin:acme/echo/default"}]\n'
    )
    assert hostler("apply", config).status == 0
    if with_server:
        with hostler.serving():
            commands(hostler)
            assert (
                hostler("schedules", "add", "tick", "--every", "1", "--agent", "clerk", "--text", "hi").status
                == 0
            )
            until = time.monotonic() + 100
            while not (found := hostler("schedules", "history", "tick", "--json").json):
                assert time.monotonic() < until
            assert found[0]["outcome"] == "started"
            asked = hostler("schedules", "run", "tick", "--json").json
            history = hostler("schedules", "history", "tick", "--json").json
            assert asked["run"]["run_id"] in {one["run_id"] for one in history if one["asked_by"] == "admin"}
            assert hostler("agents", "remove", "clerk").status == 0
            assert "there is no agent 'clerk' any more" in hostler("doctor").out
    else:
        commands(hostler)
        assert hostler("schedules", "add", "tick", "--every", "1", "--agent", "clerk").status == 0
        refused = hostler("schedules", "run", "tick")
        assert (refused.status, "server" in refused.error) == (2, True)


def commands(hostler: CommandLine) -> None:
    added = hostler(
        *("schedules", "add", "report", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin"),
        *("--agent", "clerk", "--text", "Report.", "misfire=skip"),
    )
    assert added.status == 0, added.err
    assert "Europe/Berlin" in added.out
    again = hostler("schedules", "add", "report", "--every", "60")
    assert (again.status, "already" in again.error) == (1, True)
    wrong = hostler("schedules", "add", "other", "--cron", "99 * * * *")
    assert (wrong.status, "its minute is not valid" in wrong.error) == (2, True)
    (listed,) = hostler("schedules", "list", "--json").json
    assert (listed["name"], listed["spec"]["misfire"]) == ("report", "skip")
    upcoming = hostler("schedules", "next", "report", "--count", "400").status
    assert upcoming == 2, "at most 100"
    times = [one["local"] for one in hostler("schedules", "next", "report", "--count", "100", "--json").json]
    assert len(times) == 100
    assert all("02:30:00" in one or "03:00:00 CEST" in one for one in times)
    changed = hostler("schedules", "change", "report", "text=Other.", "cron=", "every=3600")
    assert changed.status == 0, changed.err
    shown = hostler("schedules", "show", "report", "--json").json
    assert (shown["spec"]["text"], shown["spec"]["cron"], shown["spec"]["every"]) == ("Other.", None, 3600.0)
    assert "paused" in hostler("schedules", "pause", "report").err
    assert hostler("schedules", "list", "--json").json[0]["status"] == "paused"
    assert "fires next" in hostler("schedules", "resume", "report").err
    assert "fires next" in hostler("schedules", "resume", "report", "--from-now").err
    exported = hostler("export")
    assert "every: 3600" in exported.out
    assert hostler("schedules", "remove", "report").status == 0
    gone = hostler("schedules", "show", "report")
    assert (gone.status, "`hostler schedules list` lists what exists" in gone.error) == (1, True)
