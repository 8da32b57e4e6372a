"""The runner: creates a thread, sends the message or the decisions, and passes the answer on."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from hostler_langgraph.interrupts import resumed_by
from hostler_langgraph.stream import MESSAGES, GraphStream
from hostler_sdk.services import (
    Done,
    InputFile,
    Item,
    Note,
    Request,
    ServiceFailure,
    ServiceRunner,
    Turn,
    text_in,
)
from hostler_sdk.services.answer import Answer
from hostler_sdk.services.http import ServiceHttp

SESSION = "thread_id"
LOOKS_SECONDS = (0.0, 0.5, 1.0, 2.0)
"""Waits before looks at a run whose stream has ended: the server may be about to note its end."""


class LangGraph(ServiceRunner):
    """LangGraph server

    Answers with a graph on a LangGraph server.
    """

    service = "langgraph"
    title = "the LangGraph server"

    async def serve(self, turn: Turn) -> None:
        """Serve one message, or go on with what people decided."""
        form = turn.form
        base = form.url("base-url", "http://localhost:2024")
        key, header = form.header("api-key"), form.header("auth-header")
        output = form.text("output-key") or MESSAGES
        body = _settings(turn)
        question = turn.question
        if question is None:
            body["input"] = await _input(turn)
        else:
            body["command"] = {"resume": resumed_by(question.get("interrupts") or [], turn.decisions)}
        headers = ({"x-api-key": key} if key else {}) | ({"authorization": header} if header else {})
        http = await turn.http(
            base,
            headers=headers,
            secrets=[key, header, header.partition(" ")[2]],
            key_setting="auth-header" if header and not key else "api-key",
        )
        known = question.get(SESSION) if question else turn.session(SESSION)
        thread = known if isinstance(known, str) and known else await _created(http, turn)
        place = f"/threads/{quote(thread, safe='')}"
        try:
            await turn.send(
                http,
                Request(f"{place}/runs/stream", json=body),
                GraphStream(thread, output),
                stop=_stop(place),
                settle=_settle(http, place),
            )
        except ServiceFailure as failure:
            if known and failure.status == 404:
                raise await turn.lost_session(SESSION, failure) from None
            raise
        await turn.discard(http, Request(place, method="DELETE", accepted=(200, 204)))


def _settings(turn: Turn) -> dict[str, Any]:
    form = turn.form
    assistant = form.required("assistant-id", "it is the name of a graph in langgraph.json, or an id")
    config: dict[str, Any] = {"configurable": form.object("configurable") | turn.assets()}
    if limit := form.whole("recursion-limit", 0, 0, 100_000):
        config["recursion_limit"] = limit
    return {
        "assistant_id": assistant,
        "config": config,
        "stream_mode": ["updates", "messages-tuple", "custom"],
        "on_disconnect": "cancel",
    }


async def _input(turn: Turn) -> dict[str, Any]:
    text = await turn.text(turn.form.text("base-prompt"))
    files = await turn.files()
    key = turn.form.text("input-key") or MESSAGES
    if key != MESSAGES:
        if files:
            raise ServiceFailure(
                "file_invalid", f"{files[0].name:.200}: files are sent only if config `input-key` is messages"
            )
        return {key: text}
    parts = [_part(file) for file in files]
    content = [{"type": "text", "text": text}, *parts] if parts else text
    return {MESSAGES: [{"role": "user", "content": content}]}


def _part(file: InputFile) -> dict[str, Any]:
    """Return a file as a content block of LangChain."""
    data = base64.b64encode(file.data).decode()
    if file.kind == "image":
        url = file.url or f"data:{file.mime_type};base64,{data}"
        return {"type": "image_url", "image_url": {"url": url}}
    where = {"url": file.url} if file.url is not None else {"base64": data}
    return {"type": "file", "mime_type": file.mime_type, "extras": {"filename": file.name}, **where}


async def _created(http: ServiceHttp, turn: Turn) -> str:
    """Create a thread, and return its id."""
    thread = text_in(await http.json(Request("/threads", json={})), "thread_id")
    if not thread:
        raise ServiceFailure("response_invalid", "the LangGraph server created a thread and gave it no id")
    await turn.keep_session(SESSION, thread)
    return thread


def _settle(http: ServiceHttp, place: str) -> Any:
    """Newer servers end a stream without an event for it, so they are asked what became of the run."""

    async def settle(answer: Answer) -> Iterable[Item]:
        path = f"{place}/runs/{quote(answer.task or '', safe='')}"
        for wait in LOOKS_SECONDS if answer.task else ():
            await asyncio.sleep(wait)
            try:
                status = text_in(await http.json(Request(path, method="GET")), "status")
            except ServiceFailure as failure:
                return [Note(f"it is not known what became of the run: {failure.text}", "warning")]
            if status == "success":
                return [Done()]
            if status not in ("pending", "running"):
                return [Note(f"the run ended there as {status:.60}", "warning")]
        return []

    return settle


def _stop(place: str) -> Any:
    def request(task: str, _: Mapping[str, str]) -> Request:
        return Request(f"{place}/runs/{quote(task, safe='')}/cancel", accepted=(200, 202, 204))

    return request
