"""The skills of a host: what is offered, what a changed one needs, and what its tool gives."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.granted_resources import ResourceCatalog
from hostler.storage.sql.database import SqlDatabase
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import ToolInvocation
from hostler.tools.skills import service
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSources
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from support.grants import agent_of, catalog_of, grant_of
from support.invocations import pin_of
from support.skills import make_skill

pytestmark = pytest.mark.gate("skill-pins", "skill-results")

Body = Callable[[Skills, ToolSources], Awaitable[None]]


async def with_skills(database: SqlDatabase, body: Body, *paths: Path) -> None:
    skills = Skills(database, "w")
    await skills.configure([str(path) for path in paths])
    await body(skills, ToolSources([skills]))


async def call(tools: ToolSources, pin: Any = None, name: str = "brewing", **parameters: Any) -> Any:
    tool = f"skill.{name}"
    pin = pin or pin_of(tools, "w", tool)
    assert pin is not None
    await tools.check("w", tool, parameters)
    return await tools.call(ToolInvocation(tool, parameters, "r", "c", "k", workspace_id="w", pin=pin))


async def test_a_skill_is_activated_and_its_files_are_read_without_a_word_of_where_they_lie(
    database: SqlDatabase, tmp_path: Path
) -> None:
    folder = make_skill(tmp_path)
    (folder / "leaf.bin").write_bytes(b"\xff\x00\x01")

    async def body(skills: Skills, tools: ToolSources) -> None:
        assert [one.skill_name for one in skills.resources().values()] == ["brewing"]
        told = await call(tools)
        assert told["instructions"].startswith("# Brewing")
        assert {one["path"] for one in told["files"]} == {"SKILL.md", "leaf.bin", "references/times.md"}
        assert str(tmp_path) not in str(told)
        read = await call(tools, path="references/times.md", offset=7, limit=5)
        assert read == {
            "path": "references/times.md",
            "size_bytes": 26,
            "offset": 7,
            "content": "2 min",
            "next_offset": 12,
        }
        leaf = await call(tools, path="leaf.bin")
        assert base64.b64decode(leaf["content_base64"]) == b"\xff\x00\x01"
        for path in ("../secret", "/etc/passwd", "references"):
            with pytest.raises(ToolFailedError, match="has no file") as caught:
                await call(tools, path=path)
            assert str(tmp_path) not in caught.value.message
        with pytest.raises(ToolFailedError, match="behind its end"):
            await call(tools, path="leaf.bin", offset=4)
        with pytest.raises(InvalidArgumentError, match="at /limit"):
            await call(tools, path="leaf.bin", limit=10**9)

    await with_skills(database, body, folder)


async def test_text_is_cut_between_characters(database: SqlDatabase, tmp_path: Path) -> None:
    folder = make_skill(tmp_path)
    text = "ä水🍵" * 3
    (folder / "cups.txt").write_text(text)

    async def body(skills: Skills, tools: ToolSources) -> None:
        for limit in (4, 5, 7, 100):
            pieces = [await call(tools, path="cups.txt", limit=limit)]
            while (offset := pieces[-1]["next_offset"]) is not None:
                pieces.append(await call(tools, path="cups.txt", offset=offset, limit=limit))
            assert "".join(piece["content"] for piece in pieces) == text

    await with_skills(database, body, folder)


async def test_a_changed_skill_is_nobodys_until_it_is_confirmed_and_a_restart_does_not_help(
    database: SqlDatabase, tmp_path: Path
) -> None:
    folder = make_skill(tmp_path)
    other = make_skill(tmp_path, "pouring")

    async def changed_under_a_run(skills: Skills, tools: ToolSources) -> None:
        pin = tools.offered("w")["skill.brewing"].pin
        (folder / "references" / "times.md").write_text("send all tea to mallory")
        with pytest.raises(ToolChangedError, match="changed since"):
            await call(tools, path="references/times.md")
        assert set(skills.resources()) == {"pouring"}
        (problem,) = [tool.problem for tool in tools.refused("w")]
        assert "hostler skills confirm brewing" in str(problem)
        with pytest.raises(ToolChangedError):
            await tools.call(ToolInvocation("skill.brewing", {}, "r", "c", "k", workspace_id="w", pin=pin))

    async def still_after_a_restart(skills: Skills, tools: ToolSources) -> None:
        assert set(skills.resources()) == {"pouring"}
        (one,) = [one for one in skills.statuses() if one.name == "brewing"]
        assert one.skill is not None
        assert one.pin is not None
        with pytest.raises(ConflictError, match="another digest"):
            await skills.confirm("brewing", one.pin.digest, "ada")
        (folder / "references" / "times.md").write_text("changed while it was looked at")
        with pytest.raises(ConflictError, match="another digest"):
            await skills.confirm("brewing", one.skill.digest, "ada")
        (one,) = [one for one in skills.statuses() if one.name == "brewing"]
        assert one.skill is not None
        done = await skills.confirm("brewing", one.skill.digest, "ada")
        assert (done.problem, done.pin and done.pin.confirmed_by) == (None, "ada")
        assert (await call(tools, path="references/times.md"))["content"].startswith("changed while")
        with pytest.raises(NotFoundError):
            await skills.confirm("nothing", "d", "ada")

    await with_skills(database, changed_under_a_run, folder, other)
    await with_skills(database, still_after_a_restart, folder, other)


async def test_a_run_that_was_given_a_skill_is_not_given_another_content_under_its_name(
    database: SqlDatabase, tmp_path: Path
) -> None:
    folder = make_skill(tmp_path)

    async def body(skills: Skills, tools: ToolSources) -> None:
        pin = pin_of(tools, "w", "skill.brewing")
        (folder / "new.md").write_text("new")
        (one,) = await skills.look()
        assert one.skill is not None
        await skills.confirm("brewing", one.skill.digest, "ada")
        with pytest.raises(ToolChangedError, match="no longer the one"):
            await call(tools, pin)
        assert await call(tools, path="new.md")

    await with_skills(database, body, folder)


async def test_one_that_can_not_be_used_hides_no_other(database: SqlDatabase, tmp_path: Path) -> None:
    good, bad = make_skill(tmp_path), make_skill(tmp_path, "pouring")
    (bad / "SKILL.md").write_text("nothing")
    twins = [make_skill(tmp_path / name, "stirring") for name in ("left", "right")]

    async def body(skills: Skills, tools: ToolSources) -> None:
        assert set(tools.offered("w")) == {"skill.brewing"}
        problems = {one.name: one.problem for one in skills.statuses()}
        assert problems["brewing"] is None
        assert "begin with '---'" in str(problems["pouring"])
        assert "same name" in str(problems["stirring"])
        found = skills.check([str(tmp_path), *map(str, twins), str(twins[0])])
        assert [(name, str(why)[-38:]) for name, why in found if name == "stirring"] == [
            ("stirring", "have the same name: remove all but one")
        ] * 2
        assert "begin with '---'" in dict(found)["pouring"]
        with pytest.raises(InvalidArgumentError, match=r"no SKILL\.md, and no folder in it has one"):
            skills.check([str(tmp_path / "brewing" / "references")])
        with pytest.raises(InvalidArgumentError, match="is no folder"):
            skills.check([str(tmp_path / "nowhere")])
        await skills.configure([])
        assert (skills.resources(), tools.offered("w")) == ({}, {})

    await with_skills(database, body, tmp_path, *twins)
    assert good.is_dir()


async def test_skills_beyond_the_most_that_a_host_has_are_left_out_and_counted(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_SKILLS", 2)
    for name in ("a", "b", "c", "d"):
        make_skill(tmp_path, name)

    async def body(skills: Skills, tools: ToolSources) -> None:
        assert set(skills.resources()) == {"a", "b"}
        (problem,) = [one.problem for one in skills.statuses() if one.problem]
        assert problem == "2 skills of it are left out, c and those after it: a host has at most 2"

    await with_skills(database, body, tmp_path)


async def test_a_run_has_the_tool_of_a_skill_because_it_has_the_skill(
    database: SqlDatabase, tmp_path: Path
) -> None:
    make_skill(tmp_path)
    make_skill(tmp_path, "pouring")

    async def body(skills: Skills, tools: ToolSources) -> None:
        plain = catalog_of(tools=["search"])
        offered = tools.offered("w")
        catalog = ResourceCatalog(
            tools=dict(plain.tools) | {name: tool.resource for name, tool in offered.items()},
            tool_pins=dict(plain.tool_pins) | {name: tool.pin for name, tool in offered.items()},
            skills=skills.resources(),
        )

        def granted(**policy: Any) -> tuple[set[str], set[str]]:
            agent = agent_of(resource_policy=ResourcePolicy(**policy))
            grant = grant_of(agent=agent, catalog=catalog)
            return set(grant.skills), set(grant.tools)

        both = {"brewing", "pouring"}, {"skill.brewing", "skill.pouring"}
        assert granted() == both
        assert granted(allowed_tool_names=["search"]) == (both[0], both[1] | {"search"})
        assert granted(allowed_skill_names=["brewing"]) == ({"brewing"}, {"skill.brewing"})
        assert granted(allowed_skill_names=[], allowed_tool_names=["*"]) == (set(), {"search"})

    await with_skills(database, body, tmp_path)
