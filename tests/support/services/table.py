"""The services whose runners one suite tests. A new service is a fake and one more line here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hostler_a2a.runner import A2A
from hostler_coze.runner import Coze
from hostler_coze.stream import CozeStream
from hostler_dashscope.runner import DashScope
from hostler_dashscope.stream import DashScopeStream
from hostler_deerflow.runner import DeerFlow
from hostler_deerflow.stream import DeerFlowStream
from hostler_dify.runner import Dify
from hostler_dify.stream import DifyStream
from hostler_langflow.runner import Langflow
from hostler_langflow.stream import LangflowAnswer
from hostler_langgraph.runner import LangGraph
from hostler_langgraph.stream import GraphStream
from hostler_n8n.runner import N8n
from hostler_n8n.stream import N8nAnswer
from hostler_openai_responses.runner import OpenAIResponses
from hostler_openai_responses.stream import ResponseStream
from hostler_tbox.runner import Tbox
from hostler_tbox.stream import TboxStream
from hostler_weknora.runner import WeKnora
from hostler_weknora.stream import WeKnoraStream

from hostler_sdk.services import Parser, ServiceRunner
from support.services import (
    a2a,
    coze,
    dashscope,
    deerflow,
    dify,
    langflow,
    langgraph,
    langgraph_wire,
    n8n,
    openai_responses,
    tbox,
    weknora,
)
from support.services.server import sse


@dataclass(frozen=True)
class Case:
    """One kind of a service."""

    name: str
    runner: type[ServiceRunner]
    fake: Callable[[], Any]
    """`FakeDify` and its like: `ServiceServer` with `key`, `address`, `good` and `messages`."""
    parser: Callable[[], Parser] | None
    """None: a library reads the stream."""
    settings: dict[str, Any]
    """Of its form, besides the address."""
    address: str
    """The setting that holds the address."""
    error_event: bytes
    unknown_event: bytes
    required: tuple[str, ...]
    """Settings without which nothing is sent."""
    session: tuple[str, str] | None = None
    """Name in the state, and value, of the service's id of the conversation."""
    sent_session: Callable[[dict[str, Any]], Any] = field(default=lambda message: None)
    sent_text: Callable[[dict[str, Any]], Any] = field(default=lambda message: None)
    sent_inputs: Callable[[dict[str, Any]], dict[str, Any]] = field(default=lambda message: message)
    key: str = "api-key"
    last: str = "complete"
    """In the event that makes an answer complete; empty: none does, and the service is asked."""
    image_name: str = "cat.png"
    """Of a picture, as the service gets it."""
    has_files: bool = True
    has_stop: bool = True
    has_usage: bool = True
    is_events: bool = True
    begins_sessions: bool = False
    """Whether the conversation is begun by a request of its own, before the first message."""


def _dify(kind: str) -> Case:
    is_workflow = kind == "workflow"
    return Case(
        name=f"dify-{kind}",
        runner=Dify,
        fake=partial(dify.FakeDify, kind),
        parser=lambda: DifyStream(is_workflow=is_workflow),
        settings={"api-key": dify.KEY, "app-type": kind},
        address="base-url",
        error_event=dify.error_event(),
        unknown_event=sse(dify.chat("novelty", answer="no")),
        required=("api-key",),
        session=None if is_workflow else ("conversation_id", "dify-conversation-1"),
        sent_session=lambda message: message.get("conversation_id") or None,
        sent_text=lambda message: message["inputs"]["query"] if is_workflow else message["query"],
        sent_inputs=lambda message: message["inputs"],
        last="workflow_finished" if is_workflow else "message_end",
    )


def _mcp_servers(message: dict[str, Any]) -> dict[str, Any]:
    """The way back as an MCP server; the time at which its token ends has no place there."""
    return {
        tool["server_label"]: json.dumps(
            {"url": tool["server_url"], "token": tool["authorization"], "expires_at": 1.0}
        )
        for tool in message["tools"]
    }


