"""The runner: creates a thread, uploads the files, sends the message, and passes the answer on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hostler_deerflow.stream import DeerFlowStream
from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn, number_in, text_in
from hostler_sdk.services.http import ServiceHttp

SESSION = "thread_id"


class DeerFlow(ServiceRunner):
    """DeerFlow

    Answers with an agent of DeerFlow.
    """

    service = "deerflow"
    title = "DeerFlow"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        base = form.url("api-base", "http://127.0.0.1:2026")
        key, header = form.header("api-key"), form.header("auth-header")
        given = header or (f"Bearer {key}" if key else "")
        settings = _settings(turn)
        limit = form.whole("recursion-limit", 1000, 1, 100_000)
        text = await turn.text(form.text("base-prompt"))
        files = await turn.files()
        if wrong := [file.name for file in files if file.url is not None and file.kind != "image"]:
            raise ServiceFailure(
                "file_invalid", f"{wrong[0]:.200}: DeerFlow takes files as bytes, not by their address"
            )
        http = await turn.http(
            base,
            headers={"authorization": given} if given else {},
            secrets=[key, header, header.partition(" ")[2]],
            setting="api-base",
            key_setting="auth-header" if header else "api-key",
        )
        known = turn.session(SESSION)
        thread = known or await _created(http, turn)
        place = f"/api/langgraph/threads/{quote(thread, safe='')}"
        try:
            body = {
                "assistant_id": form.text("assistant-id") or "lead_agent",
                "input": {"messages": [await _message(http, thread, text, files)]},
                "stream_mode": ["values", "messages-tuple", "custom"],
                "on_disconnect": "cancel",
                "context": settings | {"thread_id": thread},
                "config": {
                    "recursion_limit": limit,
                    "configurable": settings | {"thread_id": thread} | turn.assets(),
                },
            }
            request = Request(f"{place}/runs/stream", json=body)
            await turn.send(http, request, DeerFlowStream(), stop=_stop(place))
            remove = Request(f"/api/threads/{quote(thread, safe='')}", method="DELETE", accepted=(200, 204))
            await turn.discard(http, remove)
        except ServiceFailure as failure:
            if known and failure.status == 404:
                raise await turn.lost_session(SESSION, failure) from None
            raise


def _settings(turn: Turn) -> dict[str, Any]:
    form = turn.form
    others = form.flag("subagent-enabled")
    settings: dict[str, Any] = {
        "thinking_enabled": form.flag("thinking-enabled"),
        "is_plan_mode": form.flag("plan-mode"),
        "subagent_enabled": others,
    }
    most = form.whole("max-concurrent-subagents", 3, 1, 100)
    if others:
        settings["max_concurrent_subagents"] = most
    if model := form.text("model-name"):
        settings["model_name"] = model
    return settings


async def _created(http: ServiceHttp, turn: Turn) -> str:
    """Create a thread, and return its id."""
    request = Request("/api/langgraph/threads", json={"metadata": {}}, accepted=(200, 201))
    thread = text_in(await http.json(request), "thread_id")
    if not thread:
        raise ServiceFailure("response_invalid", "DeerFlow created a thread and gave it no id")
    await turn.keep_session(SESSION, thread)
    return thread


async def _message(http: ServiceHttp, thread: str, text: str, files: list[InputFile]) -> dict[str, Any]:
    """Return the message. Files are uploaded: inside of it, the stream would repeat them."""
    pictures = [
        {"type": "image_url", "image_url": {"url": file.url}} for file in files if file.url is not None
    ]
    parts = [{"type": "text", "text": text}, *pictures]
    message: dict[str, Any] = {"role": "user", "content": parts if pictures else text}
    uploads = [("files", file) for file in files if file.url is None]
    if not uploads:
        return message
    answer = await http.json(Request(f"/api/threads/{quote(thread, safe='')}/uploads", files=uploads))
    taken = answer.get("files")
    listed = [one for one in taken if isinstance(one, dict)] if isinstance(taken, list) else []
    if answer.get("success") is False or len(listed) != len(uploads):
        said = text_in(answer, "message") or "it gives no reason"
        raise ServiceFailure("service_error", f"DeerFlow did not take all files: {said:.300}")
    named = [
        {
            "filename": text_in(one, "filename"),
            "size": number_in(one, "size") or len(file.data),
            "path": text_in(one, "virtual_path"),
            "status": "uploaded",
        }
        for one, (_, file) in zip(listed, uploads, strict=True)
    ]
    return message | {"additional_kwargs": {"files": named}}


def _stop(place: str) -> Any:
    def request(task: str, _: Mapping[str, str]) -> Request:
        return Request(f"{place}/runs/{quote(task, safe='')}/cancel", accepted=(200, 202, 204))

    return request
