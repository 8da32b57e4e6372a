"""What runners of remote services share: decoders of streams, requests, answers, failures, settings, files.

    class Mine(ServiceRunner):
        service, title = "mine", "My service"

        async def serve(self, turn: Turn) -> None:
            http = await turn.http(turn.form.url("base-url"))
            await turn.send(http, Request("/chat", json={"query": await turn.text()}), MyParser())

A parser turns the bytes of the service's answer into `Item`s and does nothing else. `Turn` makes results of
them. The decoders need nothing; requests need httpx, the extra `hostler-sdk[services]`.
"""

from __future__ import annotations

from hostler_sdk.services.failures import FAILURES, ServiceFailure
from hostler_sdk.services.files import InputFile
from hostler_sdk.services.form import Form
from hostler_sdk.services.items import (
    Ask,
    Done,
    Item,
    Note,
    Parser,
    Session,
    Spent,
    Task,
    Text,
    ToolEnd,
    ToolStart,
    Whole,
)
from hostler_sdk.services.json_values import as_object, number_in, object_in, text_in, usage_of
from hostler_sdk.services.langgraph import LangGraphStream, messages_in, text_of
from hostler_sdk.services.questions import answer_to, asked, decision_on, question_of
from hostler_sdk.services.request import Request
from hostler_sdk.services.runner import ServiceRunner, Turn
from hostler_sdk.services.sequence import JsonSequenceDecoder
from hostler_sdk.services.sse import ServerEvent, SseDecoder, SseParser
from hostler_sdk.services.think_tags import ThinkFilter

__all__ = [
    "FAILURES",
    "Ask",
    "Done",
    "Form",
    "InputFile",
    "Item",
    "JsonSequenceDecoder",
    "LangGraphStream",
    "Note",
    "Parser",
    "Request",
    "ServerEvent",
    "ServiceFailure",
    "ServiceRunner",
    "Session",
    "Spent",
    "SseDecoder",
    "SseParser",
    "Task",
    "Text",
    "ThinkFilter",
    "ToolEnd",
    "ToolStart",
    "Turn",
    "Whole",
    "answer_to",
    "as_object",
    "asked",
    "decision_on",
    "messages_in",
    "number_in",
    "object_in",
    "question_of",
    "text_in",
    "text_of",
    "usage_of",
]
