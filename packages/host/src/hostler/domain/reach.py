"""Which artifacts a run may read: its own, its event's, its conversation's."""

from __future__ import annotations

from hostler.domain.grants import Grant
from hostler.domain.place import Place
from hostler_protocol.content import ArtifactElement
from hostler_protocol.events import Input


def artifact_in_reach(
    artifact_id: str, place: Place, made_by: str | None, *, run_id: str, grant: Grant, event_input: Input
) -> bool:
    """Whether a run may read an artifact of its workspace; `made_by` is the run that made the artifact.

    A run may read what it made, what its event refers to, and what belongs to its conversation and thread.
    """
    if made_by == run_id or artifact_id in referenced_by(event_input):
        return True
    return grant.conversation_id is not None and place == Place.of(grant)


def referenced_by(event_input: Input) -> frozenset[str]:
    """Return the ids of the artifacts that an event's input refers to."""
    contents = event_input.contents
    elements = (element.artifact_id for element in contents if isinstance(element, ArtifactElement))
    return frozenset(elements) | {ref.artifact_id for ref in event_input.attachments}
