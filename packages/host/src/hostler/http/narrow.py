"""Narrow callers: holders of front-end tokens, who reach one agent and one conversation.

A route takes them only if it declares `narrow` at `endpoint`; the middleware then checks what its path names
(`check_path`) and fills in its query. What a body names is checked where it is used:

- An event: `Orchestrator.accept` fills in agent and conversation, and refuses others.
- Pauses: `host.pauses` shows a narrow caller those of its own runs only.
- A run, an artifact, an agent or a conversation: `find_run`, `check_run`, `check_artifact` of this module,
  and `check_agent`, `check_conversation` of domain/narrow_callers. http/dialects/answers.py uses them.

So a route of a dialect that takes narrow callers declares `narrow=()`, and in `checks` the parameters of its
path that it reads itself. It finds agent and conversation in `request.caller.scope` (None for other callers),
which its request may leave out, uses no id of a run before `find_run`, and looks events up by
`stored_event_id`. What is foreign is answered like what is not there, in the same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from hostler.domain.api_keys import FRONT_END_PREFIX
from hostler.domain.narrow_callers import check_agent, check_conversation, sees_work
from hostler.http.auth import KeyHolder
from hostler.http.problems import UnauthenticatedError
from hostler.storage.stores import artifacts, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import NotFoundError, UnauthorizedError

if TYPE_CHECKING:
    from hostler.http.asgi import Scope
    from hostler.http.request import ApiRequest

QUERY_TOKEN = "access_token"  # noqa: S105  the name of a field
SUBPROTOCOL = "hostler"
"""What a WebSocket of a browser offers beside its token, and is accepted with."""
SUBPROTOCOL_TOKEN = "hostler.token."  # noqa: S105  a prefix


def check_narrow(holder: KeyHolder, origin: str | None, *, allowed: bool) -> None:
    """Raise UnauthorizedError for a front-end token on a route that does not take them, or from a page that
    may not use it.
    """
    if holder.caller.scope is None:
        return
    if not allowed:
        raise UnauthorizedError(
            "front-end tokens reach one agent and one conversation, and this is neither: use a key"
        )
    if holder.origins and origin is not None and origin not in holder.origins:
        raise UnauthorizedError(
            f"this token is for pages of {', '.join(holder.origins)}, not {origin!r:.100}"
        )


async def check_path(request: ApiRequest) -> None:
    """Raise NotFoundError if the path names what a narrow caller does not reach.

    Pauses are not looked at: `host.pauses` does that.
    """
    if request.caller.scope is None:
        return
    for name, value in request.parameters.items():
        match name:
            case "run_id":
                await check_run(request, value)
            case "artifact_id":
                await check_artifact(request, value)
            case "conversation_id" | "chat" | "thread":
                check_conversation(request.caller, value)
            case "agent":
                check_agent(request.caller, value)


async def find_run(request: ApiRequest, run_id: str) -> Run:
    """Return the row of a run. NotFoundError if there is none that the caller reaches."""
    run = await request.state.host.db.read(lambda tx: runs.get(tx, request.workspace_id, run_id))
    scope = request.caller.scope
    if scope is not None and not scope.holds(run.agent_name, run.conversation_id):
        raise NotFoundError(f"there is no run {run_id!r}")
    return run


async def check_run(request: ApiRequest, run_id: str) -> None:
    """Raise NotFoundError if a narrow caller does not reach this run, or there is none."""
    if request.caller.scope is not None:
        await find_run(request, run_id)


async def check_artifact(request: ApiRequest, artifact_id: str) -> None:
    """Raise NotFoundError if a narrow caller does not reach this artifact, or there is none.

    Without `runs:read` it reaches what people are shown, and not what tools returned.
    """
    scope = request.caller.scope
    if scope is None:
        return
    found = await request.state.host.db.read(lambda tx: artifacts.find(tx, request.workspace_id, artifact_id))
    if (
        found is None
        or found.place.conversation_id != scope.conversation_id
        or not (found.is_shown or sees_work(request.caller))
    ):
        raise NotFoundError(f"there is no artifact {artifact_id!r}")


def take_query_token(scope: Scope) -> str | None:
    """Remove `access_token` from the query of a request and return it; None if there is none.

    An EventSource can send no header. UnauthenticatedError for anything but a front-end token: an address is
    kept in too many places for a key.
    """
    kept, found = [], []
    for part in scope["query_string"].split(b"&"):
        name, _, value = part.partition(b"=")
        if name == QUERY_TOKEN.encode():
            found.append(unquote_plus(value.decode("latin-1")))
        else:
            kept.append(part)
    if not found:
        return None
    scope["query_string"] = b"&".join(kept)
    if len(found) > 1 or not found[0].startswith(FRONT_END_PREFIX):
        raise UnauthenticatedError(f"{QUERY_TOKEN} takes a front-end token: send a key as a header")
    return found[0]


def socket_token(headers: dict[str, str]) -> str | None:
    """Return the front-end token that a WebSocket of a browser offers as a subprotocol; None without one.

    `new WebSocket(url, ["hostler", "hostler.token." + token])`: it can send no header, and addresses of
    WebSockets are logged. UnauthenticatedError for anything but one such token and SUBPROTOCOL.
    """
    offered = [part.strip() for part in headers.get("sec-websocket-protocol", "").split(",")]
    found = [part.removeprefix(SUBPROTOCOL_TOKEN) for part in offered if part.startswith(SUBPROTOCOL_TOKEN)]
    if not found:
        return None
    if len(found) > 1 or SUBPROTOCOL not in offered or not found[0].startswith(FRONT_END_PREFIX):
        raise UnauthenticatedError(
            f"offer the subprotocols '{SUBPROTOCOL}' and '{SUBPROTOCOL_TOKEN}TOKEN', with a front-end token"
        )
    return found[0]
