"""Which artifacts a run may read."""

from __future__ import annotations

import pytest

from hostler.domain.grants import Grant
from hostler.domain.place import NOWHERE, Place
from hostler.domain.reach import artifact_in_reach
from hostler_protocol.content import ArtifactElement, ArtifactRef
from hostler_protocol.events import Input

HERE = Place("b", "c", "t")
GIVEN = Input(
    contents=[ArtifactElement(artifact_id="in text")], attachments=[ArtifactRef(artifact_id="attached")]
)


@pytest.mark.parametrize(
    ("artifact_id", "place", "made_by", "readable"),
    [
        ("a", NOWHERE, "r1", True),
        ("a", NOWHERE, "r2", False),
        ("a", NOWHERE, None, False),
        ("in text", NOWHERE, "r2", True),
        ("attached", NOWHERE, None, True),
        ("a", HERE, "r2", True),
        ("a", Place("b", "c", None), "r2", False),
        ("a", Place("b", "other", "t"), "r2", False),
        ("a", Place(None, "c", "t"), "r2", False),
    ],
)
def test_a_run_reads_its_own_its_events_and_its_conversations(
    artifact_id: str, place: Place, made_by: str | None, readable: bool
) -> None:
    assert (
        artifact_in_reach(artifact_id, place, made_by, run_id="r1", grant=grant(HERE), event_input=GIVEN)
        is readable
    )


def test_without_a_conversation_no_place_is_shared() -> None:
    found = artifact_in_reach("a", NOWHERE, "r2", run_id="r1", grant=grant(NOWHERE), event_input=Input())
    assert not found


def grant(place: Place) -> Grant:
    return Grant(
        workspace_id="w",
        agent_id="a",
        agent_version=1,
        runner_id="plugin:acme/echo/default",
        owner="acme/echo",
        bot_id=place.bot_id,
        conversation_id=place.conversation_id,
        thread_id=place.thread_id,
    )
