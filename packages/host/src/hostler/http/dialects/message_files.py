"""The files that a message names by the id of an artifact: a client that names none of ours is told so."""

from __future__ import annotations

from hostler.domain.ingest import MAX_CONTENT_ELEMENTS, artifact_refs_of
from hostler.domain.narrow_callers import stored_event_id
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, events
from hostler_protocol.errors import NotFoundError
from hostler_protocol.events import EventEnvelope


async def check_files(request: ApiRequest, envelope: EventEnvelope) -> None:
    """Raise NotFoundError if a message names an artifact that is not there.

    One that was sent before is answered as before, also if its files have expired since.
    """
    named = [ref.artifact_id for ref in artifact_refs_of(envelope) if "\x00" not in ref.artifact_id]
    if not named or len(named) > MAX_CONTENT_ELEMENTS:  # so many are refused in any case
        return
    event_id = envelope.event_id
    workspace = request.workspace_id

    def missing(tx: Tx) -> str | None:
        known = event_id is not None and "\x00" not in event_id
        if known and events.find(tx, workspace, stored_event_id(request.caller, event_id or "")) is not None:
            return None
        return next((name for name in named if not reached(tx, name)), None)

    def reached(tx: Tx, name: str) -> bool:
        """Whether there is a file that the caller reaches: what is foreign is answered like what is not."""
        found, scope = artifacts.find(tx, workspace, name), request.caller.scope
        return found is not None and (scope is None or found.place.conversation_id == scope.conversation_id)

    if (name := await request.state.host.db.read(missing)) is not None:
        raise NotFoundError(f"there is no artifact {name!r}")  # as of one that the caller does not reach
