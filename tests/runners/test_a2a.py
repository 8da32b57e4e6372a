"""What is A2A's own: cards, tasks that ask, versions of the protocol, and a stream that a library reads."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_a2a.card import card_url, choose_endpoint, key_header
from hostler_a2a.runner import A2A

from hostler_sdk.services import ServiceFailure
from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, logs
from support.services.a2a import (
    CONTEXT,
    KEY,
    TASK,
    FakeA2A,
    answered,
    answered_error,
    artifact,
    events,
    said,
    status,
    task,
)
from support.services.pausing import RUN, decision, go_on, pending
from support.services.pausing import answered as answer
from support.services.server import Answer, Hold

BEGUN = said({"task": task("SUBMITTED")})
DONE = said(status("COMPLETED"))


def settings(fake: FakeA2A, **config: Any) -> dict[str, Any]:
    return {"agent-card-url": fake.address, "api-key": KEY, **config}


async def ask(fake: FakeA2A, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any) -> Driven:
    driver = host or ScriptedHost()
    return await driver.drive(A2A, given, config=settings(fake, **config), context={"run_id": RUN})


# -- the stream --------------------------------------------------------------------------------------


async def test_the_stream_may_be_cut_at_every_byte() -> None:
    pieces = ["你好", "，世界", "！🙂 Grüße"]
    async with FakeA2A() as fake:
        whole = b"".join(fake.stream(pieces))
        fake.next(events(*[bytes([byte]) for byte in whole]))
        driven = await ask(fake)
        assert (driven.status, driven.text, deltas(driven)) == ("completed", "".join(pieces), pieces)


async def test_a_stream_that_ends_early_is_no_answer_wherever_it_does() -> None:
    async with FakeA2A() as fake:
        whole = b"".join(fake.stream(["One", " two"]))
        last = whole.index(b'"TASK_STATE_COMPLETED"')
        for place in (0, 1, whole.index(b"One"), whole.index(b"two") + 5, last, len(whole) - 5):
            fake.next(events(whole[:place]))
            driven = await ask(fake)
            assert (driven.code, driven.messages) == ("a2a.stream_broken", []), whole[:place][-40:]


async def test_artifacts_are_the_answer() -> None:
    async with FakeA2A() as fake:
        fake.next(
            events(
                BEGUN,
                said(status("WORKING", "looking it up")),
                said(artifact("Draft", "a")),
                said(artifact(" one", "a", append=True)),
                said(artifact("", "b", data={"度": 25})),
                said(artifact("Final", "a")),
                said(artifact("", "c", raw="AAE=", filename="图.png")),
                DONE,
            )
        )
        driven = await ask(fake)
        assert driven.text == 'Final\n\n{"度":25}'
        assert deltas(driven) == ["Draft", " one", "\n\n", '{"度":25}']
        assert "the agent is at work: looking it up" in logs(driven)
        assert "the agent sent a file, which is not passed on: 图.png" in logs(driven)


async def test_a_message_or_the_last_word_of_a_task_is_an_answer_too() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "contextId": CONTEXT, "parts": [{"text": "At once."}]}
    async with FakeA2A() as fake:
        fake.next(events(said({"message": message})))
        assert (await ask(fake)).text == "At once."
        fake.next(events(BEGUN, said(status("COMPLETED", "That is all."))))
        assert (await ask(fake)).text == "That is all."


@pytest.mark.parametrize("version", ["0.3.0", "0.2.6"])
async def test_an_agent_of_an_older_version(version: str) -> None:
    async with FakeA2A(version) as fake:
        fake.next(fake.good(["你", "好"]))
        driven = await ask(fake)
        if version == "0.2.6":
            assert driven.code in ("a2a.response_invalid", "a2a.service_error")  # said, not guessed at
            return
        assert (driven.text, deltas(driven)) == ("你好", ["你", "好"])


async def test_an_agent_that_does_not_stream() -> None:
    async with FakeA2A(streams=False) as fake:
        driven = await ask(fake)
        assert (driven.text, deltas(driven)) == ("ok", ["ok"])
        fake.next(answered({"task": task("WORKING")}))
        fake.looks = [task("WORKING", "Ro"), task("COMPLETED", "Rome")]
        assert (await ask(fake)).text == "Rome"


async def test_json_may_have_a_type_of_its_own() -> None:
    """As agents answer that speak HTTP+JSON."""
    async with FakeA2A(streams=False) as fake:
        whole = fake.good(["So."])
        fake.next(Answer(whole.body, content_type="application/a2a+json"))
        assert (await ask(fake)).text == "So."


# -- questions ---------------------------------------------------------------------------------------


async def test_a_task_that_needs_input_pauses_the_run_and_goes_on_with_the_answer() -> None:
    host = ScriptedHost()
    async with FakeA2A() as fake:
        fake.next(events(BEGUN, said(artifact("Two found.")), said(status("INPUT_REQUIRED", "哪个城市?"))))
        paused = await ask(fake, "Book", host)
        (call,) = pending(paused)
        assert (call.kind, call.title, paused.text) == ("question", "哪个城市?", "Two found.")
        driven = await go_on(A2A, settings(fake), paused, answer(call.call_id, "里斯本"), host=host)
        assert driven.text == "ok"
        first, second = fake.messages
        assert "taskId" not in first
        assert (second["taskId"], second["contextId"], second["parts"]) == (
            TASK,
            CONTEXT,
            [{"text": "里斯本"}],
        )
        assert first["messageId"] != second["messageId"]
        third = await ask(fake, "And now?", host)
        assert third.text == "ok"
        assert "taskId" not in fake.messages[2]


async def test_an_answer_is_not_sent_twice() -> None:
    host = ScriptedHost()
    async with FakeA2A() as fake:
        fake.next(events(BEGUN, said(status("INPUT_REQUIRED"))))
        paused = await ask(fake, "Book", host)
        (call,) = pending(paused)
        assert call.title == "The agent needs an answer to go on"
        said_so = answer(call.call_id, "there")
        assert (await go_on(A2A, settings(fake), paused, said_so, host=host)).text == "ok"
        driven = await go_on(A2A, settings(fake), paused, said_so, host=host, attempt=3)
        assert (driven.code, len(fake.messages)) == ("a2a.already_sent", 2)


@pytest.mark.parametrize("outcome", ["expired", "denied", "cancelled"])
async def test_a_task_that_gets_no_answer_is_cancelled(outcome: str) -> None:
    async with FakeA2A() as fake:
        fake.next(events(BEGUN, said(status("INPUT_REQUIRED", "Where?"))))
        paused = await ask(fake)
        driven = await go_on(A2A, settings(fake), paused, decision("answer", outcome))
        assert driven.code == "a2a.unanswered"
        assert (len(fake.messages), fake.stopped) == (1, [TASK])


async def test_a_task_that_is_gone_when_its_answer_comes() -> None:
    async with FakeA2A() as fake:
        fake.next(events(BEGUN, said(status("INPUT_REQUIRED", "Where?"))))
        paused = await ask(fake)
        fake.tasks.clear()
        driven = await go_on(A2A, settings(fake), paused, answer("answer", "there"))
        assert driven.error == ("the agent no longer has the task that had asked; ask again to begin anew")


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        ("FAILED", "a2a.service_error", "the agent's task failed: no fuel; look at it there"),
        ("REJECTED", "a2a.service_error", "the agent's task was rejected: no fuel; look at it there"),
        ("CANCELED", "a2a.service_error", "the agent's task was cancelled: no fuel; look at it there"),
        ("AUTH_REQUIRED", "a2a.auth_error", "the agent wants an authorization of its own: no fuel; "),
    ],
)
async def test_a_task_that_fails(state: str, code: str, text: str) -> None:
    async with FakeA2A() as fake:
        fake.next(events(BEGUN, said(status(state, "no fuel"))))
        driven = await ask(fake)
        assert driven.code == code
        assert text in str(driven.error)


async def test_errors_of_the_protocol() -> None:
    async with FakeA2A() as fake:
        for code, what in ((-32603, "service_error"), (-32005, "service_error"), (-32099, "service_error")):
            fake.next(answered_error(code, "it did not work"))
            driven = await ask(fake)
            assert driven.code == f"a2a.{what}"
            assert "it did not work" in str(driven.error)
        for body in (b"[1]", b'"x"', b'{"jsonrpc": "2.0", "id": 1}', b'{"error": 7}'):
            fake.next(Answer(body))
            assert (await ask(fake)).code == "a2a.response_invalid", body
        wrong = {"artifactUpdate": {"artifact": {"parts": "none"}}}
        fake.next(events(said(wrong)))
        assert (await ask(fake)).code == "a2a.response_invalid"


async def test_what_is_sent_whole_is_bounded_too() -> None:
    async with FakeA2A() as fake:
        lines = [b"data: " + b"x" * 65_536] * 17
        fake.next(Answer([*lines, Hold()]))
        driven = await ask(fake)
        assert driven.code == "a2a.answer_too_long"


# -- the card ----------------------------------------------------------------------------------------


async def test_a_key_does_not_follow_a_card_to_another_server() -> None:
    async with FakeA2A() as fake, FakeA2A() as other:
        fake.card = {"supportedInterfaces": [{"url": f"{other.base}/a2a", "protocolBinding": "JSONRPC"}]}
        driven = await ask(fake)
        assert driven.code == "a2a.config_invalid"
        assert f"{other.base}/a2a; if that is right, put it into config `endpoint`" in str(driven.error)
        assert other.asked == []
        fake.card["supportedInterfaces"][0]["protocolVersion"] = "1.0"
        assert (await ask(fake, endpoint=f"{other.base}/a2a")).text == "ok"
        assert [one.path for one in other.asked] == ["/a2a"]


async def test_a_key_is_sent_as_the_card_asks() -> None:
    scheme = {"apiKeySecurityScheme": {"location": "header", "name": "X-Agent-Key"}}
    async with FakeA2A() as fake:
        fake.key_header = "x-agent-key"
        fake.card = {"securitySchemes": {"key": scheme}}
        assert (await ask(fake)).text == "ok"
        assert "x-agent-key" not in fake.asked[0].headers  # the card is public
    assert key_header({"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X"}}}, "k") == {
        "X": "k"
    }
    assert key_header({"securitySchemes": {"key": 7, "other": {"type": "http"}}}, "k") == {
        "authorization": "Bearer k"
    }


async def test_a_whole_header_is_sent_for_the_card_too() -> None:
    async with FakeA2A() as fake:
        header = {"auth-header": f"Bearer {KEY}", "api-key": ""}
        driven = await ScriptedHost().drive(A2A, "Hi", config=settings(fake) | header)
        assert driven.text == "ok"
        assert [one.headers["authorization"] for one in fake.asked] == [f"Bearer {KEY}"] * 2


def test_where_a_card_is() -> None:
    assert card_url("https://a.example") == "https://a.example/.well-known/agent-card.json"
    assert card_url("https://a.example/agents/7.json") == "https://a.example/agents/7.json"


@pytest.mark.parametrize(
    "card",
    [
        {},
        {"supportedInterfaces": []},
        {"supportedInterfaces": [{"url": "grpc://x", "protocolBinding": "GRPC"}, 7, {"url": 1}]},
        {"url": "http://x", "preferredTransport": "GRPC"},
    ],
)
def test_a_card_without_an_address(card: dict[str, Any]) -> None:
    with pytest.raises(ServiceFailure) as caught:
        choose_endpoint(card, "http://x/card", "")
    assert caught.value.what == "response_invalid"


async def test_a_card_that_cannot_be_read() -> None:
    async with FakeA2A() as fake:
        fake.card = {"skills": "none"}
        driven = await ask(fake)
        assert driven.code == "a2a.response_invalid"
        assert "the agent's card cannot be read" in str(driven.error)
        assert fake.messages == []
