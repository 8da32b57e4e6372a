"""Check the events of narrow callers: what they bring beside the envelope, and what that names."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.domain.events import CallerScope, Event
from hostler.domain.ingest import InlineContent, artifact_refs_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import artifacts
from hostler_protocol.errors import NotFoundError, UnauthorizedError


def check_said(*, delayed: bool, has_history: bool) -> None:
    """Raise UnauthorizedError for a delay, which would outlast the token, and for messages before the event.

    The host keeps the conversation of a token: its page puts no words into the agent's mouth.
    """
    if delayed:
        raise UnauthorizedError("a front-end token sends messages that start at once: leave delay out")
    if has_history:
        raise UnauthorizedError("a front-end token brings no history: the host keeps its conversation")


async def check_files(
    db: Database, event: Event, scope: CallerScope, inline: Sequence[InlineContent]
) -> None:
    """Check what is attached to an event, whose inline content is `inline`: its agent may read all of it.

    NotFoundError for a file of another conversation.
    """
    own = {content.artifact_id for content in inline}
    named = [ref.artifact_id for ref in artifact_refs_of(event.envelope) if ref.artifact_id not in own]

    def look(tx: Tx) -> None:
        for artifact_id in named:
            found = artifacts.find(tx, event.workspace_id, artifact_id)
            if found is None or found.place.conversation_id != scope.conversation_id:
                raise NotFoundError(f"there is no artifact {artifact_id!r}")

    if named:
        await db.read(look)
