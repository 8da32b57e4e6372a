"""What a run may see of things that are named by ids: its own, its event's, its conversation's."""

from __future__ import annotations

from typing import Protocol

from hostler.domain.grants import Grant
from hostler_protocol.content import ArtifactElement
from hostler_protocol.events import Input


class Placed(Protocol):
    """Something that belongs to a place, such as an artifact."""

    @property
    def artifact_id(self) -> str:
        """Its id."""
        ...

    @property
    def bot_id(self) -> str | None:
        """The bot it came through."""
        ...

    @property
    def conversation_id(self) -> str | None:
        """Its conversation."""
        ...

    @property
    def thread_id(self) -> str | None:
        """Its thread."""
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
    place = (placed.bot_id, placed.conversation_id, placed.thread_id)
    return grant.conversation_id is not None and place == (
        grant.bot_id,
        grant.conversation_id,
        grant.thread_id,
    )


def referenced_by(given: Input) -> frozenset[str]:
    """The artifacts that an event's input refers to."""
    elements = (element.artifact_id for element in given.contents if isinstance(element, ArtifactElement))
    return frozenset(elements) | {ref.artifact_id for ref in given.attachments}
