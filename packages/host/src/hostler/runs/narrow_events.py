"""Check the events of narrow callers against the database: what they name beside agent and conversation."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.domain.events import CallerScope, Event
from hostler.domain.ingest import InlineContent, artifact_refs_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import artifacts
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import NotFoundError, UnauthorizedError


async def check_narrow(
    db: Database,
    event: Event,
    scope: CallerScope,
    inline: Sequence[InlineContent],
    refs: Sequence[ArtifactRef] = (),
    *,
    delayed: bool,
) -> None:
    """Check an event, whose inline content is `inline`: its agent may read whatever is attached to it.

    `refs`: the artifacts of the history that it brings. NotFoundError for a file of another conversation;
    UnauthorizedError for a delay, which would outlast the token.
    """
    if delayed:
        raise UnauthorizedError("a front-end token sends messages that start at once: leave delay out")
    own = {content.artifact_id for content in inline}
    attached = [*artifact_refs_of(event.envelope), *refs]
    named = [ref.artifact_id for ref in attached if ref.artifact_id not in own]

    def look(tx: Tx) -> None:
        for artifact_id in named:
            found = artifacts.find(tx, event.workspace_id, artifact_id)
            if found is None or found.place.conversation_id != scope.conversation_id:
                raise NotFoundError(f"there is no artifact {artifact_id!r}")

    if named:
        await db.read(look)
