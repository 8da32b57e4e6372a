"""What is recorded of skills, on both databases."""

from __future__ import annotations

import pytest

from hostler.domain.skills import Skill, SkillText
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, skills
from hostler_protocol.errors import ConflictError, NotFoundError
from support.databases import read, write


def skill(digest: str, source: str = "/skills/brewing", version: str | None = "1") -> Skill:
    return Skill(SkillText("brewing", "Brews.", version, None, "Do."), source, digest)


def see(database: SqlDatabase, digest: str, ws: str = "w", **fields: str) -> bool:
    return write(database, lambda tx: skills.see(tx, ws, skill(digest, **fields))).may_be_used


def actions(database: SqlDatabase, ws: str = "w") -> list[str]:
    return [fact.action for fact in reversed(read(database, lambda tx: audit.page(tx, ws)))]


def test_the_first_sight_counts_and_a_change_waits_for_a_person(database: SqlDatabase) -> None:
    assert see(database, "a")
    assert see(database, "a")
    assert not see(database, "b", version="2")
    assert not see(database, "b", version="2")
    with pytest.raises(ConflictError):
        write(database, lambda tx: skills.confirm(tx, "w", "brewing", "a", "ada"))
    confirmed = write(database, lambda tx: skills.confirm(tx, "w", "brewing", "b", "ada"))
    assert (confirmed.digest, confirmed.version, confirmed.confirmed_by) == ("b", "2", "ada")
    assert see(database, "b", source="/elsewhere/brewing")
    assert read(database, lambda tx: skills.page(tx, "w"))["brewing"].source == "/elsewhere/brewing"
    assert actions(database) == ["skill.recorded", "skill.changed", "skill.confirmed", "skill.moved"]


def test_what_was_changed_and_put_back_needs_nobody(database: SqlDatabase) -> None:
    assert see(database, "a")
    assert not see(database, "b")
    assert see(database, "a")
    assert actions(database) == ["skill.recorded", "skill.changed", "skill.restored"]


def test_a_workspace_knows_its_own_skills_only(database: SqlDatabase) -> None:
    see(database, "a", "w")
    see(database, "b", "other")
    assert read(database, lambda tx: skills.page(tx, "w"))["brewing"].digest == "a"
    with pytest.raises(NotFoundError):
        write(database, lambda tx: skills.confirm(tx, "third", "brewing", "a", "ada"))
    see(database, "c", "other")
    assert see(database, "a", "w")
