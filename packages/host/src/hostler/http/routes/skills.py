"""Skills that agents can use, their sources, and their confirmation."""

from __future__ import annotations

import asyncio

from hostler.domain.skills import SkillFile
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.tools.skills.reader import read_file
from hostler.tools.skills.service import SkillStatus
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import KIB

MAX_SHOWN_BYTES = 512 * KIB
"""Of a file, in an answer."""


class SkillFileRecord(Strict):
    """A file of a skill, by its path in the skill's folder."""

    path: str
    size_bytes: int
    sha256: str


class SkillRecord(Strict):
    """A skill. `digest` is of its current files, `confirmed_digest` of the files that may be used: the first
    ones seen, or those that a person confirmed since. `problem` says why it cannot be used.

    Times are UTC epoch milliseconds.
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


class SkillFileQuery(Strict):
    """`path`: of the file, in the skill's folder."""

    path: str = "SKILL.md"


class SkillFileContent(Strict):
    """A file of a skill. `text` null: it is no UTF-8 text. `truncated`: `text` is only its beginning."""

    path: str
    size_bytes: int
    sha256: str
    text: str | None
    truncated: bool


class ConfirmSkill(Strict):
    """`digest`: of the files that were reviewed."""

    digest: str


@endpoint("GET", "/v1/skills", right="plugins:read", tag="skills")
async def list_skills(request: ApiRequest) -> Listing[SkillRecord]:
    """List the skills that the workspace may use by name, after reading their folders again."""
    return Listing(items=[_record(status) for status in await _allowed(request)])


@endpoint("GET", "/v1/skills/{skill}", right="plugins:read", tag="skills")
async def get_skill(request: ApiRequest) -> SkillRecord:
    """Get one skill, after reading its folder again."""
    name = request.parameters["skill"]
    for status in await _allowed(request):
        if status.name == name:
            return _record(status)
    raise NotFoundError(f"there is no skill {name!r}")


@endpoint("GET", "/v1/skills/{skill}/file", right="plugins:read", tag="skills")
async def get_skill_file(request: ApiRequest, query: SkillFileQuery) -> SkillFileContent:
    """Read a file of a skill as it is now, also of one that waits for a confirmation."""
    name = request.parameters["skill"]
    found = next((one.skill for one in await _allowed(request) if one.name == name), None)
    if found is None:
        raise NotFoundError(f"there is no skill {name!r} that can be read")
    data = await asyncio.to_thread(read_file, found, query.path)
    shown = data[:MAX_SHOWN_BYTES]
    try:
        data.decode("utf-8")
        text: str | None = shown.decode("utf-8", "ignore")  # the last character may be cut
    except UnicodeDecodeError:
        text = None
    return SkillFileContent(
        path=query.path,
        size_bytes=len(data),
        sha256=found.files[query.path].sha256,
        text=text,
        truncated=text is not None and len(shown) < len(data),
    )


@endpoint("POST", "/v1/skills/{skill}/confirm", right="installation", tag="skills")
async def confirm_skill(request: ApiRequest, body: ConfirmSkill) -> SkillRecord:
    """Confirm the current files of a skill, so that it may be used. 409 if the digest is not theirs."""
    name, actor = request.parameters["skill"], request.caller.subject
    return _record(await request.state.host.skills.confirm(name, body.digest, actor))


async def _allowed(request: ApiRequest) -> list[SkillStatus]:
    may = request.state.host.allowances.of(request.workspace_id)
    return [status for status in await request.state.host.skills.look() if may.skill(status.name)]


def _record(status: SkillStatus) -> SkillRecord:
    skill, pin = status.skill, status.pin
    return SkillRecord(
        name=status.name,
        description="" if skill is None else skill.text.description,
        version=None if skill is None else skill.text.version,
        source=status.source,
        digest=None if skill is None else skill.digest,
        confirmed_digest=None if pin is None else pin.digest,
        recorded_at=None if pin is None else pin.recorded_at,
        confirmed_at=None if pin is None else pin.confirmed_at,
        confirmed_by=None if pin is None else pin.confirmed_by,
        files=[] if skill is None else [_file(file) for file in skill.files.values()],
        problem=None if status.problem is None else f"nobody gets it: {status.problem}",
    )


def _file(file: SkillFile) -> SkillFileRecord:
    return SkillFileRecord(path=file.path, size_bytes=file.size_bytes, sha256=file.sha256)
