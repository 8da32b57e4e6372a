"""Messages and calls of models between LangBot's form and the protocol's, and the small pure parts."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_langbot.generations import earlier_names, upgraded
from hostler_langbot.messages import (
    ChunkWriter,
    content_in,
    content_out,
    functions_in,
    model_message_in,
    usage_out,
)
from hostler_langbot.serve import stated_plugin
from hostler_sdk import InvalidArgument
from hostler_sdk.loading import PluginLoadError
from hostler_sdk.types import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    ModelDelta,
    ModelMessage,
    TextElement,
    ToolCallDelta,
    Usage,
)


def test_content_goes_out_and_comes_back() -> None:
    elements: list[ContentElement] = [
        TextElement(text="see"),
        ImageUrlElement(image_url=ImageUrl(url="https://x.example/a.png")),
        ArtifactElement(artifact_id="a1", mime_type="image/png"),
        ArtifactElement(artifact_id="a2", mime_type="text/plain", file_name="a.txt"),
        FileUrlElement(file_url="https://x.example/a", file_name="a"),
    ]
    out = content_out(elements)
    assert out is not None
    assert [one["type"] for one in out] == ["text", "image_url", "image_url", "file_url", "file_url"]  # type: ignore[index]
    back = content_in(out)
    assert back == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "artifact", "artifact_id": "a1"},
        {"type": "artifact", "artifact_id": "a2", "file_name": "a.txt"},
        {"type": "file_url", "file_url": "https://x.example/a", "file_name": "a"},
    ]
    inline = content_out(
        [ImageBase64Element(image_base64="data:image/gif;base64,AA=="), FileBase64Element(file_base64="AA==")]
    )
    assert inline == [
        {"type": "image_base64", "image_base64": "data:image/gif;base64,AA=="},
        {
            "type": "file_base64",
            "file_base64": "data:application/octet-stream;base64,AA==",
            "file_name": None,
        },
    ]
    assert content_in([{"type": "text", "text": None}, {"type": "image_url", "image_url": "u"}]) == [
        {"type": "image_url", "image_url": {"url": "u"}}
    ]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("hi", "messages are objects"),
        ({"role": "user", "content": 7}, "content is text or a list"),
        ({"role": "user", "content": [7]}, "an object with a type"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "no content element of the type 'hologram'"),
        ({"role": "assistant", "tool_calls": 7}, "tool_calls is a list"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "an id and a function"),
    ],
)
def test_messages_that_make_no_sense_are_refused(message: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        model_message_in(message)


def test_arguments_that_are_no_text_become_one() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    found = model_message_in({"role": "assistant", "content": None, "tool_calls": [call]})
    assert found["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}


def test_tools_that_make_no_sense_are_refused() -> None:
    assert functions_in([]) is None
    with pytest.raises(InvalidArgument, match="funcs is a list"):
        functions_in(["f"])


def test_pieces_of_tool_calls_keep_their_id_and_name() -> None:
    writer = ChunkWriter("m1", remove_think=False)
    pieces = [("c1", "look", '{"a"'), (None, None, ": 1}")]
    chunks = [
        writer.piece(ModelDelta(tool_calls=[ToolCallDelta(index=0, id=i, name=n, arguments=a)]))
        for i, n, a in pieces
    ]
    calls = [chunk["tool_calls"][0] for chunk in chunks if chunk is not None]
    assert [(call["id"], call["function"]["name"]) for call in calls] == [("c1", "look")] * 2
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a": 1}'
    assert writer.piece(ModelDelta(reasoning="hm")) is None
    assert writer.end(ModelMessage(role="assistant", content=""), "stop")["is_final"]


def test_thinking_is_left_out_wherever_it_is_cut() -> None:
    writer = ChunkWriter("m1", remove_think=True)
    pieces = [writer.piece(ModelDelta(content=text)) for text in ("<th", "ink>hm</thi", "nk>An", "swer <")]
    last = writer.end(ModelMessage(role="assistant", content=""), "stop")
    assert "".join(one["content"] for one in [*pieces, last] if one is not None) == "Answer <"


def test_usage_goes_out_under_the_names_of_langbot() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, cached_tokens=3)
    assert usage_out(usage) == {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 3}
    assert usage_out(None) is None


def test_earlier_names_and_components() -> None:
    assert "AgentRunner" in earlier_names("Runner")
    assert "AgentRunContext" in earlier_names("RunnerContext")
    assert "AgentRunAPIProxy" in earlier_names("RunnerAPIProxy")
    assert "AgentRunnerManifest" in earlier_names("RunnerManifest")
    assert earlier_names("Message") == ()
    assert upgraded({"kind": "AgentRunner", "spec": {"config": []}}) == {
        "kind": "Runner",
        "spec": {"config": [], "usages": ["agent"]},
    }
    stated = {"kind": "Runner", "spec": {"usages": ["event"], "events": ["*"]}}
    assert upgraded(stated) == stated
    assert upgraded({"kind": "Tool"}) == {"kind": "Tool"}


def test_the_bridge_without_a_host_says_how_it_is_started() -> None:
    with pytest.raises(PluginLoadError, match=r"started through a host, like hostler run \./the-plugin"):
        stated_plugin({})
    with pytest.raises(PluginLoadError, match="is not JSON"):
        stated_plugin({"HOSTLER_PLUGIN_MANIFEST": "{"})
