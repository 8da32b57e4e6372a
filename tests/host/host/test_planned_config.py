"""A dry run names the same problems as the change itself: of what changes, of what stays, and of both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.config_changes import Change, ConfigProblem
from hostler.host.config import ConfigFile
from hostler.host.planned_config import PlannedConfig, lasting, merged
from support.channel_host import Chatting, chatting, entry_for
from support.chat_platform import platform
from support.databases import TEST_SECONDS

ECHO = {"name": "echo", "runner": "plugin:test/wires/echo"}
HOOK = {"name": "in", "verify": "none", "agent": "nobody"}
WIDGET = {"name": "shop", "agent": "nobody", "origins": ["*"]}
SKILL = "---\nname: {name}\ndescription: Makes tea.\n---\nBoil water.\n"


def problem(kind: Any, name: str, text: str, place: str = "", severity: Any = "error") -> ConfigProblem:
    return ConfigProblem(kind=kind, name=name, problem=text, place=place, severity=severity)


def sentences(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The problems, and how grave each is, in any order; none is said twice."""
    said = sorted((one["severity"], msgspec.convert(one, ConfigProblem).sentence) for one in found)
    places = [(one["kind"], one["name"], one["place"], one["problem"]) for one in found]
    assert len(set(places)) == len(places), said
    return said


async def applied(host: Chatting, prune: bool = False, **entries: Any) -> list[str]:
    """Try a configuration, then apply it; return the problems, which are those that the trial named."""
    client, query = host.served.client, {"prune": str(prune).lower()}
    tried = await client.post("/v1/config", json=entries, params={**query, "dry_run": "true"})
    assert tried.status_code == 200, tried.text
    done = await client.post("/v1/config", json=entries, params=query)
    assert (done.status_code, tried.json()["applied"], done.json()["applied"]) == (200, False, True)
    told = sentences(done.json()["problems"])
    assert sentences(tried.json()["problems"]) == told
    again = await client.post("/v1/config", json=entries, params={**query, "dry_run": "true"})
    assert sentences(again.json()["problems"]) == told, "an entry that stays has the same problems"
    return [f"{severity} {text}" for severity, text in told]


def one_of(said: list[str], *parts: str) -> str:
    (found,) = [text for text in said if all(part in text for part in parts)]
    return found


async def test_a_trial_and_the_change_itself_name_the_same_problems(tmp_path: Path) -> None:
    tea = tmp_path / "tea"
    tea.mkdir()
    (tea / "SKILL.md").write_text(SKILL.format(name="another"))
    async with asyncio.timeout(TEST_SECONDS), platform() as chat, chatting(tmp_path, chat, agent={}) as host:
        await host.connected()
        first = msgspec.to_builtins(entry_for(chat.port, tmp_path / "token", agent="echo"))
        second = {**first, "name": "again", "agent": "ecko"}
        off = {**ECHO, "name": "off", "enabled": False}
        clock = {"name": "clock", "cron": "0 3 * * *", "agent": "off"}
        model = {"id": "small", "base_url": "http://localhost:9/v1", "api_key": "env:NO_SUCH_NAME"}
        said = await applied(
            host,
            agents=[{**ECHO, "resource_policy": {"allowed_agents": ["ekco"]}}, off],
            channels=[first, second],
            hooks=[HOOK],
            widgets=[WIDGET],
            schedules=[clock],
            models=[model],
            skills=[str(tea)],
        )
        assert one_of(said, "warning channel again: agent: ", "did you mean 'echo'?")
        assert one_of(said, "warning channel chat: config: is that of channel 'again'")
        assert one_of(said, "warning agent echo: resource_policy.allowed_agents[0]: ", "'ekco'")
        assert one_of(said, "error hook in: agent: there is no agent 'nobody'")
        assert one_of(said, "warning hook in: verify: ")
        assert one_of(said, "error widget shop: agent: there is no agent 'nobody'")
        assert one_of(said, "warning widget shop: origins: ")
        assert one_of(said, "error schedule clock: agent: agent 'off' is disabled")
        assert one_of(said, "model small: ", "NO_SUCH_NAME")
        assert one_of(said, "skill ", "another")
        assert len(said) == 10

        # of entries that stay: what they lacked comes, and what they have goes
        said = await applied(
            host,
            agents=[{**ECHO, "name": "nobody"}, {**off, "enabled": True}, {**ECHO, "enabled": False}],
            channels=[{**second, "agent": "echo", "config": {**first["config"], "port": 1}}],
        )
        assert not [text for text in said if "nobody" in text or "is that of" in text]
        assert not [text for text in said if "schedule" in text]
        said = await applied(host, schedules=[{**clock, "agent": "echo"}])
        assert one_of(said, "error schedule clock: agent: agent 'echo' is disabled")
        assert one_of(said, "skill ", "another")
        assert one_of(await applied(host, hooks=[{**HOOK, "agent": "nobdy"}]), "error hook in: agent: ")

        wires = msgspec.to_builtins((await host.host.export()).plugins)
        assert await applied(host, plugins=wires, agents=[ECHO], prune=True) == []


async def test_what_one_entry_lacks_is_said_by_a_put_and_by_what_lists_problems(tmp_path: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS), platform() as chat, chatting(tmp_path, chat, agent={}) as host:
        client = host.served.client
        entry = msgspec.to_builtins(entry_for(chat.port, tmp_path / "token", agent="ecko"))
        done = (await client.put("/v1/config/channels/chat", json=entry)).json()
        (told,) = done["problems"]
        assert (told["kind"], told["place"], told["severity"]) == ("channel", "agent", "warning")
        assert (await client.get("/v1/problems")).json()["items"] == [told]
        found = (await client.get("/v1/doctor")).json()["items"]
        assert ["ecko" in one["text"] for one in found].count(True) == 1, "the doctor says it once"
        assert (await client.delete("/v1/config/channels/chat")).json()["problems"] == []


def test_of_two_that_find_the_same_the_one_that_knows_more_is_heard() -> None:
    known = problem("skill", "tea", "has two names", severity="error")
    guess = problem("skill", "tea", "tea: has two names", severity="warning")
    other = problem("hook", "in", "is open", "verify", "warning")
    assert merged([known, known], [guess, other, other]) == [known, other]
    assert merged([], [guess]) == [guess]
    assert lasting([other, problem("channel", "chat", "is not known yet", "channel", "warning")]) == [other]


def test_a_plan_knows_what_it_leaves_as_it_is() -> None:
    changes = [
        Change(kind="model", name="m", change="changed"),
        Change(kind="model", name="k", change="kept"),
    ]
    planned = PlannedConfig(ConfigFile(skills=["/tea"]), None, changes)
    assert [planned.leaves("model", name) for name in ("m", "k")] == [False, True]
    assert planned.leaves("agent", "m")
    assert [planned.leaves_skill(one) for one in ("/tea", "/tea/green", "/tea/a/b", "/coffee")] == [
        True, True, False, False,
    ]  # fmt: skip
