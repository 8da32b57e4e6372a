"""What a run may see of things that are named by ids: its own, its event's, its conversation's."""

from __future__ import annotations

from typing import Protocol

from hostler.domain.grants import Grant
from hostler.domain.place import Place
from hostler_protocol.content import ArtifactElement
from hostler_protocol.events import Input


class Placed(Protocol):
    """Something that belongs to a place, such as an artifact."""

    @property
    def artifact_id(self) -> str:
        """Its id."""
        ...

    @property
    def place(self) -> Place:
        """Its bot, conversation and thread."""
        ...

    @property
    def run_id(self) -> str | None:
        """The run that made it."""
        ...


def artifact_in_reach(placed: Placed, run_id: str, grant: Grant, given: Input) -> bool:
    """Whether a run may read an artifact of its workspace.

    Those it made, those its event refers to, and those of its own conversation and thread.
    """
    if placed.run_id == run_id or placed.artifact_id in referenced_by(given):
        return True
    return grant.conversation_id is not None and placed.place == Place.of(grant)


def referenced_by(given: Input) -> frozenset[str]:
    """The artifacts that an event's input refers to."""
    elements = (element.artifact_id for element in given.contents if isinstance(element, ArtifactElement))
    return frozenset(elements) | {ref.artifact_id for ref in given.attachments}
