"""The skills of a host: read from folders, compared with what was confirmed, offered as tools.

A run that may use a skill has one tool for it, `skill.<name>`: without arguments it returns the instructions
and a list of files, with a path it returns a file. Paths of the host are never shown. A skill whose files
differ from those recorded or confirmed is not offered until a person confirms it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hostler.domain.record import Record
from hostler.domain.skills import SKILL_TOOLS, Skill, SkillFile, SkillPin, skill_tool
from hostler.domain.tool_pins import ToolPin
from hostler.storage.port import Database, Tx
from hostler.storage.stores import skills as records
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.skills.reader import MAX_SKILLS, find_skills, read_file, read_skill
from hostler_protocol.errors import ConflictError, HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import SkillResource, ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.limits import KIB

DEFAULT_READ_BYTES = 64 * KIB
"""Default length of a read from a file, which goes to a model."""
MAX_READ_BYTES = 256 * KIB

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "a file of the skill; left out: its instructions"},
        "offset": {"type": "integer", "minimum": 0, "description": "byte of the file to begin at"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_READ_BYTES, "description": "bytes at most"},
    },
    "additionalProperties": False,
}
_HOW = (
    "A skill: call it without arguments for its instructions and a list of its files, with a path for a file."
)

log = logging.getLogger(__name__)


class SkillStatus(Record):
    """The status of one skill. `skill` is None if its folder cannot be read; `problem` is why it is not
    offered."""

    name: str
    source: str
    skill: Skill | None
    pin: SkillPin | None
    problem: str | None


class _Broken(Record):
    folder: Path
    reason: str


class Skills:
    """The skills of one host, and the `ToolSource` of their tools.

    Skills belong to the operator, as plugins do: every workspace sees the same, and agents' policies choose
    among them. Confirmations are stored under `workspace_id`.
    """

    id_prefix = "skill:"

    def __init__(self, db: Database, workspace_id: str) -> None:
        self._db = db
        self._workspace = workspace_id
        self._paths: tuple[str, ...] = ()
        self._statuses: list[SkillStatus] = []
        self._usable: dict[str, Skill] = {}
        self._offered: dict[str, OfferedTool] = {}
        self._revision = 0
        self._looking = asyncio.Lock()

    # -- the list of skills -----------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Increases with each change."""
        return self._revision

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return the tool of each skill."""
        return self._offered

    def resources(self) -> Mapping[str, SkillResource]:
        """Return the skills that runs may get, by name."""
        return {
            name: SkillResource(skill_name=name, display_name=name, description=skill.text.description)
            for name, skill in self._usable.items()
        }

    def statuses(self) -> Sequence[SkillStatus]:
        """Return the status of each skill at the last reload, ordered by name."""
        return self._statuses

    # -- configuration ----------------------------------------------------------------------------

    @staticmethod
    def check(paths: Sequence[str]) -> list[tuple[str, str]]:
        """Return the name of each skill in these folders that cannot be offered, with the reason. Blocks.

        Raises InvalidArgumentError if a path leads to no skill, which is the operator's mistake; a skill that
        cannot be used is its author's mistake, and does not affect the others.
        """
        for path in paths:
            find_skills(Path(path))
        found = _read_all(paths)
        return [(_name_of(one), why) for one in found if (why := _problem_of(one, found)) is not None]

    @staticmethod
    def names(paths: Sequence[str]) -> dict[str, str | None]:
        """Return the skills in these folders by name: None, or why it cannot be offered. Blocks."""
        found = _read_all(paths)
        return {_name_of(one): _problem_of(one, found) for one in found}

    async def configure(self, paths: Sequence[str]) -> None:
        """Offer the skills of these folders only."""
        self._paths = tuple(paths)
        await self.look()

    async def look(self) -> Sequence[SkillStatus]:
        """Read all folders again and record what has changed."""
        async with self._looking:
            if not self._paths and not self._statuses:
                return []
            found = await asyncio.to_thread(_read_all, self._paths)
            skills = [one for one in found if isinstance(one, Skill)]
            pins = await self._db.read(lambda tx: records.page(tx, self._workspace))
            if any(_is_news(pins.get(skill.name), skill) for skill in skills):
                pins = await self._db.write(lambda tx: self._see(tx, skills))
            self._take(found, pins)
            return self._statuses

    async def confirm(self, name: str, seen_digest: str, actor: str) -> SkillStatus:
        """Confirm the current files of a skill. Raises ConflictError if `seen_digest` is not theirs."""
        await self.look()
        if self._usable.get(name) is None and not any(one.name == name and one.pin for one in self._statuses):
            raise NotFoundError(f"there is no skill {name!r} that could be confirmed")
        await self._db.write(lambda tx: records.confirm(tx, self._workspace, name, seen_digest, actor))
        await self.look()
        return next(one for one in self._statuses if one.name == name)

    def _see(self, tx: Tx, skills: Sequence[Skill]) -> dict[str, SkillPin]:
        return {skill.name: records.see(tx, self._workspace, skill) for skill in skills}

    def _take(self, found: Sequence[Skill | _Broken], pins: Mapping[str, SkillPin]) -> None:
        statuses = sorted(
            (_status_of(one, found, pins) for one in found), key=lambda status: (status.name, status.source)
        )
        for one in statuses:
            if one.problem is not None and one not in self._statuses:
                log.warning("skill %s is not offered: %s", one.name, one.problem)
        self._statuses = statuses
        self._usable = {one.name: one.skill for one in statuses if one.skill and one.problem is None}
        self._offered = {
            one.name: _offer(one.skill, one.problem) for one in statuses if one.skill is not None
        }
        self._revision += 1

    # -- calls ------------------------------------------------------------------------------------

    async def call(self, invocation: ToolInvocation) -> Any:
        """Return the instructions, or a file."""
        name = invocation.pin.tool_id.removeprefix(self.id_prefix)
        skill = self._usable.get(name)
        if skill is None or _pin_of(skill) != invocation.pin:
            raise ToolChangedError(f"skill {name!r} is no longer the one that this run was given")
        if invocation.confirm is not None:
            await invocation.confirm()
        path = invocation.parameters.get("path")
        if path is None:
            return _activated(skill)
        try:
            data = await asyncio.to_thread(read_file, skill, path)
        except NotFoundError as error:
            raise ToolFailedError.of(error) from error
        except ConflictError as error:
            await self.look()
            raise ToolChangedError(error.message) from error
        offset, limit = invocation.parameters.get("offset", 0), invocation.parameters.get("limit")
        return _piece(skill.files[path], data, offset, limit or DEFAULT_READ_BYTES)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Reading has no effects, so nothing is recorded."""
        return None


