"""The guide example: what each of its phrases shows."""

from __future__ import annotations

import importlib.util

import pytest

from hostler_protocol.content import text_of
from hostler_protocol.results import MessageDelta
from hostler_sdk import Runner, delta
from hostler_sdk.testing import Driven, ScriptedHost
from support.child_plugins import EXAMPLES


def load_guide() -> type[Runner]:
    spec = importlib.util.spec_from_file_location("guide_example", EXAMPLES / "guide" / "guide.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    guide: type[Runner] = module.Guide
    return guide


@pytest.fixture(name="guide")
def make_guide() -> type[Runner]:
    return load_guide()


def say(host: ScriptedHost, guide: type[Runner], text: str) -> Driven:
    driven = host.drive_sync(guide, text, config={"pace": 0})
    assert (driven.status, driven.warnings) == ("completed", [])
    streamed = "".join(
        text_of(one.data.chunk.content) for one in driven.results if isinstance(one.data, MessageDelta)
    )
    assert streamed == driven.text  # what is streamed is what is said in the end
    return driven


def test_it_remembers_a_name_over_turns(guide: type[Runner], host: ScriptedHost) -> None:
    assert "You have not told me yet" in say(host, guide, "Who am I?").text
    assert "Nice to meet you, Ada" in say(host, guide, "Hi, my name is Ada.").text
    assert "You are Ada" in say(host, guide, "who am i").text
    assert "no longer Ada" in say(host, guide, "call me Grace").text
    assert say(host, guide, "hello").text.startswith("Hello, Grace!")
    assert host.world.snapshot.actor == {"name": "Grace"}


def test_it_looks_back_into_the_history(guide: type[Runner], host: ScriptedHost) -> None:
    assert "first message" in say(host, guide, "what did I say?").text
    say(host, guide, "the sky is blue")
    assert say(host, guide, "What did I say?").text.endswith("- what did I say?\n- the sky is blue")


def test_it_makes_an_artifact(guide: type[Runner], host: ScriptedHost) -> None:
    driven = say(host, guide, "note: buy bread")
    assert 'I wrote "buy bread" into note.txt' in driven.text
    assert host.world.artifacts.content("a1") == b"buy bread\n"
    assert host.world.artifacts.metadata("a1").name == "note.txt"


def test_it_streams_a_count(guide: type[Runner], host: ScriptedHost) -> None:
    driven = say(host, guide, "count to 20")
    assert driven.results[:2] == [delta("1 "), delta("2 ")]
    assert driven.text.split() == [str(number) for number in range(1, 21)]
    assert say(host, guide, "count to 99999").text.endswith(" 1000")


def test_without_a_known_person_the_name_belongs_to_the_conversation(guide: type[Runner]) -> None:
    host = ScriptedHost()
    host.drive_sync(guide, "my name is Ada", config={"pace": 0}, context={"actor": None})
    assert host.world.snapshot.conversation == {"name": "Ada"}
