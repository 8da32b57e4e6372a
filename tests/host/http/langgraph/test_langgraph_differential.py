"""The same client script against this host and against the maker's own server: the same outline of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from support.databases import TEST_SECONDS
from support.dialects.langgraph_dev import langgraph_dev
from support.dialects.langgraph_tour import tour
from support.http_host import ADMIN_KEY, Served

pytestmark = pytest.mark.timeout(900)
DIFFERENT: dict[str, tuple[Any, Any, str]] = {
    "asked by an update": (
        [],
        ["agent"],
        "what a client adds waits for no run: an agent answers messages that are sent to it",
    ),
    "searched": (
        [2, 1, 1, 0, 0, 2],
        [2, 1, 0, 0, 0, 2],
        "objects in lists are looked into, as PostgreSQL's `@>` does; there they are compared whole",
    ),
    "cancelled after its end": (None, 404, "a cancel that comes late, or twice, has what it wants"),
    "no such thread": (
        {"update": 404, "delete": 404, "copy": 404, "state": 404},
        {"update": 404, "delete": 404, "copy": 409, "state": 404},
        "what is not there is not found",
    ),
    "changed item": (
        ({"n": 10}, True),
        ({"n": 10}, False),
        "an item that is changed was made when it was made",
    ),
    "bad item": (400, 422, "all errors of a request are 400 in this interface"),
    "crons, wrong": ([400, 400], [422, 422], "the same"),
    "no assistant": ((None, 404), (404, 404), "a search that finds nothing has an empty answer"),
    "calls, events": (
        [
            *("on_chain_end", "on_chain_start", "on_chat_model_end", "on_chat_model_stream"),
            *("on_tool_end", "on_tool_start"),
        ],
        [
            *("on_chain_end", "on_chain_start", "on_chain_stream", "on_chat_model_end"),
            *("on_chat_model_start", "on_chat_model_stream"),
        ],
        "tokens say where a message begins; that graph calls no tool of LangChain's",
    ),
    "one by one, runs": (["success"], ["success"] * 3, "what is resumed is the same run, listed once"),
    "cancelled, thread": ("idle", "interrupted", "nothing waits in it: a next message begins anew"),
}
"""What differs by design: here, there, and why. Everything else of the tour is the same."""

UNSTEADY = {"events, the rest": True}
"""What the maker's server answers one way or the other, by how busy the machine is (it loses or repeats
events when a client comes back while a run goes on), and what must hold here."""


async def test_the_same_outline_as_of_the_makers_server(served: Served, tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("dev", "ours", "theirs")]
    for place in places:
        place.mkdir()
    async with langgraph_dev(places[0]) as url, get_client(url=url, timeout=TEST_SECONDS) as client:
        theirs = await tour(client, places[2])
    ours_url = f"{served.url}/langgraph"
    async with get_client(url=ours_url, api_key=ADMIN_KEY, timeout=TEST_SECONDS) as client:
        ours = await tour(client, places[1])
    assert ours.keys() == theirs.keys()
    assert {name: ours.pop(name) for name in UNSTEADY} == UNSTEADY
    differing = {name: (value, theirs[name]) for name, value in ours.items() if value != theirs[name]}
    assert differing == {name: (ours, theirs) for name, (ours, theirs, _) in DIFFERENT.items()}