CASES = [
    _dify("chat"),
    _dify("agent"),
    _dify("workflow"),
    Case(
        name="n8n",
        runner=N8n,
        fake=n8n.FakeN8n,
        parser=N8nAnswer,
        settings={"auth-type": "header", "header-name": "X-Key", "header-value": n8n.PASSWORD},
        address="webhook-url",
        error_event=n8n.error_event(),
        unknown_event=n8n.event("novelty", content="no"),
        required=("webhook-url", "header-value", "header-name"),
        sent_session=lambda message: message["sessionId"],
        sent_text=lambda message: message["chatInput"],
        key="header-value",
        last='"end"',
        has_stop=False,
        has_usage=False,
        is_events=False,
    ),
    Case(
        name="coze",
        runner=Coze,
        fake=coze.FakeCoze,
        parser=CozeStream,
        settings={"api-key": coze.KEY, "bot-id": coze.BOT},
        address="api-base",
        error_event=coze.error_event(),
        unknown_event=sse({"id": "x"}, "conversation.novelty"),
        required=("api-key", "bot-id"),
        session=("conversation_id", "coze-conversation-1"),
        sent_session=lambda message: message["conversation_id"],
        sent_text=lambda message: message["additional_messages"][0]["content"],
        sent_inputs=lambda message: message["custom_variables"],
        last="chat.completed",
    ),
    *[
        Case(
            name=f"dashscope-{kind}",
            runner=DashScope,
            fake=partial(dashscope.FakeDashScope, kind),
            parser=DashScopeStream,
            settings={"api-key": dashscope.KEY, "app-id": dashscope.APP, "app-type": kind},
            address="base-url",
            error_event=dashscope.error_event(),
            unknown_event=sse({"id": "x"}, "novelty"),
            required=("api-key", "app-id"),
            session=("session_id", "dashscope-session-1"),
            sent_session=lambda message: message.get("session_id"),
            sent_text=lambda message: message["prompt"],
            sent_inputs=lambda message: message["biz_params"],
            last="stop",
            has_files=False,
            has_stop=False,
        )
        for kind in ("agent", "workflow")
    ],
    Case(
        name="langflow",
        runner=Langflow,
        fake=langflow.FakeLangflow,
        parser=LangflowAnswer,
        settings={"api-key": langflow.KEY, "flow-id": langflow.FLOW},
        address="base-url",
        error_event=langflow.error_event(),
        unknown_event=langflow.event("novelty", text="no"),
        required=("api-key", "flow-id"),
        sent_session=lambda message: message["session_id"],
        sent_text=lambda message: message["input_value"],
        last='"end"',
        has_files=False,
        has_stop=False,
        has_usage=False,
        is_events=False,
    ),
    Case(
        name="tbox",
        runner=Tbox,
        fake=tbox.FakeTbox,
        parser=TboxStream,
        settings={"api-key": tbox.KEY, "app-id": tbox.APP},
        address="base-url",
        error_event=tbox.error_event(),
        unknown_event=tbox.said("novelty", text="no"),
        required=("api-key", "app-id"),
        session=("conversation_id", "tbox-conversation-1"),
        sent_session=lambda message: message.get("conversationId"),
        sent_text=lambda message: message["query"],
        sent_inputs=lambda message: message["clientProperties"],
        last='"end"',
        has_stop=False,
        has_usage=False,
    ),
    *[
        Case(
            name=f"weknora-{kind}",
            runner=WeKnora,
            fake=partial(weknora.FakeWeKnora, kind),
            parser=WeKnoraStream,
            settings={"api-key": weknora.KEY, "app-type": kind},
            address="base-url",
            error_event=weknora.error_event(),
            unknown_event=weknora.said("novelty", "no"),
            required=("api-key",),
            session=("session_id", weknora.SESSION),
            sent_session=lambda message: message["session"],
            sent_text=lambda message: message["query"],
            sent_inputs=lambda message: message["mcp_metadata"],
            last='"done": true',
            begins_sessions=True,
            image_name="",
        )
        for kind in ("agent", "chat")
    ],
    Case(
        name="deerflow",
        runner=DeerFlow,
        fake=deerflow.FakeDeerFlow,
        parser=DeerFlowStream,
        settings={"api-key": deerflow.KEY},
        address="api-base",
        error_event=deerflow.error_event(),
        unknown_event=langgraph_wire.event("novelty", {"no": 1}),
        required=(),
        session=("thread_id", deerflow.THREAD),
        sent_session=lambda message: message["thread"],
        sent_text=lambda message: message["input"]["messages"][0]["content"],
        sent_inputs=lambda message: message["config"]["configurable"],
        last="end",
        begins_sessions=True,
    ),
    Case(
        name="openai-responses",
        runner=OpenAIResponses,
        fake=openai_responses.FakeOpenAI,
        parser=ResponseStream,
        settings={"api-key": openai_responses.KEY, "model": openai_responses.MODEL},
        address="base-url",
        error_event=openai_responses.error_event(),
        unknown_event=sse({"type": "response.novelty"}),
        required=("api-key", "model"),
        session=("response_id", openai_responses.FIRST),
        sent_session=lambda message: message.get("previous_response_id"),
        sent_text=lambda message: message["input"][0]["content"],
        sent_inputs=_mcp_servers,
        last="response.completed",
        image_name="",
        has_stop=False,
    ),
    Case(
        name="langgraph",
        runner=LangGraph,
        fake=langgraph.FakeLangGraph,
        parser=GraphStream,
        settings={"api-key": langgraph.KEY, "assistant-id": langgraph.GRAPH},
        address="base-url",
        error_event=langgraph.error_event(),
        unknown_event=langgraph_wire.event("novelty", {"no": 1}),
        required=("assistant-id",),
        session=("thread_id", langgraph.THREAD),
        sent_session=lambda message: message["thread"],
        sent_text=lambda message: message["input"]["messages"][0]["content"],
        sent_inputs=lambda message: message["config"]["configurable"],
        last="",
        begins_sessions=True,
        image_name="",
    ),
    Case(
        name="a2a",
        runner=A2A,
        fake=a2a.FakeA2A,
        parser=None,
        settings={"api-key": a2a.KEY},
        address="agent-card-url",
        error_event=a2a.error_event(),
        unknown_event=a2a.said(a2a.status("NOVELTY", "novelty")),
        required=("agent-card-url",),
        session=("context_id", a2a.CONTEXT),
        sent_session=lambda message: message.get("contextId"),
        sent_text=lambda message: message["parts"][0]["text"],
        sent_inputs=lambda message: message["metadata"],
        has_usage=False,
    ),
]

__all__ = ["CASES", "Case"]
