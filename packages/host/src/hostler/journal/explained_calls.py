"""Find one call in a run's journal, with the decisions about it, and explain it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.call_checks import CallCheck
from hostler.domain.explanations import Explanation, explain
from hostler.domain.grants import decode_grant
from hostler.domain.journalled_calls import Decision, JournalledCall
from hostler.domain.platform_actions import ACTION_OF_TOOL
from hostler.domain.recording import CallName, is_external_call
from hostler.domain.top_ups import QUESTION as BUDGET
from hostler.journal.call_records import named_by
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, journal, members, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import StoredEntry
from hostler_protocol.errors import Fault, NotFoundError

PAGE_ENTRIES = 64
"""Entries of calls and decisions that are read in one transaction: at most 4 MiB."""
MAX_POSITION_DIGITS = 16
MAX_QUESTIONS = 64
"""Questions about budgets for one call that are found; each one before was answered with too little."""


class _Entry(msgspec.Struct):
    """What is read of a `call`, `refusal` or `intent` entry."""

    method: str
    digest: str = ""
    nth: int = 0
    params: msgspec.Raw = msgspec.Raw(b"null")
    error: Fault | None = None
    check: CallCheck | None = None
    resource: str | None = None
    given_up: bool = False
    inherited: bool = False
    approved_by: str | None = None
    similar_id: str | None = None
    reply: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def call_id(self) -> str | None:
        """The id of the call; None for one that was refused before it had one."""
        if not self.digest and not is_external_call(self.digest, self.nth):
            return None
        return CallName(self.method, self.digest, self.nth).call_id


class _Acted(msgspec.Struct):
    """What a reply says of a platform action, itself or as the result of its tool."""

    outcome: str = ""
    reason: str | None = None


class _ActedByTool(msgspec.Struct):
    result: _Acted | None = None


class _Model(msgspec.Struct):
    tool_call_id: str | None = None


_entries = msgspec.json.Decoder(_Entry)
_params = msgspec.json.Decoder(dict[str, Any] | None)
_models = msgspec.json.Decoder(_Model | None)
_acted = msgspec.json.Decoder(_Acted | None)
_acted_by_tool = msgspec.json.Decoder(_ActedByTool | None)
_bodies = msgspec.json.Decoder(dict[str, Any])


@dataclass(slots=True)
class _Found:
    """What the journal has of one call."""

    call: StoredEntry | None = None
    intent: StoredEntry | None = None
    decisions: list[Decision] = field(default_factory=list)
    about_budgets: list[Decision] = field(default_factory=list)


async def explain_call(
    db: Database, blobs: BlobFolder, workspace_id: str, run_id: str, wanted: str
) -> Explanation:
    """Explain one call of a run, ended or not.

    `wanted`: its position in the journal, its id, or the id that the model gave it. NotFoundError.
    """
    run = await db.read(lambda tx: runs.get(tx, workspace_id, run_id))
    entry, call_id = await _look_up(db, run_id, wanted)
    found = _Found(call=entry) if call_id is None else await _collect(db, run_id, call_id)
    call = await _call_of(found, call_id, blobs)
    if call is None or run.grant_json is None:
        raise NotFoundError(
            f"run {run_id!r} has no call {wanted[:100]!r}: name one by its position in the journal "
            "(`hostler runs show RUN --journal`), by its call id or by the model's own id"
        )
    grant = decode_grant(run.grant_json)
    actors = {one.actor for one in [*call.decisions, *call.about_budgets]}
    names = await db.read(lambda tx: members.names(tx, workspace_id, actors))
    version = await db.read(lambda tx: agents.version(tx, workspace_id, grant.agent_id, grant.agent_version))
    return explain(run_id, replace(call, names=names), grant, None if version is None else version.spec)


async def _look_up(db: Database, run_id: str, wanted: str) -> tuple[StoredEntry | None, str | None]:
    """Return the id of the wanted call; for one that was refused before it had an id, its entry."""
    if wanted.isascii() and wanted.isdecimal() and len(wanted) <= MAX_POSITION_DIGITS:
        position = int(wanted)
        entries = await db.read(lambda tx: journal.calls_and_decisions(tx, run_id, position - 1, 1))
        entry = next((one for one in entries if one.position == position), None)
        if entry is not None and entry.kind == "decision":
            about = next(iter(_about(entry)), None)
            return None, None if about is None else await _asking(db, run_id, about)
        if entry is not None:
            return entry, _entries.decode(entry.data).call_id
    async for entry in _walk(db, run_id):
        if entry.kind == "decision":
            if wanted in _about(entry):
                return None, await _asking(db, run_id, wanted)
            continue
        read = _entries.decode(entry.data)
        if read.call_id is not None and wanted in (read.call_id, _model_call_id(read)):
            return None, read.call_id
    return None, None


async def _asking(db: Database, run_id: str, call_id: str) -> str:
    """Return the call for which a question about a budget was asked; the id itself if it is none."""
    async for entry in _walk(db, run_id):
        if entry.kind != "decision":
            asking = _entries.decode(entry.data).call_id
            if asking is not None and call_id in budget_questions(asking):
                return asking
    return call_id


def budget_questions(call_id: str) -> set[str]:
    """Return the ids of the questions that are asked when a budget has too little left for a call."""
    return {CallName(BUDGET, call_id, nth).call_id for nth in range(1, MAX_QUESTIONS + 1)}


async def _collect(db: Database, run_id: str, call_id: str) -> _Found:
    found, questions = _Found(), budget_questions(call_id)
    async for entry in _walk(db, run_id):
        if entry.kind == "decision":
            about = _about(entry)
            if call_id in about or not questions.isdisjoint(about):
                body = _bodies.decode(entry.data)
                decision = Decision(entry.at / 1000, entry.type, str(body.get("actor", "")), body)
                (found.decisions if call_id in about else found.about_budgets).append(decision)
        elif _entries.decode(entry.data).call_id != call_id:
            continue
        elif entry.kind == "intent":
            found.intent = entry
        else:  # the last one: a refused call may have been made again
            found.call = entry
    return found


async def _walk(db: Database, run_id: str) -> AsyncIterator[StoredEntry]:
    """Yield calls and decisions of a run, in order."""
    after, more = 0, True
    while more:
        entries = await db.read(partial(_page, run_id, after))
        more = len(entries) == PAGE_ENTRIES
        for entry in entries:
            yield entry
            after = entry.position


def _page(run_id: str, after: int, tx: Tx) -> list[StoredEntry]:
    return journal.calls_and_decisions(tx, run_id, after, PAGE_ENTRIES)


def _about(entry: StoredEntry) -> list[str]:
    """Return the ids of the calls that a decision is about."""
    body = _bodies.decode(entry.data)
    return [one["call_id"] for one in body.get("calls", [body]) if isinstance(one.get("call_id"), str)]


def _model_call_id(read: _Entry) -> str | None:
    if read.method != "tool.call":
        return None
    try:
        found = _models.decode(read.params)
    except msgspec.DecodeError:
        return None
    return None if found is None else found.tool_call_id


def _unsupported(read: _Entry, named: str | None) -> str | None:
    """Return why nobody can carry out the platform action of a call, if that was the answer."""
    try:
        if read.method == "action.request":
            acted = _acted.decode(read.reply)
        elif read.method == "tool.call" and named in ACTION_OF_TOOL:
            by_tool = _acted_by_tool.decode(read.reply)
            acted = None if by_tool is None else by_tool.result
        else:
            return None
    except msgspec.DecodeError:
        return None
    return None if acted is None or acted.outcome != "unsupported" else acted.reason or "no reason is kept"


async def _call_of(found: _Found, call_id: str | None, blobs: BlobFolder) -> JournalledCall | None:
    entry = found.call or found.intent
    if entry is None:
        return None if call_id is None else _own_call(call_id, found.decisions)
    data = entry.data.encode()
    if entry.blob is not None:
        data = b"".join([chunk async for chunk in blobs.stream(entry.blob)])
    read = _entries.decode(data)
    named = read.resource or named_by(read.method, _params.decode(read.params) or {})
    call = JournalledCall(
        position=entry.position,
        attempt=entry.attempt,
        at=entry.at / 1000,
        method=read.method,
        call_id=call_id,
        named=named,
        ended=found.call is not None,
        error=read.error,
        check=read.check,
        by_gate=entry.kind == "refusal",
        given_up=read.given_up,
        unsupported=_unsupported(read, named),
        inherited=read.inherited,
        decisions=found.decisions,
        about_budgets=found.about_budgets,
    )
    if found.intent is None:
        return call
    intent = _entries.decode(found.intent.data)
    return replace(call, approved_by=intent.approved_by, similar_id=intent.similar_id)


def _own_call(call_id: str, decisions: list[Decision]) -> JournalledCall | None:
    """A call that waits, or that the runner carries out itself: known by the decisions about it."""
    if not decisions:
        return None
    asked = decisions[0].body
    first = next((one for one in asked.get("calls", ()) if one.get("call_id") == call_id), asked)
    names = [one.body["tool_name"] for one in decisions if one.body.get("tool_name")]
    kind = first.get("kind")
    if kind == "budget":  # its call is not in the journal yet
        at = decisions[0].at
        return JournalledCall(0, 0, at, BUDGET, call_id, ended=False, about_budgets=decisions)
    by_host = first.get("executor") == "host" and kind in ("approval", "client_tool", "in_doubt")
    return JournalledCall(
        position=0,
        attempt=0,
        at=decisions[0].at,
        method="tool.call" if by_host else "",
        call_id=call_id,
        named=first.get("tool_name") or next(iter(names), None),
        ended=not by_host,
        decisions=decisions,
    )
