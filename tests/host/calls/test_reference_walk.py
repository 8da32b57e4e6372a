"""References: each place is decided, and what is out of reach is answered like what is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.calls.artifacts import attachment_reader
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.content import ArtifactElement
from hostler_protocol.errors import HostlerError
from support.call_world import World, world_of
from support.grants import event_of
from support.reference_bodies import (
    AGENT_TEXT,
    BODY_TEXT,
    CONFIG_TEXT,
    IN_AGENTS,
    IN_BODIES,
    IN_CONFIG,
    agent_places,
    body_places,
    entry_places,
)
from support.reference_walk import (
    CALL_TEXT,
    IN_CALLS,
    IN_ROUTES,
    LOOKING_UP,
    ROUTE_TEXT,
    SECRET_PLACES,
    call_places,
    modules_that_look_up,
    route_parameters,
)

pytestmark = pytest.mark.gate("tenancy")

ABSENT = "no-such-thing-anywhere"


@pytest.fixture
async def world(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(database, tmp_path) as made:
        yield made


# -- every place is decided ---------------------------------------------------------------------------


def test_each_place_of_a_host_call_is_decided() -> None:
    assert set(call_places()) == set(IN_CALLS) | CALL_TEXT
    assert not set(IN_CALLS) & CALL_TEXT


def test_each_parameter_of_a_route_is_decided() -> None:
    assert set(route_parameters()) == set(IN_ROUTES) | ROUTE_TEXT
    assert not set(IN_ROUTES) & ROUTE_TEXT


def test_each_place_of_a_body_and_of_an_agent_is_decided() -> None:
    assert set(body_places()) == set(IN_BODIES) | BODY_TEXT
    assert not set(IN_BODIES) & BODY_TEXT
    assert set(agent_places()) == set(IN_AGENTS) | AGENT_TEXT
    assert not set(IN_AGENTS) & AGENT_TEXT


def test_each_place_of_a_configuration_is_decided() -> None:
    assert set(entry_places()) == set(IN_CONFIG) | CONFIG_TEXT
    assert not set(IN_CONFIG) & CONFIG_TEXT


def test_secrets_are_looked_up_for_places_of_the_configuration_and_by_known_modules_alone() -> None:
    assert set(SECRET_PLACES) <= set(IN_CONFIG)
    assert modules_that_look_up() == set(LOOKING_UP)
    assert {place for places in LOOKING_UP.values() for place in places} == set(SECRET_PLACES)


# -- what is out of reach is not there ----------------------------------------------------------------

Tried = tuple[str, dict[str, Any]]


async def out_of_reach(world: World) -> dict[str, list[str]]:
    """By kind: ids that exist and that the run may not reach, in its workspace and in another one."""
    elsewhere = world.caller(name="elsewhere", event=event_of(event_id="e-own", conversation_id="c2"))
    foreign = world.caller("other")
    hidden = [(await one.call("artifact.upload")).artifact_id for one in (elsewhere, foreign)]
    return {
        "run": [world.runs["main", "stranger"], world.runs["main", "elsewhere"], world.runs["other", "own"]],
        "model": ["claude"],
        "tool": ["fetch"],
        "knowledge base": ["handbook"],
        "file": ["f9"],
        "agent": ["stranger"],
        "conversation": ["c2"],
        "event": ["e-elsewhere", "e-after", "e-bot", "e-nowhere"],
        "artifact": hidden,
        "upload": ["u9"],
    }


def at(place: str, value: str) -> dict[str, Any]:
    """Arguments with a value at a place."""
    if place == "filters.conversation_id":
        return {"filters": {"conversation_id": value}}
    if place == "input.contents[].artifact_id":
        return {"input": {"contents": [{"type": "artifact", "artifact_id": value}]}}
    if place == "input.attachments[].artifact_id":
        return {"input": {"attachments": [{"artifact_id": value, "artifact_type": "file"}]}}
    return {place: value}


NOT_ASKED = {
    "messages[].content[].artifact_id": "read while the request is made: the next test",
    "run_id": "every way of test_call_walk.py",
}


async def test_what_is_out_of_reach_is_answered_like_what_does_not_exist(world: World) -> None:
    hidden, tried = await out_of_reach(world), 0
    caller = world.caller()
    for place, methods in call_places().items():
        bound = IN_CALLS.get(place)
        if bound is None or bound.kind not in hidden or place in NOT_ASKED:
            continue
        for method in methods:
            if method in ("run.append", "run.finalize"):
                continue
            answers = set()
            for value in (*hidden[bound.kind], ABSENT):
                with pytest.raises(HostlerError) as refused:
                    await caller.call(method, **at(place, value))
                told = f"{refused.value.code} {refused.value.message}".replace(value, "<it>")
                answers.add(told)
                assert refused.value.code in ("not_found", "unauthorized", "invalid_argument"), (
                    method,
                    place,
                    told,
                )
                tried += 1
            assert len(answers) == 1, (method, place, answers)
    assert tried > 50, "the walk shows nothing"


async def test_a_file_out_of_reach_is_in_no_request_to_a_model(world: World) -> None:
    caller = world.caller()
    mine = (await caller.call("artifact.upload")).artifact_id
    read = attachment_reader(caller.scope())
    assert await read(ArtifactElement(artifact_id=mine)) is not None
    for value in (*(await out_of_reach(world))["artifact"], ABSENT):
        assert await read(ArtifactElement(artifact_id=value)) is None
