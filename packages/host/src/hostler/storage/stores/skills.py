"""Skills: the version recorded at first sight, the one that a person confirmed, and the one seen last."""

from __future__ import annotations

from hostler.domain.same_fields import from_row
from hostler.domain.skills import Skill, SkillPin, skill_status
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit
from hostler_protocol.errors import ConflictError, NotFoundError

MAX_SKILLS = 10_000
"""Stored skills, including those that are no longer configured."""

_q = load(__file__)


def page(tx: Tx, workspace_id: str) -> dict[str, SkillPin]:
    """Return all stored skills, by name."""
    rows = tx.all(_q.page, workspace_id=workspace_id, limit=MAX_SKILLS)
    return {row["name"]: _pin(row) for row in rows}


def see(tx: Tx, workspace_id: str, skill: Skill) -> SkillPin:
    """Record a skill as it is in its folder now and return its pin. Each change is audited once."""
    known = _find(tx, workspace_id, skill.name)
    sight = skill_status(known, skill.source, skill.digest)
    if known is not None and sight == "known":
        return known
    tx.run(
        _q.record if known is None else _q.see,
        workspace_id=workspace_id,
        name=skill.name,
        source=skill.source,
        version=skill.text.version,
        digest=skill.digest,
        **({"now": tx.now} if known is None else {}),
    )
    body = {"digest": skill.digest, "version": skill.text.version, "source": skill.source}
    if known is not None:
        body["confirmed_digest"] = known.digest
    action = "skill.recorded" if known is None else f"skill.{sight}"
    audit.record(tx, workspace_id, actor="host", action=action, target=skill.name, body=body)
    return _get(tx, workspace_id, skill.name)


def confirm(tx: Tx, workspace_id: str, name: str, digest: str, actor: str) -> SkillPin:
    """Approve a skill as it was last seen.

    NotFoundError; ConflictError if it was seen with another digest.
    """
    known = _get(tx, workspace_id, name)
    if known.seen_digest != digest:
        raise ConflictError(
            f"skill {name!r} has another digest by now: review it again, then confirm the new digest",
            digest=known.seen_digest,
        )
    if known.may_be_used:
        return known
    tx.run(_q.confirm, workspace_id=workspace_id, name=name, digest=digest, actor=actor, now=tx.now)
    body = {"digest": digest, "before": known.digest, "version": known.seen_version, "source": known.source}
    audit.record(tx, workspace_id, actor=actor, action="skill.confirmed", target=name, body=body)
    return _get(tx, workspace_id, name)


def _find(tx: Tx, workspace_id: str, name: str) -> SkillPin | None:
    row = tx.one(_q.find, workspace_id=workspace_id, name=name)
    return None if row is None else _pin(row)


def _get(tx: Tx, workspace_id: str, name: str) -> SkillPin:
    found = _find(tx, workspace_id, name)
    if found is None:
        raise NotFoundError(f"there is no skill {name!r}")
    return found


def _pin(row: Row) -> SkillPin:
    return from_row(row, SkillPin)
