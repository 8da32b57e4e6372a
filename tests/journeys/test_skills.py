"""Skills from the shell: configured, used by a run, changed behind its back, confirmed."""

from __future__ import annotations

import json

import pytest

from support.command_line import EXAMPLES, CommandLine
from support.skills import make_skill

pytestmark = pytest.mark.timeout(600)  # several processes, one after the other


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
    assert gone.error == "there is no skill 'pouring'; `hostler skills list` shows what there is"
