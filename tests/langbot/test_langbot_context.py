"""The context of a run in LangBot's form."""

from __future__ import annotations

from typing import Any

from hostler_langbot.attachments import MAX_CONTENT_CHARS
from hostler_langbot.context import EXTERNAL_ID, context_of
from hostler_langbot.framing import MAX_MESSAGE_BYTES
from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_protocol.events import Actor, AgentRunContext, Conversation, EventRef, Input, StateSnapshot

UUID = "01a221c7-037b-7188-82d6-b8963fa3f7ec"
OTHER = "5f0c7c1e-6a0a-4f1e-9d3b-0d2b8a1b4c5d"


def given(conversation_id: str, event_type: str = "message.received", **fields: Any) -> AgentRunContext:
    return AgentRunContext(
        run_id="r1",
        event=EventRef(event_id="e1", event_type=event_type),
        conversation=Conversation(conversation_id=conversation_id),
        **fields,
    )


def state_seen(conversation_id: str, **state: Any) -> dict[str, Any]:
    context = given(conversation_id, state=StateSnapshot(conversation=dict(state)))
    found: dict[str, Any] = context_of(context)["state"]["conversation"]
    assert context.state.conversation == state  # what the host sent stays as it is
    return found


def test_a_preset_id_is_not_taken_for_one_of_the_service() -> None:
    assert state_seen(UUID, **{EXTERNAL_ID: UUID, "k": 1}) == {"k": 1}
    assert state_seen(UUID, **{EXTERNAL_ID: OTHER}) == {EXTERNAL_ID: OTHER}
    assert state_seen("person_7", **{EXTERNAL_ID: "person_7"}) == {}
    assert state_seen("person_7", **{EXTERNAL_ID: OTHER}) == {EXTERNAL_ID: OTHER}


def test_a_message_has_a_sender_who_stays_the_same() -> None:
    first, second = context_of(given("c1")), context_of(given("c1"))
    assert first["actor"] == second["actor"] == {"actor_type": "user", "actor_id": "c1"}
    own = Actor(actor_type="user", actor_id="ada")
    assert context_of(given("c1", actor=own))["actor"]["actor_id"] == "ada"
    assert "actor" not in context_of(given("c1", event_type="schedule.due"))


def files_seen(given_input: Input, inlined: Any = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = context_of(given("c1", input=given_input), inlined)["input"]
    return found["contents"], found["attachments"]


def test_a_file_is_in_the_contents_and_in_the_attachments() -> None:
    contents, attachments = files_seen(
        Input(
            contents=[
                TextElement(text="look"),
                ImageBase64Element(image_base64="QUFB", mime_type="image/jpeg"),
                ImageUrlElement(image_url=ImageUrl(url="https://x.example/a.png")),
                FileBase64Element(file_base64="QkJC", file_name="b.txt", mime_type="text/plain"),
                FileUrlElement(file_url="https://x.example/c.pdf", file_name="c.pdf"),
            ]
        )
    )
    assert [one["type"] for one in contents] == [
        "text",
        "image_base64",
        "image_url",
        "file_base64",
        "file_url",
    ]
    picture = {"type": "image", "source": "base64", "content": "data:image/jpeg;base64,QUFB"}
    text = {"type": "file", "source": "base64", "content": "data:text/plain;base64,QkJC"}
    assert attachments == [
        picture | {"mime_type": "image/jpeg"},
        {"type": "image", "source": "url", "url": "https://x.example/a.png"},
        text | {"name": "b.txt", "mime_type": "text/plain"},
        {"type": "file", "source": "url", "url": "https://x.example/c.pdf", "name": "c.pdf"},
    ]


def test_a_stored_file_has_its_content_wherever_the_event_named_it() -> None:
    stored = ImageBase64Element(image_base64="QUFB", mime_type="image/png")
    ref = ArtifactRef(
        artifact_id="p", artifact_type="file", mime_type="image/png", name="p.png", size_bytes=3
    )
    element = ArtifactElement(artifact_id="p", mime_type="image/png")
    whole = {
        "type": "image",
        "source": "base64",
        "content": "data:image/png;base64,QUFB",
        "ref": "p",
        "id": "p",
        "name": "p.png",
        "mime_type": "image/png",
        "size": 3,
    }
    for given_input in (Input(text="see", attachments=[ref]), Input(contents=[element], attachments=[ref])):
        contents, attachments = files_seen(given_input, {"p": stored})
        assert contents == [{"type": "image_base64", "image_base64": "data:image/png;base64,QUFB"}]
        assert attachments == [whole]
    contents, attachments = files_seen(Input(contents=[element], attachments=[ref]))  # it could not be read
    assert contents == [{"type": "image_url", "image_url": {"url": "artifact:p"}}]
    assert not {"url", "content"} & set(attachments[0])


def test_files_that_do_not_fit_into_a_message_twice_are_sent_once() -> None:
    half = "A" * (MAX_CONTENT_CHARS // 2 - 100)
    link = FileUrlElement(file_url="https://x.example/c.pdf")
    files = [FileBase64Element(file_base64=half, mime_type="text/plain") for _ in range(2)]
    contents, attachments = files_seen(Input(contents=[*files, link]))
    assert [one["source"] for one in attachments] == ["base64", "base64", "url"]
    assert sum(len(str(one)) for one in (*contents, *attachments)) < MAX_MESSAGE_BYTES
    more = ImageBase64Element(image_base64="A" * 400, mime_type="image/png")
    contents, attachments = files_seen(Input(contents=[*files, link, more]))
    assert len(contents) == 4
    assert [one["source"] for one in attachments] == ["url"]
