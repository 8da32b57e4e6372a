"""The sessions of an agent that the host has, page by page."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from acp.schema import ListSessionsResponse, SessionInfo

from hostler.cli.acp.faults import invalid
from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.limits import MAX_RUNS_PER_PAGE, SESSIONS_PER_PAGE
from hostler.cli.acp.session import SOURCE
from hostler.cli.routes import route
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS

Record = dict[str, Any]


class ListCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page of sessions begins: a page of runs, and how many of it were looked at."""

    page: str | None
    skip: int


async def list_sessions(
    host: HostAccess, agent: str, folder: str | None, cursor: str | None
) -> ListSessionsResponse:
    """Return sessions, the latest first: conversations in which the agent's latest run is from an editor.

    `folder`: only those of this project folder. RequestError for a cursor that is none.
    """
    at = _read_cursor(cursor)
    found: list[SessionInfo] = []
    looked = 0
    while True:
        page = await _runs(host, agent, at.page)
        for number, run in enumerate(page["items"]):
            if number < at.skip:
                continue
            looked += 1
            session = await _session(host, agent, run)
            if session is not None and folder in (None, session.cwd):
                found.append(session)
            if len(found) >= SESSIONS_PER_PAGE or looked >= MAX_RUNS_PER_PAGE:
                more = number + 1 < len(page["items"]) or page["has_more"]
                following = ListCursor(at.page, number + 1) if more else None
                return ListSessionsResponse(sessions=found, next_cursor=_cursor(following))
        if not page.get("has_more") or page.get("next_cursor") is None:
            return ListSessionsResponse(sessions=found)
        at = ListCursor(page["next_cursor"], 0)


async def session_details(host: HostAccess, run: Record) -> Record:
    """Return what the event of a run says of its session: `cwd`, `title`. Empty if it is not of an editor."""
    event_id = run.get("event_id")
    if event_id is None:
        return {}
    try:
        event = await host.ask(lambda api: api.get(route("events", event_id)))
    except NotFoundError:
        return {}
    details = ((event.get("envelope") or {}).get("data") or {}).get(SOURCE)
    return details if isinstance(details, dict) and isinstance(details.get("cwd"), str) else {}


async def _session(host: HostAccess, agent: str, run: Record) -> SessionInfo | None:
    """Return the session of a run, if the run is the latest of it."""
    conversation_id = run.get("conversation_id")
    if conversation_id is None:
        return None
    latest = await host.ask(
        lambda api: api.get("/v1/runs", limit=1, agent=agent, conversation_id=conversation_id)
    )
    if not latest["items"] or latest["items"][0]["run_id"] != run["run_id"]:
        return None
    details = await session_details(host, run)
    if not details:
        return None
    title = details.get("title")
    return SessionInfo(
        session_id=conversation_id,
        cwd=details["cwd"],
        title=title if isinstance(title, str) else None,
        updated_at=_moment(run.get("finished_at") or run["created_at"]),
    )


async def _runs(host: HostAccess, agent: str, page: str | None) -> Record:
    try:
        found: Record = await host.ask(
            lambda api: api.get("/v1/runs", limit=MAX_PAGE_ITEMS, agent=agent, cursor=page)
        )
    except InvalidArgumentError:
        raise invalid("cursor: not one of this list; begin without it") from None
    return found


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _cursor(at: ListCursor | None) -> str | None:
    return None if at is None else msgspec.json.encode(at).decode()


def _read_cursor(text: str | None) -> ListCursor:
    if text is None:
        return ListCursor(None, 0)
    try:
        return msgspec.json.decode(text, type=ListCursor)
    except msgspec.DecodeError:
        raise invalid("cursor: not one of this list; begin without it") from None
