"""The configuration, as one document and by entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.config_changes import ConfigDiff, ConfigProblem, Kind, Shown, sparse
from hostler.host.config import ConfigFile
from hostler.host.config_diff import Entries
from hostler.host.config_entries import EntryKind, entry_kind, relative_paths
from hostler.host.config_file import source_of
from hostler.host.diagnosis import folder_problem
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest, LenientBody
from hostler.http.responses import Json, Listing
from hostler.secrets.known_values import redact
from hostler_protocol._base import Strict


class ApplyQuery(Strict):
    """`dry_run`: only report what would change.

    `prune`: remove entries that the configuration does not name.
    """

    dry_run: bool = False
    prune: bool = False


class EntryRecord(Strict):
    """One entry. `kind` is its key in a configuration file; `entry` is its content as in a file, without
    default values, and with `***` in place of a secret that is written out; null if it cannot be read.
    `problem`: why it has no effect.
    """

    kind: str
    name: str
    entry: dict[str, Any] | None
    problem: str | None


@endpoint("POST", "/v1/config", right="installation", tag="configuration")
async def apply_config(request: ApiRequest, query: ApplyQuery, body: LenientBody[ConfigFile]) -> ConfigDiff:
    """Apply a configuration: create and change the entries that it names, keep all others unless `prune`.

    If anything is wrong, all mistakes are reported at once and nothing is stored.
    """
    config, actor = body.get(), request.caller.subject
    source = source_of(msgspec.json.decode(request.body or b"{}"), config, body.mistakes)
    source = replace(source, mistakes=(*source.mistakes, *relative_paths(config, source)))
    return await request.state.host.apply(
        config, actor=actor, dry_run=query.dry_run, prune=query.prune, source=source
    )


@endpoint("GET", "/v1/problems", right="installation", tag="configuration")
async def list_problems(request: ApiRequest) -> Listing[ConfigProblem]:
    """List the current problems of the configuration: entries, plugins, skills and servers that fail."""
    await request.state.host.skills.look()
    await request.state.host.providers.look()
    return Listing(items=await request.state.host.problems())


@endpoint("GET", "/v1/config", right="installation", tag="configuration")
async def export_config(request: ApiRequest) -> ConfigFile:
    """Export the current configuration. A secret that is written out in it is `***`.

    Applied again where it came from, that stands for the stored secret.
    """
    host = request.state.host
    return host.configurator.shown(await host.export())


@endpoint("GET", "/v1/config/{kind}", right="installation", tag="configuration")
async def list_entries(request: ApiRequest) -> Listing[EntryRecord]:
    """List the entries of one kind by name. Kinds are the keys of a configuration file: `plugins`, `models`,
    `tools`, `skills`, `workspaces`, `agents`, `webhooks`, `hooks`, `schedules`, `widgets`, `sign_in`,
    `retention`, `pause_key`, `master_key`, `working_folders`, `audit_anchors`, `cors`.
    """
    kind = entry_kind(request.parameters["kind"])
    entries, problems = await _entries_and_problems(request)
    unreadable = (entry.name for entry in entries.unreadable if entry.kind == kind.kind)
    names = sorted({*entries.readable[kind.kind], *unreadable})
    shown = request.state.host.configurator.shown
    return Listing(items=[_record(kind, name, entries, problems, shown) for name in names])


@endpoint("POST", "/v1/config/{kind}", right="installation", tag="configuration", status=201)
async def add_entry(request: ApiRequest, body: dict[str, Any]) -> Json[ConfigDiff]:
    """Add an entry, written as in a configuration file; a skill folder: `{"path": ...}`. 409 if it exists."""
    kind = entry_kind(request.parameters["kind"])
    diff = await request.state.host.put_entry(kind, body, actor=request.caller.subject)
    return Json(diff, 201)


@endpoint("GET", "/v1/config/{kind}/{name}", right="installation", tag="configuration")
async def get_entry(request: ApiRequest) -> EntryRecord:
    """Get one entry. A plugin is named `author/name` (in the path `author%2Fname`), a tool `mcp:files`, an
    entry of a kind with a single entry `policy`.
    """
    kind, name = entry_kind(request.parameters["kind"]), request.parameters["name"]
    entries, problems = await _entries_and_problems(request)
    return _record(kind, name, entries, problems, request.state.host.configurator.shown)


@endpoint("PUT", "/v1/config/{kind}/{name}", right="installation", tag="configuration")
async def put_entry(request: ApiRequest, body: dict[str, Any]) -> ConfigDiff:
    """Create or replace an entry. Active runs finish with the configuration that they started with."""
    kind, name = entry_kind(request.parameters["kind"]), request.parameters["name"]
    return await request.state.host.put_entry(kind, body, actor=request.caller.subject, name=name)


@endpoint("DELETE", "/v1/config/{kind}/{name}", right="installation", tag="configuration")
async def remove_entry(request: ApiRequest) -> ConfigDiff:
    """Remove an entry. Active runs finish; `problems` of the response names the agents that need it."""
    kind, name = entry_kind(request.parameters["kind"]), request.parameters["name"]
    return await request.state.host.remove_entry(kind, name, actor=request.caller.subject)


Problems = Mapping[tuple[Kind, str], str]


async def _entries_and_problems(request: ApiRequest) -> tuple[Entries, Problems]:
    host = request.state.host
    await host.skills.look()
    problems = {(problem.kind, problem.name): problem.problem for problem in await host.problems()}
    entries = await host.configurator.entries()
    for path in entries.readable["skill"]:
        if (problem := folder_problem(path, host.skills.statuses())) is not None:
            problems["skill", path] = problem
    return entries, problems


def _record(kind: EntryKind, name: str, entries: Entries, problems: Problems, shown: Shown) -> EntryRecord:
    key = (kind.kind, name)
    unreadable = {(entry.kind, entry.name): redact(entry.problem) for entry in entries.unreadable}
    entry = None if key in unreadable else sparse(shown(entries.get(kind, name)))
    return EntryRecord(
        kind=kind.field, name=name, entry=entry, problem=problems.get(key) or unreadable.get(key)
    )
