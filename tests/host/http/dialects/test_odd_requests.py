"""Odd requests in every standard interface: honoured, or refused in words that help, before anything runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialects.players import player, playing, script
from support.http_host import OTHER, Served

SCAN = [{"type": "function", "function": {"name": "scan", "parameters": {"type": "object"}}}]
INTERFACES = ["chat", "responses", "ag-ui", "ai-sdk"]
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ag-ui": "/ag-ui/player",
    "ai-sdk": "/ai-sdk/player",
}
TEXTS: dict[str, Any] = {
    "chat": lambda text: {"type": "text", "text": text},
    "responses": lambda text: {"type": "input_text", "text": text},
    "ag-ui": lambda text: {"type": "text", "text": text},
    "ai-sdk": lambda text: {"type": "text", "text": text},
}
LINKS: dict[str, Any] = {
    "chat": lambda url: {"type": "image_url", "image_url": {"url": url}},
    "responses": lambda url: {"type": "input_file", "file_url": url},
    "ag-ui": lambda url: {"type": "document", "source": {"type": "url", "value": url}},
    "ai-sdk": lambda url: {"type": "file", "url": url, "mediaType": "text/plain"},
}
OURS: dict[str, Any] = {
    "chat": lambda name: {"type": "file", "file": {"file_id": name}},
    "responses": lambda name: {"type": "input_file", "file_id": name},
    "ag-ui": lambda name: {
        "type": "document",
        "source": {"type": "file", "provider": "hostler", "value": name},
    },
    "ai-sdk": lambda name: {
        "type": "file",
        "url": f"/v1/artifacts/{name}/content",
        "mediaType": "text/plain",
    },
}
WRONG_HEADERS = [
    *((name, {"hostler-on-disconnect": "sometimes"}) for name in INTERFACES),
    ("chat", {"hostler-on-pause": "perhaps"}),
    ("chat", {"last-event-id": "-1"}),
    ("ag-ui", {"last-event-id": "x"}),
]


def body_of(interface: str, *parts: Any, place: str = "p") -> dict[str, Any]:
    """A request with one message of these parts."""
    match interface:
        case "chat":
            return {
                "model": "player",
                "messages": [{"role": "user", "content": list(parts)}],
                "stream": True,
                "metadata": {"conversation_id": place},
            }
        case "responses":
            said = [{"role": "user", "content": list(parts)}]
            return {"model": "player", "input": said, "stream": True, "conversation": place}
        case "ag-ui":
            said = [{"id": "m", "role": "user", "content": list(parts)}]
            return {"threadId": place, "runId": "r", "messages": said}
    return {"id": place, "messages": [{"id": "m", "role": "user", "parts": list(parts)}]}


async def send(
    served: Served, interface: str, body: Any, client: httpx.AsyncClient | None = None, **headers: str
) -> httpx.Response:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return await (client or served.client).post(PATHS[interface], json=body, headers=found)


async def runs_of(served: Served) -> int:
    return len((await served.client.get("/v1/runs")).json()["items"])


async def test_a_refused_request_has_started_nothing(tmp_path: Path) -> None:
    """A client that is refused corrects itself and sends it again: that must not be the second run."""
    async with playing(tmp_path / "data") as served:
        for interface, headers in WRONG_HEADERS:
            body = body_of(interface, TEXTS[interface]("hi"))
            answer = await served.client.post(PATHS[interface], json=body, headers=headers)
            assert answer.status_code == 400, (interface, headers, answer.text)
            assert next(iter(headers)) in answer.text.lower(), answer.text
        sender = await served.key("default", "events:write", "runs:read")
        async with served.as_key(sender) as client:  # it may not cancel
            for interface in INTERFACES:
                body = body_of(interface, TEXTS[interface]("hi"))
                answer = await send(served, interface, body, client, hostler_on_disconnect="cancel")
                assert answer.status_code == 403, (interface, answer.text)
        assert await runs_of(served) == 0


@pytest.mark.parametrize("interface", INTERFACES)
async def test_files_have_addresses_of_the_web_and_ids_of_artifacts_that_are_there(
    tmp_path: Path, interface: str
) -> None:
    text = TEXTS[interface]("hi")
    async with playing(tmp_path / "data") as served:
        for url in ("file:///etc/passwd", "ftp://x/y", "javascript:1", "/etc/passwd", "http:x"):
            answer = await send(served, interface, body_of(interface, LINKS[interface](url), text))
            assert answer.status_code == 400, (url, answer.text)
            assert "http or https" in answer.text
        async with served.as_key(await served.key(OTHER)) as neighbour:
            made = await neighbour.post("/v1/artifacts?name=a.txt", content=b"theirs")
        for name in ("file-abc123", made.json()["artifact_id"]):
            answer = await send(served, interface, body_of(interface, OURS[interface](name), text))
            assert answer.status_code == 404, (name, answer.text)
            assert f"no artifact '{name}'" in answer.text
        assert await runs_of(served) == 0
        own = (await served.client.post("/v1/artifacts?name=a.txt", content=b"ours")).json()["artifact_id"]
        for part in (OURS[interface](own), LINKS[interface]("HTTPS://example.org/a.txt")):
            place = json.dumps(part)
            answer = await send(
                served, interface, body_of(interface, part, TEXTS[interface](script(["seen"])), place=place)
            )
            assert answer.status_code == 200, answer.text
            assert own in answer.text or "example.org" in answer.text


async def test_a_message_whose_file_has_expired_since_is_still_the_same_run(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        own = (await served.client.post("/v1/artifacts?name=a.txt", content=b"ours")).json()["artifact_id"]
        body = body_of("responses", OURS["responses"](own), TEXTS["responses"]("hi"))
        first = await send(served, "responses", body, idempotency_key="k")
        assert (await served.client.delete(f"/v1/artifacts/{own}")).is_success
        assert (await send(served, "responses", body, idempotency_key="k")).text == first.text
        assert await runs_of(served) == 1


@pytest.mark.parametrize("interface", ["chat", "responses"])
async def test_a_key_that_was_used_for_another_request_is_named(tmp_path: Path, interface: str) -> None:
    async with playing(tmp_path / "data") as served:
        texts = [body_of(interface, TEXTS[interface](text)) for text in ("one", "two")]
        assert (await send(served, interface, texts[0], idempotency_key="k")).status_code == 200
        refused = await send(served, interface, texts[1], idempotency_key="k")
        assert refused.status_code == 422
        assert "Idempotency-Key" in refused.json()["error"]["message"]
        assert await runs_of(served) == 1


@pytest.mark.parametrize("cursor", [5, 100_000])
async def test_a_cursor_after_the_end_is_an_error_and_no_silence(tmp_path: Path, cursor: int) -> None:
    """`cursor` counts from the end; the end itself is no error."""
    async with playing(tmp_path / "data") as served:
        chat = await send(served, "chat", body_of("chat", TEXTS["chat"]("hi")), idempotency_key="k")
        name = json.loads(chat.text.split("data: ")[1].splitlines()[0])["id"]
        number = chat.text.count("\n\n")
        for after, expected in ((number, ""), (number + cursor, f"has {number + cursor} events")):
            rest = await served.client.get(
                f"/v1/chat/completions/{name}?stream=true", headers={"last-event-id": str(after)}
            )
            assert expected in rest.text
            assert bool(rest.text) == bool(expected), rest.text
        whole = await send(served, "responses", body_of("responses", TEXTS["responses"]("hi")))
        name = json.loads(whole.text.split("data: ")[1].splitlines()[0])["response"]["id"]
        number = whole.text.count("\n\n")
        for after, expected in ((number - 1, ""), (number - 1 + cursor, '"type":"error"')):
            rest = await served.client.get(f"/v1/responses/{name}?stream=true&starting_after={after}")
            assert expected in rest.text
            assert bool(rest.text) == bool(expected), rest.text
        ag_ui = await send(served, "ag-ui", body_of("ag-ui", TEXTS["ag-ui"]("hi")))
        number = ag_ui.text.count("\n\n")
        again = await send(
            served, "ag-ui", body_of("ag-ui", TEXTS["ag-ui"]("hi")), last_event_id=str(number + cursor)
        )
        assert '"type":"RUN_ERROR"' in again.text


NUL_BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/responses", {"model": "a\0", "input": "x"}),
    ("/v1/responses", {"model": "player", "input": "x", "previous_response_id": "resp_a\0"}),
    ("/v1/responses", {"model": "player", "input": "x", "conversation": "a\0"}),
    *(
        ("/v1/responses", {"model": "player", "input": [item]})
        for item in (
            {"type": "function_call_output", "call_id": "call_a\0_b", "output": "x"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_a\0_b_c", "approve": True},
            {"role": "user", "content": [{"type": "input_file", "file_id": "a\0"}]},
        )
    ),
    *(
        ("/v1/chat/completions", {"model": "player", "messages": [message]})
        for message in (
            {"role": "tool", "tool_call_id": "call_a\0_b", "content": "x"},
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "a\0"}}]},
        )
    ),
    (
        "/v1/chat/completions",
        {
            "model": "player",
            "messages": [{"role": "user", "content": "x"}],
            "metadata": {"conversation_id": "\0"},
        },
    ),
    (
        "/ag-ui/player",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "tool", "toolCallId": "call_\0_b"}]},
    ),
    (
        "/ag-ui/player",
        {"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "call_\0_b.c"}]},
    ),
    (
        "/ai-sdk/player",
        {"id": "a\0", "messages": [{"id": "m", "role": "user", "parts": [TEXTS["ai-sdk"]("x")]}]},
    ),
    (
        "/ai-sdk/player",
        {
            "id": "a",
            "trigger": "regenerate-message",
            "messageId": "msg_\0",
            "messages": [{"id": "m", "role": "user", "parts": [TEXTS["ai-sdk"]("x")]}],
        },
    ),
    (
        "/ai-sdk/player",
        {
            "id": "a",
            "messages": [
                {
                    "id": "m",
                    "role": "assistant",
                    "parts": [{"approval": {"id": "call_\0_b", "approved": True}}],
                }
            ],
        },
    ),
    ("/ai-sdk/player", body_of("ai-sdk", OURS["ai-sdk"]("%00"), TEXTS["ai-sdk"]("x"))),
]
"""An id with NUL at every place of a body that has one. PostgreSQL stores none, and looks for none."""


@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_an_id_with_nul_is_the_clients_mistake_on_every_database(
    tmp_path: Path, database_url: str
) -> None:
    async with playing(tmp_path / "data", database=database_url) as served:
        token = (
            await served.client.post("/v1/tokens", json={"agent": "player", "conversation_id": "p"})
        ).json()
        async with served.as_key(token["token"]) as page:
            for path, body in NUL_BODIES:
                for client in (served.client, page):
                    answer = await client.post(path, json=body)
                    failed = answer.status_code in (400, 404) or "RUN_ERROR" in answer.text
                    assert failed, (path, body, answer.text)
                    assert "database" not in answer.text, answer.text
        assert await runs_of(served) == 0


async def test_results_go_to_the_model_that_asked(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        await player(served, "second")
        text = script(["tool", "scan", {"a": 1}, "x"])
        said = {"role": "user", "content": text}
        asked = (
            await served.client.post(
                "/v1/chat/completions", json={"model": "player", "messages": [said], "tools": SCAN}
            )
        ).json()["choices"][0]["message"]
        call_id = asked["tool_calls"][0]["id"]
        result = {"role": "tool", "tool_call_id": call_id, "content": "done"}
        output = {"type": "function_call_output", "call_id": call_id, "output": "done"}
        for model in ("second", "nobody"):
            for path, body in (
                ("/v1/responses", {"model": model, "input": [output]}),
                *(
                    [("/v1/chat/completions", {"model": "second", "messages": [said, asked, result]})]
                    if model == "second"
                    else []
                ),
            ):
                refused = await served.client.post(path, json=body)
                assert refused.status_code == 409, refused.text
                assert refused.json()["error"]["param"] == "model"
                assert "'player'" in refused.json()["error"]["message"]
        done = await served.client.post("/v1/responses", json={"model": "player", "input": [output]})
        assert done.status_code == 200
        assert "scan: " in done.text


async def test_a_body_that_is_compressed_or_has_odd_types_is_refused_in_words(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        for interface in INTERFACES:
            whole = json.dumps(body_of(interface, TEXTS[interface]("hi"))).encode()
            packed = await served.client.post(
                PATHS[interface],
                content=gzip.compress(whole),
                headers={"content-type": "application/json", "content-encoding": "gzip"},
            )
            assert packed.status_code == 415, packed.text
            assert "Content-Encoding" in packed.text
        for field, value in {
            "text": {"format": "json"},
            "input": [{"type": ["x"]}],
            "store": False,
        }.items():
            body = {"model": "player", "input": "x", "conversation": "c", field: value}
            answer = await served.client.post("/v1/responses", json=body)
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"].startswith(field if field != "input" else "input[0]")
        for part in ({"type": "text", "text": ""}, {"type": "data-x", "data": 1}):
            answer = await send(served, "ai-sdk", body_of("ai-sdk", part))
            assert (answer.status_code, "is empty" in answer.text) == (400, True), answer.text
        assert await runs_of(served) == 0


async def test_a_kind_that_is_not_taken_is_answered_with_those_that_are(tmp_path: Path) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    video = {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}
    async with playing(tmp_path / "data") as served:
        for path, body, words in (
            (
                PATHS["chat"],
                {"model": "player", "messages": [{"role": "function"}]},
                ["role", "user", "tool"],
            ),
            (PATHS["chat"], body_of("chat", video), ["type", "image_url", "input_audio", "file"]),
            (PATHS["responses"], body_of("responses", sound), ["type", "input_text", "input_file"]),
        ):
            refused = await served.client.post(path, json=body)
            assert refused.status_code == 400
            error = refused.json()["error"]
            assert error["param"].endswith(words[0])
            assert "expected one of" in error["message"]
            assert all(word in error["message"] for word in words), error


async def test_a_reference_needs_the_conversation_that_it_is_of(tmp_path: Path) -> None:
    """A client that leaves its earlier messages to the host, but names no conversation, would lose them."""
    async with playing(tmp_path / "data") as served:
        first = (await served.client.post("/v1/responses", json={"model": "player", "input": "hi"})).json()
        items = [
            {"type": "item_reference", "id": first["output"][0]["id"]},
            {"role": "user", "content": "and?"},
        ]
        body = {"model": "player", "input": items}
        refused = await served.client.post("/v1/responses", json=body)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "input[0]"
        went_on = await served.client.post(
            "/v1/responses", json={**body, "previous_response_id": first["id"]}
        )
        assert went_on.json()["output"][0]["content"][0]["text"] == "you said: and?"


async def test_what_a_request_names_is_of_the_conversation_that_it_names(tmp_path: Path) -> None:
    """A server that lets its users into their own conversations alone has only these ids to go by."""
    async with playing(tmp_path / "data") as served:
        text = script(["say", "secret"], ["tool", "player.order", {"thing": "tea"}, "x"])
        theirs = await send(served, "ai-sdk", body_of("ai-sdk", TEXTS["ai-sdk"](text), place="theirs"))
        name = json.loads(theirs.text.split("data: ")[1])["messageId"]
        assert "secret" in theirs.text
        pause = (await served.client.get("/v1/pauses")).json()["items"][0]
        call = pause["calls"][0]
        call_id = f"call_{pause['run_id']}_{call['call_id']}"
        part = {
            "type": "dynamic-tool",
            "input": {"thing": "tea"},
            "approval": {"id": call_id, "approved": True},
        }
        approved = {"messages": [{"id": name, "role": "assistant", "parts": [part]}]}
        again = body_of("ai-sdk", TEXTS["ai-sdk"]("x")) | {"trigger": "regenerate-message", "messageId": name}
        asked = f"mcpr_{pause['run_id']}_{call['args_hash']}_{call['call_id']}"
        decision = {"type": "mcp_approval_response", "approval_request_id": asked, "approve": True}
        result = {"role": "tool", "tool_call_id": call_id, "content": "done"}
        for path, body in (
            (PATHS["ai-sdk"], {"id": "mine", **approved}),
            (PATHS["ai-sdk"], {**again, "id": "mine"}),
            (PATHS["responses"], {"model": "player", "input": [decision], "conversation": "mine"}),
            (
                PATHS["chat"],
                {"model": "player", "messages": [result], "metadata": {"conversation_id": "mine"}},
            ),
        ):
            refused = await served.client.post(path, json=body)
            assert refused.status_code == 404, (path, refused.text)
            assert "secret" not in refused.text
        shown = await served.client.get(f"/ai-sdk/player/mine/stream?message_id={name}")
        assert (shown.status_code, "secret" in shown.text) == (404, False)
        assert (await served.client.get("/v1/pauses?status=open")).json()["items"]
        assert await runs_of(served) == 1
        shown = await served.client.get(f"/ai-sdk/player/theirs/stream?message_id={name}")
        assert "secret" in shown.text
        done = await send(served, "ai-sdk", {"id": "theirs", **approved})
        assert "ordered 1 tea" in done.text


@pytest.mark.gate("http-bounds")
async def test_a_body_full_of_mistakes_is_answered_in_few_words(tmp_path: Path) -> None:
    """The answer repeats neither megabytes nor thousands of mistakes: finding all took a minute."""
    many = {f"k{number}": 1 for number in range(100_000)}
    async with playing(tmp_path / "data") as served:
        for path, body in (
            ("/v1/responses", {"model": "player", "input": "x", **many}),
            ("/v1/events", {"event_type": "message.received", **many}),
            ("/v1/responses", {"model": 1, "input": [{}] * 500_000}),
            ("/v1/responses", {"model": "player", "input": "x", "k" * 1_000_000: 1}),
            ("/v1/responses", {"model": "player", "input": "x", "k" * 1_000_000: 1, "j" * 1_000_000: 1}),
            ("/v1/responses", {"model": "player", "input": "x", "truncation": "k" * 1_000_000}),
            ("/v1/responses", {"model": "player", "input": "x", "tools": [{"name": "a"}] * 100_000}),
            ("/v1/chat/completions", {"model": "player", "messages": [{"role": "k" * 1_000_000}]}),
            ("/v1/chat/completions", {"model": "player", "messages": [1] * 500_000}),
            (
                PATHS["ai-sdk"],
                {"id": "a", "messages": [{"id": "m", "role": "user", "parts": [{}] * 500_000}]},
            ),
        ):
            answer = await served.client.post(path, json=body)
            assert answer.status_code == 400, answer.text[:300]
            assert len(answer.content) < 40_000
