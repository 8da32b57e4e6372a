"""The conversation that the documentation shows, spoken by links on both ends, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler_protocol import AgentRunnerManifest, Link, Side, State
from hostler_protocol.incoming import Called, Incoming, Replied, ResultArrived, RunEnded
from hostler_protocol.results import MessageCompleted, decode_data

ROOT = Path(__file__).parents[2]
EXAMPLE = [
    (row[0], row[2:].encode())
    for row in (ROOT / "docs" / "example_conversation.txt").read_text().splitlines()
]


def say(link: Link, text: bytes, asked: dict[Any, str]) -> bytes:
    """Let a link say what a line of the example says."""
    message = json.loads(text)
    if "result" in message:
        return link.reply(message["id"], message["result"])
    if "id" not in message:
        return link.notify(message["method"], message["params"])
    id_, data = link.request(message["method"], message["params"])
    asked[id_] = message["method"]
    return data


def test_links_on_both_ends_speak_the_example_byte_for_byte() -> None:
    host, plugin = Link(Side.HOST), Link(Side.PLUGIN)
    asked: dict[Any, str] = {}
    heard: list[Incoming] = []
    for direction, text in EXAMPLE:
        sender, receiver = (host, plugin) if direction == ">" else (plugin, host)
        data = say(sender, text, asked)
        assert data == text + b"\n"
        (event,) = receiver.receive(data)
        assert receiver.data_to_send() == b""
        heard.append(event)
    kinds = [Called, Replied, Called, Replied, Called, Replied, Called, Replied, ResultArrived, RunEnded]
    assert [type(event) for event in heard] == kinds
    assert host.state is plugin.state is State.READY
    assert host.runs == plugin.runs == frozenset()
    assert host.foreign_messages == 0


@pytest.mark.parametrize("side", Side)
def test_every_line_means_what_it_says(side: Side) -> None:
    link = Link(side)
    heard: list[Any] = []
    for direction, text in EXAMPLE:
        if (direction == ">") is (side is Side.HOST):
            say(link, text, {})
        else:
            heard += link.receive(text + b"\n")
    if side is Side.PLUGIN:
        initialize, _, started, state = heard
        assert (initialize.params.protocol.min, initialize.params.host.name) == (1, "hostler")
        assert (started.params.context.run_id, started.params.credit) == ("r1", 64)
        assert state.result.value == "Ada"
    else:
        initialized, listed, _, call, arrived, ended = heard
        assert initialized.result.plugin.key == "acme/echo"
        manifest = msgspec.json.decode(listed.result.runners[0], type=AgentRunnerManifest)
        assert manifest.id == initialized.result.plugin.runner_id("default")
        assert (call.method, call.params.scope, call.params.key) == ("host/state.get", "actor", "name")
        message = decode_data(arrived.result.type, arrived.result.data)
        assert isinstance(message, MessageCompleted)
        assert message.message.content == "hi"
        assert ended == RunEnded("r1")
