"""What holds for the runner of every service, against a fake of it on a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import structs

from hostler_protocol.content import Usage
from hostler_sdk.services import Item, Parser, ServiceFailure
from hostler_sdk.services.limits import MAX_LINE_BYTES, MIB
from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, logs
from support.services.server import Answer, Hold, bystander, reply
from support.services.table import CASES, Case

CHINESE = ["你好", "，世界", "！🙂 Grüße"]
pytestmark = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@pytest.fixture
async def fake(case: Case) -> AsyncIterator[Any]:
    async with case.fake() as served:
        yield served


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def drive(
    case: Case, fake: Any, given: Any = "Hello", host: ScriptedHost | None = None, **more: Any
) -> Driven:
    config = {case.address: fake.address, **case.settings, **more.pop("config", {})}
    return await (host or ScriptedHost()).drive(case.runner, given, config=config, **more)


def failure(case: Case, what: str) -> tuple[str, str]:
    return "failed", f"{case.runner.service}.{what}"


def ending(driven: Driven) -> tuple[str, str | None]:
    return driven.status, driven.code


def all_text(driven: Driven) -> str:
    return repr([driven.results, driven.error])


async def test_it_streams_the_answer(case: Case, fake: Any) -> None:
    fake.next(fake.good(CHINESE))
    driven = await drive(case, fake)
    assert (driven.status, driven.text, deltas(driven)) == ("completed", "".join(CHINESE), CHINESE)
    assert [case.sent_text(message) for message in fake.messages] == ["Hello"]
    used = Usage(input_tokens=11, output_tokens=7, total_tokens=18)
    if case.name == "openai-responses":
        used = structs.replace(used, cached_tokens=3, reasoning_tokens=2)
    total = Usage(total_tokens=18) if case.name == "dify-workflow" else used
    assert driven.usage == (total if case.has_usage else None)
    assert driven.warnings == []


async def test_the_second_message_goes_to_the_same_conversation_there(case: Case, fake: Any) -> None:
    host = ScriptedHost()
    await drive(case, fake, host=host)
    kept = host.world.states["conversation"]
    if case.session is not None:
        assert kept["external." + case.session[0]][0] == case.session[1]
    assert (await drive(case, fake, "And now?", host)).text == "ok"
    sessions = [case.sent_session(message) for message in fake.messages]
    assert len(sessions) == 2
    if case.session is not None:
        assert sessions == [case.session[1] if case.begins_sessions else None, case.session[1]]
    else:  # the host's own id, or none at all
        assert sessions[0] == sessions[1]


async def test_a_run_without_a_conversation_leaves_none_there(case: Case, fake: Any) -> None:
    assert (await drive(case, fake, context={"conversation": None})).text == "ok"
    if case.begins_sessions:
        assert getattr(fake, "threads", set()) | getattr(fake, "sessions", set()) == set()


async def test_the_hosts_own_id_is_not_taken_for_the_services(case: Case, fake: Any) -> None:
    """A host puts it into the state until the runner does."""
    states = {"conversation": {"external.conversation_id": "conversation"}}
    assert (await drive(case, fake, states=states)).text == "ok"


PDF = {"file_base64": "AAEC/w==", "file_name": "图.pdf", "mime_type": "application/pdf"}


async def test_files_are_sent(case: Case, fake: Any) -> None:
    host = ScriptedHost()
    cat = host.world.artifacts.add(
        "r", b"\x89PNG", artifact_type="file", mime_type="image/png", name="cat.png"
    )
    given = {
        "text": "What is this?",
        "contents": [{"type": "text", "text": "What is this?"}, {"type": "file_base64", **PDF}],
        "attachments": [{"artifact_id": cat.artifact_id}],
    }
    driven = await drive(case, fake, given, host)
    if not case.has_files:
        assert ending(driven) == failure(case, "file_invalid")
        assert "图.pdf" in str(driven.error)
        assert fake.asked == []
        return
    assert driven.text == "ok"
    sent = {file.file_name: (file.content_type, file.data) for file in fake.uploads.values()}
    assert sent == {
        "图.pdf": ("application/pdf", b"\x00\x01\x02\xff"),
        case.image_name: ("image/png", b"\x89PNG"),
    }
    assert (await drive(case, fake, {"text": "", "attachments": given["attachments"]}, host)).text == "ok"


async def test_files_that_cannot_be_sent_are_refused_before_anything_is(case: Case, fake: Any) -> None:
    host = ScriptedHost()
    kept = host.world.artifacts
    large = kept.add("r", bytes(17 * MIB), artifact_type="file", name="large.bin").artifact_id
    half = kept.add("r", bytes(15 * MIB), artifact_type="file", name="half.bin").artifact_id
    for contents, why in [
        ([PDF | {"type": "file_base64", "file_base64": "no base64!"}], "图.pdf of the message is not valid"),
        ([{"type": "artifact", "artifact_id": "nowhere"}], "a file of the message cannot be read"),
        ([{"type": "artifact", "artifact_id": large}], "large.bin of the message has over 16 MiB"),
        ([{"type": "artifact", "artifact_id": half}] * 3, "have over 32 MiB together"),
        ([{"type": "artifact", "artifact_id": half}] * 11, "11 files; at most 10"),
    ]:
        driven = await drive(case, fake, {"text": "See", "contents": contents}, host)
        assert ending(driven) == failure(case, "file_invalid")
        assert why in str(driven.error)
    assert fake.asked == []


async def test_a_wrong_key_is_named_and_never_shown(case: Case, fake: Any) -> None:
    fake.key = "another"
    fake.expected = {"x-key": "another"}
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "auth_error")
    assert f"check config `{case.key}`" in str(driven.error)
    assert str(case.settings[case.key]) not in all_text(driven)


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (429, True), (500, True), (503, True)])
async def test_an_error_status_fails_the_run(case: Case, fake: Any, status: int, retryable: bool) -> None:
    secret = str(case.settings[case.key])
    fake.next(reply({"message": f"no, {secret}\n\x1b[1m is wrong"}, status))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "http_error")
    assert f"answered {status}: no, *** [1m is wrong; " in str(driven.error)
    assert driven.results[-1].data.retryable is retryable  # type: ignore[union-attr]


async def test_a_redirect_is_not_followed(case: Case, fake: Any) -> None:
    async with bystander() as (elsewhere, came):
        fake.next(Answer(status=302, headers={"Location": f"{elsewhere}?key=k"}))
        driven = await drive(case, fake)
        assert came == []
    assert ending(driven) == failure(case, "http_error")
    assert f"a redirect to {elsewhere}; put the right address into config `{case.address}`" in str(
        driven.error
    )


async def test_an_error_of_the_service_fails_the_run(case: Case, fake: Any) -> None:
    good = fake.stream(["Wait"])
    fake.next(Answer([*good[:-2], case.error_event], content_type=fake.good([]).content_type))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "service_error")
    assert str(case.settings[case.key]) not in all_text(driven)
    assert "***" in str(driven.error)
    assert getattr(fake, "stopped", []) == []  # its work is over


async def test_an_unknown_event_is_logged_and_no_more(case: Case, fake: Any) -> None:
    good = fake.stream(["ok"])
    fake.next(
        Answer([good[0], *[case.unknown_event] * 3, *good[1:]], content_type=fake.good([]).content_type)
    )
    driven = await drive(case, fake)
    assert driven.text == "ok"
    assert logs(driven).count("novelty") == 1


async def test_out_of_time(case: Case, fake: Any) -> None:
    good = fake.stream(["So", " slow"])
    fake.next(Answer([*good[:-2], Hold()], content_type=fake.good([]).content_type))
    driven = await drive(case, fake, config={"timeout": 1})
    assert ending(driven) == failure(case, "timeout")
    assert "raise config `timeout`" in str(driven.error)
    await fake.until(lambda: fake.disconnects == 1, "the request is not closed")
    assert getattr(fake, "stopped", []) == (["task-1"] if case.has_stop else [])


async def test_the_hosts_deadline_leaves_time_to_say_why(case: Case, fake: Any) -> None:
    fake.next(Answer([Hold()], content_type=fake.good([]).content_type))
    driven = await drive(case, fake, config={"timeout": 0}, seconds=2.0)
    assert ending(driven) == failure(case, "timeout")


async def test_a_cancelled_run_closes_its_request_and_stops_the_service(case: Case, fake: Any) -> None:
    good = fake.stream(["So", " slow"])
    fake.next(Answer([*good[:-2], Hold()], content_type=fake.good([]).content_type))
    driven = await drive(case, fake, cancel_on=lambda result: result.type == "message.delta")
    assert driven.status == "cancelled"
    assert driven.warnings == []
    await fake.until(lambda: fake.disconnects == 1, "the request is not closed")
    assert getattr(fake, "stopped", []) == (["task-1"] if case.has_stop else [])


@pytest.mark.parametrize("cut", [True, False], ids=["connection", "stream"])
async def test_a_broken_stream_fails_the_run(case: Case, fake: Any, cut: bool) -> None:
    good = fake.stream(["One", " two"])
    is_sse_workflow = case.name == "dify-workflow"
    part = good[:3] if is_sse_workflow or case.name.startswith(("coze", "n8n")) else good[:2]
    fake.next(Answer(part, content_type=fake.good([]).content_type, cut=cut))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "stream_broken")
    assert driven.messages == []
    assert driven.results[-1].data.retryable  # type: ignore[union-attr]


@pytest.mark.parametrize("pieces", [[], ["", " \n"]], ids=["nothing", "blank"])
async def test_an_empty_answer_fails_the_run(case: Case, fake: Any, pieces: list[str]) -> None:
    fake.next(fake.good(pieces))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "empty_answer")
    assert driven.messages == []


async def test_a_malformed_answer_fails_the_run(case: Case, fake: Any) -> None:
    kind = fake.good([]).content_type
    good = fake.stream(["ok"])
    bad = [b"data: {]}\n\n", b"data: [1]\n\n", b"data: \xff\xfe\n\n"] if case.is_events else [b"{]}", b"oops"]
    for piece in bad:
        fake.next(Answer([piece, *good], content_type=kind))
        driven = await drive(case, fake)
        assert ending(driven) == failure(case, "response_invalid"), piece
    for kind in ("text/html", ""):
        fake.next(Answer(b"<html>a login page</html>", content_type=kind))
        assert ending(await drive(case, fake)) == failure(case, "response_invalid")
    fake.next(Answer(b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "response_invalid")
    assert "as gzip, unasked" in str(driven.error)


async def test_what_a_service_sends_is_bounded(case: Case, fake: Any) -> None:
    kind = fake.good([]).content_type
    endless = [b'data: "', *[b"a" * 65536] * 17] if case.is_events else [b'{"a": "', *[b"a" * 65536] * 17]
    fake.next(Answer([*endless, Hold()], content_type=kind))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "answer_too_long")
    assert f"over {MAX_LINE_BYTES:,} bytes" in str(driven.error)
    fake.next(fake.good(["x" * 100_000] * 10))
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "answer_too_long")


async def test_nobody_there(case: Case, fake: Any) -> None:
    address = fake.address
    await fake.__aexit__(None, None, None)
    driven = await drive(case, fake)
    assert ending(driven) == failure(case, "unreachable")
    assert f"check config `{case.address}`, and whether it runs" in str(driven.error)
    assert address.split("/")[2] in str(driven.error)


async def test_thinking_is_removed_if_that_is_wanted(case: Case, fake: Any) -> None:
    pieces = ["<thi", "nk>I ", "wonder</th", "ink>\n\nYes", "."]
    fake.next(fake.good(pieces))
    driven = await drive(case, fake, config={"remove-think": True})
    assert (driven.text, "".join(deltas(driven))) == ("Yes.", "Yes.")
    fake.next(fake.good(pieces))
    assert (await drive(case, fake)).text == "".join(pieces)


async def test_settings_are_checked_before_anything_is_sent(case: Case, fake: Any) -> None:
    wrong: list[tuple[str, Any]] = [(name, "") for name in case.required]
    wrong += [
        (case.address, one)
        for one in ("ftp://x", "not an address", "http://u:p@x/", "http://x/#y", "http://x:y")
    ]
    wrong += [("timeout", "soon"), ("timeout", -1), ("remove-think", "yes"), (case.key, "a\nb")]
    for name, value in wrong:
        driven = await drive(case, fake, config={name: value})
        assert ending(driven) == failure(case, "config_invalid"), (name, value)
        assert f"config `{name}`" in str(driven.error)
    assert ending(await drive(case, fake, "")) == failure(case, "empty_input")
    assert fake.asked == []


async def test_an_interrupted_run_is_not_sent_twice(case: Case, fake: Any) -> None:
    host = ScriptedHost()
    again = {"run_id": "r1", "attempt": 2}
    assert (await drive(case, fake, host=host, context=again)).text == "ok"  # the first never got so far
    driven = await drive(case, fake, host=host, context=again)
    assert ending(driven) == failure(case, "already_sent")
    assert "It was not sent again" in str(driven.error)
    assert (await drive(case, fake, host=host, context={"run_id": "r2"})).text == "ok"
    nowhere = {"run_id": "r3", "attempt": 2, "conversation": None}
    driven = await drive(case, fake, host=host, context=nowhere)  # nothing could have noted it
    assert ending(driven) == failure(case, "already_sent")
    assert len(fake.messages) == 2


async def test_assets_are_an_input_of_the_service(case: Case, fake: Any) -> None:
    given = {"url": "http://host/mcp", "token": "run-token-0001", "expires_at": 1.0}
    context = {"runtime": {"metadata": {"assets": given}}}
    config = {"assets-enabled": True, "assets-input-name": "way_back"}
    driven = await drive(case, fake, config=config, context=context)
    assert driven.text == "ok"
    assert json.loads(case.sent_inputs(fake.messages[0])["way_back"]) == given
    fake.next(reply({"message": "no such token: run-token-0001"}, 400))
    driven = await drive(case, fake, config=config, context=context)
    assert "no such token: ***" in str(driven.error)
    assert "run-token-0001" not in all_text(driven)


# -- the parser: bytes in, items out ---------------------------------------------------------------


def items_of(parser: Parser, pieces: list[bytes]) -> list[Item]:
    found = [item for piece in pieces for item in parser.feed(piece)]
    return [*found, *parser.finish()]


def test_the_stream_may_be_cut_anywhere(case: Case) -> None:
    if case.parser is None:  # its own test sends the stream byte by byte
        return
    fake = case.fake()
    whole = b"".join(fake.stream(CHINESE))
    expected = items_of(case.parser(), [whole])
    for place in range(len(whole) + 1):
        assert items_of(case.parser(), [whole[:place], whole[place:]]) == expected, whole[:place][-40:]
    assert items_of(case.parser(), [bytes([byte]) for byte in whole]) == expected
    if case.is_events:
        for end in (b"\r\n", b"\r"):
            other = whole.replace(b"\n", end)
            assert items_of(case.parser(), [bytes([byte]) for byte in other]) == expected


def test_a_stream_that_ends_early_is_never_done(case: Case) -> None:
    """Whatever is missing of it: no half answer is taken for a whole one."""
    if case.parser is None:
        return
    fake = case.fake()
    writes = fake.stream(CHINESE)
    whole = b"".join(writes)
    if not case.last:
        assert not _is_done(case, whole)
        return
    done = next(n for n in range(1, len(whole) + 1) if _is_done(case, whole[:n]))
    last = whole[:done].decode(errors="ignore")
    assert case.last in last
    for place in range(1, done):
        assert not _is_done(case, whole[:place]), whole[:place][-60:]


def _is_done(case: Case, data: bytes) -> bool:
    assert case.parser is not None
    try:
        return "Done()" in map(repr, items_of(case.parser(), [data]))
    except ServiceFailure:
        return False


def test_every_runner_keeps_to_the_form_of_its_folder(case: Case) -> None:
    assert asyncio.iscoroutinefunction(case.runner.run)
    assert case.name.startswith(case.runner.service)
