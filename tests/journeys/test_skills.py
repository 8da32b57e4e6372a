"""Skills from the shell: configured, used by a run, changed behind its back, confirmed."""

from __future__ import annotations

import json

import pytest

from support.command_line import EXAMPLES, CommandLine
from support.skills import SKILL, make_skill

pytestmark = [pytest.mark.gate("skill-pins"), pytest.mark.timeout(600)]


def test_a_skill_is_used_changed_refused_and_confirmed(hostler: CommandLine) -> None:
    folder = make_skill(hostler.cwd / "skills")
    agent = {"name": "clerk", "runner": "plugin:acme/shop/default"}
    conf = hostler.cwd / "conf.yaml"
    conf.write_text(
        json.dumps({"plugins": [str(EXAMPLES / "shop")], "skills": ["./skills"], "agents": [agent]})
    )
    ask = 'skill.brewing {"path": "references/times.md"}'
    with hostler.serving("--config", conf) as server:
        (listed,) = hostler("skills", "list", "--json").json
        assert (listed["name"], listed["version"], listed["problem"]) == ("brewing", "1.2", None)
        assert "green: 2 min" in hostler("run", "clerk", ask).out
        assert "Read references/times.md first." in hostler("run", "clerk", "skill.brewing").out
        (folder / "references" / "times.md").write_text("green: an hour")
        refused = hostler("run", "clerk", ask).out
        assert "changed since they were confirmed" in refused
        assert server.stop() == 0
    with hostler.serving("--config", conf) as server:
        assert "not_found" in hostler("run", "clerk", ask).out
        assert "hostler skills confirm brewing" in hostler("skills", "list", "--json").json[0]["problem"]
        assert "1.2" in hostler("skills", "show", "brewing").out
        stale = hostler("skills", "confirm", "brewing", "--digest", listed["digest"])
        assert (stale.status, "another digest" in stale.error) == (1, True)
        confirmed = hostler("skills", "confirm", "brewing", "--json").json
        assert confirmed["confirmed_digest"] == confirmed["digest"] != listed["digest"]
        assert "green: an hour" in hostler("run", "clerk", ask).out
        assert server.stop() == 0
    gone = hostler("skills", "show", "pouring")
    assert gone.status == 1
    assert gone.error == "there is no skill 'pouring'; `hostler skills list` lists what exists"


LONG = SKILL.replace("Brews tea.", "Brews tea. " + "t" * 1024)
"""A description of 1,068 characters, where the format allows 1,024."""


def test_a_bad_skill_of_a_collection_is_left_out_and_everything_says_why(hostler: CommandLine) -> None:
    make_skill(hostler.cwd / "skills")
    make_skill(hostler.cwd / "skills", "pouring", LONG)
    agent = {"name": "clerk", "runner": "plugin:acme/shop/default"}
    conf = hostler.cwd / "conf.yaml"
    conf.write_text(
        json.dumps({"plugins": [str(EXAMPLES / "shop")], "skills": ["./skills"], "agents": [agent]})
    )
    why = "the description has 1,068 characters"
    with hostler.serving("--config", conf) as server, server.client() as client:
        server.wait_log("error: skill pouring: ")
        server.wait_log(why)
        listed = {one["name"]: one["problem"] for one in hostler("skills", "list", "--json").json}
        assert listed["brewing"] is None
        assert why in listed["pouring"]
        over_http = client.get("/v1/skills/pouring").json()
        assert why in over_http["problem"]
        (problem,) = client.get("/v1/problems").json()["items"]
        assert (problem["kind"], problem["name"]) == ("skill", "pouring")
        (entry,) = hostler("config", "list", "skills", "--json").json
        assert "pouring" in entry["problem"]
        applied = hostler("apply", conf)
        assert applied.status == 0
        assert why in applied.error
        (told,) = hostler("apply", conf, "--dry-run", "--json").json["problems"]
        assert why in told["problem"]
        doctor = {one["what"]: one for one in hostler("doctor", "--json").json}
        assert doctor["skill"]["verdict"] == "note"
        assert why in doctor["skill"]["text"]
        assert "Read references/times.md first." in hostler("run", "clerk", "skill.brewing").out
    without = {one["what"]: one for one in hostler("doctor", "--json").json}
    assert why in without["skill"]["text"]
    again = hostler("apply", conf)  # on the directory itself
    assert (again.status, why in again.error) == (0, True)
    gone = hostler.cwd / "gone.yaml"
    gone.write_text("skills: [./nowhere]")
    assert hostler("apply", gone).status == 2