def _read_all(paths: Sequence[str]) -> list[Skill | _Broken]:
    """Read the skills of these folders, each once; those above MAX_SKILLS become one reason per path."""
    found: dict[Path, Skill | _Broken] = {}
    for path in paths:
        try:
            folders = [folder for folder in find_skills(Path(path)) if folder not in found]
        except InvalidArgumentError as error:
            found[Path(path)] = _Broken(Path(path), error.message)
            continue
        room = max(0, MAX_SKILLS - len(found))
        found |= {folder: _read_one(folder) for folder in folders[:room]}
        if beyond := folders[room:]:
            why = (
                f"{len(beyond)} skills of it are left out, {beyond[0].name} and those after it: "
                f"a host has at most {MAX_SKILLS}"
            )
            found[Path(path)] = _Broken(Path(path), why)
    return list(found.values())


def _read_one(folder: Path) -> Skill | _Broken:
    try:
        return read_skill(folder)
    except InvalidArgumentError as error:
        return _Broken(folder, error.message)


def _is_news(pin: SkillPin | None, skill: Skill) -> bool:
    return pin is None or (pin.source, pin.seen_digest) != (skill.source, skill.digest)


def _status_of(
    one: Skill | _Broken, found: Sequence[Skill | _Broken], pins: Mapping[str, SkillPin]
) -> SkillStatus:
    problem = _problem_of(one, found)
    if isinstance(one, _Broken):
        return SkillStatus(one.folder.name, str(one.folder), None, None, problem)
    pin = pins[one.name]
    if problem is None and not pin.may_be_used:
        problem = f"its files changed: look at them, then `hostler skills confirm {one.name}`"
    return SkillStatus(one.name, one.source, one, pin, problem)


def _name_of(one: Skill | _Broken) -> str:
    return one.folder.name if isinstance(one, _Broken) else one.name


def _problem_of(one: Skill | _Broken, found: Sequence[Skill | _Broken]) -> str | None:
    """Return why a skill cannot be offered, confirmed or not."""
    if isinstance(one, _Broken):
        return one.reason
    twins = [other.source for other in found if isinstance(other, Skill) and other.name == one.name]
    if len(twins) > 1:
        return f"{' and '.join(twins)} have the same name: remove all but one"
    return None


def _offer(skill: Skill, problem: str | None) -> OfferedTool:
    return OfferedTool(
        resource=ToolResource(
            tool_name=skill_tool(skill.name),
            tool_type=SKILL_TOOLS,
            description=f"{skill.text.description}\n\n{_HOW}",
            operations=["detail", "call"],
        ),
        pin=_pin_of(skill),
        parameters=_PARAMETERS,
        problem=problem,
    )


def _pin_of(skill: Skill) -> ToolPin:
    """Return the pin. Changed files make another tool: a run with the old one does not get the new one."""
    return ToolPin(
        tool_id=f"{Skills.id_prefix}{skill.name}",
        owner="skills",
        schema_digest=digest([_PARAMETERS, skill.digest]),
        effect="pure",
    )


def _activated(skill: Skill) -> dict[str, Any]:
    result: dict[str, Any] = {"skill": skill.name, "instructions": skill.text.instructions}
    if skill.text.compatibility is not None:
        result["compatibility"] = skill.text.compatibility
    result["files"] = [{"path": file.path, "size_bytes": file.size_bytes} for file in skill.files.values()]
    return result


def _piece(file: SkillFile, data: bytes, offset: int, limit: int) -> dict[str, Any]:
    """Return a part of a file: as text, cut between characters, if the whole file is text."""
    if offset > len(data):
        wrong = f"{file.path} has {len(data):,} bytes; offset {offset:,} is behind its end"
        raise ToolFailedError.of(HostlerError(wrong))
    end = min(len(data), offset + limit)
    result: dict[str, Any] = {"path": file.path, "size_bytes": len(data), "offset": offset}
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        result["content_base64"] = base64.b64encode(data[offset:end]).decode("ascii")
    else:
        whole = end
        while offset < end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        end = whole if end == offset else end
        result["content"] = data[offset:end].decode("utf-8", "replace")
    result["next_offset"] = end if end < len(data) else None
    return result
