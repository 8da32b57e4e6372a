"""local-agent's pictures and files: kept over turns and over notes, within what one request takes."""

from __future__ import annotations

from typing import Any

from local_agent.agent import LocalAgent
from local_agent.files import MAX_KEPT_FILES, MAX_SENT_BYTES, files_of

from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    ImageUrl,
    ImageUrlElement,
    ModelMessage,
    TextElement,
    text_of,
)
from hostler_sdk.errors import InvalidArgument
from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import CHECKPOINT, MAIN, logs, requests

SMALL: dict[str, Any] = MAIN | {
    "context-window-tokens": 40_000,
    "context-reserve-tokens": 4_000,
    "context-keep-recent-tokens": 3_000,
}
"""A budget of 36,000 of which 6,000 are for files; the scripted host counts words."""


def ref(number: int, size: int | None = None, kind: str = "image/png") -> ArtifactRef:
    return ArtifactRef(artifact_id=f"a{number}", mime_type=kind, name=f"{number}.png", size_bytes=size)


def script(messages: list[ModelMessage]) -> str:
    is_summary = text_of(messages[0].content).startswith("You keep the notes")
    return "the notes" if is_summary else "ok"


def sent(driven: Driven, place: int = -1) -> list[list[str]]:
    """The artifacts of each message."""
    return [
        [e.artifact_id for e in m.content if isinstance(e, ArtifactElement)]
        for m in requests(driven)[place].messages
        if isinstance(m.content, list)
    ]


def crossed(host: ScriptedHost) -> Driven:
    """A turn that makes notes of what was said before."""
    for number in range(4):
        host.world.remember("user", f"m{number} " + "word " * 12_000)
    driven = host.drive_sync(LocalAgent, "go", config=SMALL)
    assert driven.status == "completed"
    return driven


def test_pictures_go_on_with_the_notes() -> None:
    host = ScriptedHost(models={"main": script})
    host.world.remember("user", "see this", [ref(1)])
    host.world.remember("assistant", "A cat.")
    driven = crossed(host)
    kept = host.world.states["conversation"][CHECKPOINT][0]
    assert [file["artifact_id"] for file in kept["files"]] == ["a1"]
    first = next(m for m in requests(driven)[-1].messages if m.role == "user")
    assert isinstance(first.content, list)
    assert first.content[0] == TextElement(text="Files from the earlier part of this conversation:")
    assert first.content[1] == ArtifactElement(artifact_id="a1", mime_type="image/png", file_name="1.png")
    assert text_of(first.content).split()[8:11] == ["The", "message:", "m2"]
    # the turns after it, and the notes after those
    assert sent(host.drive_sync(LocalAgent, "what was it?", config=SMALL)) == [["a1"]]
    host.world.remember("user", "and this", [ref(2)])
    assert sent(host.drive_sync(LocalAgent, "and?", config=SMALL)) == [["a1"], ["a2"]]
    again = crossed(host)
    assert sent(again) == [["a1", "a2"]]


def test_of_many_pictures_the_newest_go_on() -> None:
    host = ScriptedHost(models={"main": script})
    for number in range(20):
        host.world.remember("user", "see", [ref(number)])
    crossed(host)
    kept = [file["artifact_id"] for file in host.world.states["conversation"][CHECKPOINT][0]["files"]]
    assert kept == [f"a{number}" for number in range(20)][-len(kept) :]
    assert 1 <= len(kept) <= MAX_KEPT_FILES


def test_addresses_are_kept_and_what_is_too_large_for_a_state_is_not() -> None:
    host = ScriptedHost(models={"main": script})
    addresses = ["http://pics/cat.png", "data:image/png;base64," + "A" * 300_000]
    host.world.remember("user", [ImageUrlElement(image_url=ImageUrl(url=url)) for url in addresses])
    driven = crossed(host)
    first = next(m for m in requests(driven)[-1].messages if m.role == "user")
    pictures = [e for e in first.content if isinstance(e, ImageUrlElement)]
    assert pictures == [ImageUrlElement(image_url=ImageUrl(url="http://pics/cat.png"))]


def test_files_that_are_too_large_together_are_told_by_their_names() -> None:
    host = ScriptedHost(models={"main": "ok"})
    third = MAX_SENT_BYTES // 3
    for number in range(5):
        host.world.remember("user", f"m{number}", [ref(number, third, "image/png")])
        host.world.remember("assistant", "Seen.")
    given = {"text": "now", "attachments": [{"artifact_id": "now", "size_bytes": third, "mime_type": "a/b"}]}
    config = MAIN | {"context-window-tokens": 100_000_000}
    driven = host.drive_sync(LocalAgent, given, config=config)
    assert sent(driven) == [[], [], [], ["a3"], ["a4"], ["now"]]
    assert text_of(requests(driven)[0].messages[1].content) == "m0\n[0.png]"


def test_an_event_s_own_files_are_the_host_s_to_refuse() -> None:
    host = ScriptedHost(models={"main": "ok"})
    host.world.remember("user", "before", [ref(1, 10)])
    size = MAX_SENT_BYTES * 2
    given = {
        "text": "now",
        "attachments": [{"artifact_id": "now", "size_bytes": size, "mime_type": "image/x"}],
    }
    assert sent(host.drive_sync(LocalAgent, given, config=MAIN)) == [[], ["now"]]


def test_a_picture_of_before_does_not_end_a_conversation_with_a_model_that_takes_none() -> None:
    def blind(messages: list[ModelMessage]) -> Any:
        holds_files = any(isinstance(m.content, list) and files_of(m) for m in messages)
        return InvalidArgument("this model takes no images") if holds_files else "ok"

    host = ScriptedHost(models={"main": blind})
    host.world.remember("user", "see this", [ref(1)])
    driven = host.drive_sync(LocalAgent, "hello?", config=MAIN)
    assert driven.text == "ok"
    assert "without the files of earlier messages: this model takes no images" in logs(driven)
    assert text_of(requests(driven)[-1].messages[1].content) == "see this\n[1.png]"
    assert len(requests(driven)) == 2
    given = {"text": "now", "attachments": [{"artifact_id": "now", "mime_type": "image/png"}]}
    refused = host.drive_sync(LocalAgent, given, config=MAIN)
    assert (refused.status, refused.code) == ("failed", "local-agent.model_error")
    assert "this model takes no images" in (refused.error or "")
