"""Skills: what agents can be given to read up on, where each comes from, and whether it was confirmed."""

from __future__ import annotations

from hostler.domain.skills import SkillFile
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.tools.skills.service import SkillStanding
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError


class SkillFileRecord(Strict):
    """A file of a skill, by its path in the skill's folder."""

    path: str
    size_bytes: int
    sha256: str


class SkillRecord(Strict):
    """A skill as it stands. `digest` is of its files as they are now, `confirmed_digest` of those that may be
    used: what was there at first, or what a person confirmed since. `problem` says why nobody is given it.

    Times in UTC epoch milliseconds.
    """

    name: str
    description: str
    version: str | None
    source: str
    digest: str | None
    confirmed_digest: str | None
    recorded_at: int | None
    confirmed_at: int | None
    confirmed_by: str | None
    files: list[SkillFileRecord]
    problem: str | None


class ConfirmSkill(Strict):
    """`digest`: of the files that were looked at."""

    digest: str


@endpoint("GET", "/v1/skills", right="plugins:read", tag="skills")
async def list_skills(request: ApiRequest) -> Listing[SkillRecord]:
    """List the skills by name, read anew from their folders."""
    return Listing(items=[_record(one) for one in await request.state.host.skills.look()])


@endpoint("GET", "/v1/skills/{skill}", right="plugins:read", tag="skills")
async def get_skill(request: ApiRequest) -> SkillRecord:
    """Get one skill, read anew from its folder."""
    name = request.parameters["skill"]
    for one in await request.state.host.skills.look():
        if one.name == name:
            return _record(one)
    raise NotFoundError(f"there is no skill {name!r}")


@endpoint("POST", "/v1/skills/{skill}/confirm", right="installation", tag="skills")
async def confirm_skill(request: ApiRequest, body: ConfirmSkill) -> SkillRecord:
    """Let a skill be used as it is now. 409 where its files are not those of the digest any more."""
    name, actor = request.parameters["skill"], request.caller.subject
    return _record(await request.state.host.skills.confirm(name, body.digest, actor))


def _record(one: SkillStanding) -> SkillRecord:
    skill, pin = one.skill, one.pin
    return SkillRecord(
        name=one.name,
        description="" if skill is None else skill.text.description,
        version=None if skill is None else skill.text.version,
        source=one.source,
        digest=None if skill is None else skill.digest,
        confirmed_digest=None if pin is None else pin.digest,
        recorded_at=None if pin is None else pin.recorded_at,
        confirmed_at=None if pin is None else pin.confirmed_at,
        confirmed_by=None if pin is None else pin.confirmed_by,
        files=[] if skill is None else [_file(file) for file in skill.files.values()],
        problem=None if one.problem is None else f"nobody gets it: {one.problem}",
    )


def _file(file: SkillFile) -> SkillFileRecord:
    return SkillFileRecord(path=file.path, size_bytes=file.size_bytes, sha256=file.sha256)
