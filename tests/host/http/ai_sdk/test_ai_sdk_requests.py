"""Requests to `/ai-sdk` that no client of ours sends: nothing makes the host fail, and nothing is half
done.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.http.ai_sdk.chat_request import ChatRequest, decisions_in, last_said
from hostler.http.request import decode_json
from hostler_protocol.content import FileBase64Element, FileUrlElement, ImageBase64Element, TextElement
from hostler_protocol.errors import HostlerError
from support.call_views import call
from support.dialects.players import playing

LEAF = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8)
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
PART = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "file", "tool-scan", "dynamic-tool", "step-start", "data-x"]) | LEAF,
        "text": LEAF,
        "url": st.sampled_from(
            ["data:,x", "data:image/png;base64,!", "/v1/artifacts/none/content", "file:///etc"]
        )
        | LEAF,
        "mediaType": st.sampled_from(["image/png", "text/plain"]) | LEAF,
        "state": st.sampled_from(["output-available", "output-error", "approval-responded"]) | LEAF,
        "toolMetadata": JSON,
        "output": JSON,
        "approval": JSON
        | st.fixed_dictionaries({"id": st.sampled_from(["call_a_b", "x"]), "approved": st.booleans()}),
    },
)
MESSAGE = st.fixed_dictionaries(
    {
        "id": st.text(max_size=5),
        "role": st.sampled_from(["user", "assistant", "system"]),
        "parts": st.lists(PART, max_size=3),
    }
)
CHAT = st.fixed_dictionaries(
    {"id": st.text(max_size=5), "messages": st.lists(MESSAGE, max_size=3)},
    optional={
        "trigger": st.sampled_from(["submit-message", "regenerate-message"]) | LEAF,
        "messageId": LEAF,
        "tools": JSON,
    },
)


@pytest.mark.shows("ai-sdk", "hostile")
async def test_no_body_makes_the_host_fail(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        bodies: list[Any] = []

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(CHAT | JSON)
        def collect(body: Any) -> None:
            bodies.append(body)

        collect()
        for body in bodies:
            async with served.client.stream("POST", "/ai-sdk/player", json=body) as answer:
                assert answer.status_code < 500, (body, await answer.aread())
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
                    assert (await answer.aread()).decode()
                    assert answer.headers["hostler-code"]


def read(body: Any) -> ChatRequest:
    return decode_json(json.dumps(body).encode(), ChatRequest)


def chat(*parts: Any, role: str = "user", **fields: Any) -> ChatRequest:
    return read({"id": "c", "messages": [{"id": "m", "role": role, "parts": parts}], **fields})


def test_files_are_read_by_where_they_are() -> None:
    said = last_said(
        chat(
            {"type": "text", "text": "see"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw=="},
            {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,a%20b", "filename": "n.txt"},
            {"type": "file", "mediaType": "application/pdf", "url": "https://x.test/a.pdf"},
        ),
        (),
    )
    assert said.input.contents == [
        TextElement(text="see"),
        ImageBase64Element(image_base64="iVBORw==", mime_type="image/png"),
        FileBase64Element(file_base64="YSBi", file_name="n.txt", mime_type="text/plain"),
        FileUrlElement(file_url="https://x.test/a.pdf", file_name=None),
    ]


async def test_a_file_of_another_host_is_not_looked_for_here(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        for number, (place, status) in enumerate(
            [("", 404), (served.url, 404), ("https://other.test", 200), (f"{served.url}1", 200)]
        ):
            file = {"type": "file", "mediaType": "text/plain", "url": f"{place}/v1/artifacts/none/content"}
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": '[["seen"]]'}, file]}
            body = {"id": f"chat{number}", "messages": [message]}
            answer = await served.client.post("/ai-sdk/player", json=body)
            assert answer.status_code == status, (place, answer.text)
            assert (f"{place}/v1/artifacts/none" in answer.text) == (status == 200)


def test_the_id_of_an_event_is_that_of_the_message_and_its_content() -> None:
    one = last_said(chat({"type": "text", "text": "a"}), ()).event_id
    assert one == last_said(chat({"type": "text", "text": "a"}, trigger="regenerate-message"), ()).event_id
    assert one != last_said(chat({"type": "text", "text": "b"}), ()).event_id


def test_what_is_wrong_is_named_by_its_place() -> None:
    for wrong, place in [
        (chat({"type": "audio"}), "messages[0].parts[0]"),
        (chat({"type": "file", "url": "ftp://x", "mediaType": "a/b"}), "messages[0].parts[0]: url"),
        (chat(role="assistant"), "messages[0]: role"),
    ]:
        with pytest.raises(HostlerError, match=re.escape(place)):
            last_said(wrong, ())


def test_only_decisions_of_ours_are_read() -> None:
    foreign = {
        "type": "tool-x",
        "state": "output-available",
        "output": 1,
        "toolMetadata": {"hostler": {"callId": "other"}},
    }
    ours = {**foreign, "toolMetadata": {"hostler": {"callId": "call_r_c"}}}
    assert decisions_in(chat(foreign, {"approval": {"id": "y", "approved": True}}, role="assistant")) == []
    assert [(one.run_id, one.call_id) for one in decisions_in(chat(ours, role="assistant"))] == [("r", "c")]


def test_what_a_message_shows_of_decisions_is_told_from_others() -> None:
    def shown(fields: dict[str, Any], **part: Any) -> bool:
        named = {"type": "tool-question", "toolMetadata": {"hostler": {"callId": "call_r_c"}}, **part}
        (found,) = decisions_in(chat(named, role="assistant"))
        return found.shows(call("c", **fields))

    approved = {"kind": "approval", "decision": "approved"}
    answered = {"kind": "question", "decision": "answered", "values": {"size": "xl"}}
    for fields, said, expected in [
        (approved, True, True),
        (approved, False, False),
        ({**approved, "decision": "expired"}, False, True),
        ({**approved, "decision": "undecided"}, True, False),
    ]:
        assert shown(fields, approval={"id": "call_r_c", "approved": said}) is expected
    for output, expected in [
        ({"values": {"size": "xl"}}, True),
        ({"values": {"size": "xl"}, "action": "send"}, False),
        ({"values": {"size": "s"}}, False),
        (None, True),
    ]:
        assert shown(answered, state="output-available", output=output) is expected
    assert shown({**answered, "decision": "expired"}, state="output-error", errorText="this was expired")
