"""What becomes of each kind of result, and how runs end."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.outcomes import (
    ActionRequest,
    ArtifactShown,
    ArtifactWrite,
    Ending,
    Paused,
    ResultWarning,
    StateWrite,
    Step,
    Stored,
    TranscriptWrite,
    Uploaded,
)
from hostler.domain.result_sequence import ResultStream
from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_RESULT_BYTES
from hostler_protocol.results import AgentRunResult
from support.grants import agent_of, event_of, grant_of

PENDING = {"tool_name": "t", "arguments": {"a": 1}, "kind": "approval"}
CONTINUING = msgspec.structs.replace(grant_of(), continuation=True)


def stream_of(**options: Any) -> ResultStream:
    return ResultStream(
        "r1", options.pop("grant", None) or grant_of(), artifact_id=lambda: "new-artifact", **options
    )


def result(kind: str, data: Any, *, usage: Usage | None = None) -> AgentRunResult:
    return AgentRunResult(
        run_id="r1", type=kind, sequence=1, data=msgspec.Raw(msgspec.json.encode(data)), usage=usage
    )


def said(text: str, message_id: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"message": message | ({"message_id": message_id} if message_id else {})}


def only(steps: list[Step]) -> Stored:
    (step,) = steps
    assert isinstance(step, Stored)
    return step


def dropped(steps: list[Step]) -> str:
    (step,) = steps
    assert isinstance(step, ResultWarning)
    return step.reason


def ending(stream: ResultStream) -> tuple[str, str | None]:
    assert isinstance(stream.outcome, Ending)
    return stream.outcome.status, stream.outcome.status_code


def test_a_delta_is_stored_as_it_came() -> None:
    stored = only(
        stream_of().receive(result("message.delta", {"chunk": {"role": "assistant", "content": "hé"}}))
    )
    assert stored.is_delta
    assert stored.body() == '{"data":{"chunk":{"role":"assistant","content":"hé"}}}'.encode()


def test_messages_without_an_id_get_one_that_is_free() -> None:
    stream = stream_of()
    ids = []
    for given in (None, "m2", None, None):
        stored = only(stream.receive(result("message.completed", said("x", given))))
        assert isinstance(stored.projection, TranscriptWrite)
        ids.append(msgspec.json.decode(stored.data)["message"]["message_id"])
    assert ids == ["m1", "m2", "m3", "m4"]


def test_the_final_message_enters_the_transcript_unless_it_is_complete_already() -> None:
    stream = stream_of()
    stream.receive(result("message.completed", said("x", "a")))
    assert only(stream.receive(result("run.completed", said("x", "a")))).projection is None
    fresh = only(stream_of().receive(result("run.completed", said("x"))))
    assert isinstance(fresh.projection, TranscriptWrite)
    assert fresh.projection.message.message_id == "m1"
    assert fresh.outcome == Ending("completed", finish_reason="stop")


def test_a_message_completed_twice_is_shown_but_not_written_twice() -> None:
    stream = stream_of()
    stream.receive(result("message.completed", said("x", "a")))
    stored, warned = stream.receive(result("message.completed", said("y", "a")))
    assert isinstance(stored, Stored)
    assert stored.projection is None
    assert isinstance(warned, ResultWarning)


def test_state_goes_to_the_scope_of_the_grant_and_nowhere_else() -> None:
    grant = grant_of()
    stream = stream_of(grant=grant)
    stored = only(
        stream.receive(result("state.updated", {"scope": "actor", "key": "k", "value": {"a": [None]}}))
    )
    assert stored.projection == StateWrite("actor", grant.state_keys["actor"], "k", '{"a":[null]}')
    alias = only(
        stream.receive(
            result("state.updated", {"scope": "conversation", "key": "conversation_id", "value": 1})
        )
    )
    assert isinstance(alias.projection, StateWrite)
    assert alias.projection.key == "external.conversation_id"
    closed = dropped(stream.receive(result("state.updated", {"scope": "runner", "key": "k", "value": 1})))
    assert "the agent's state policy does not open it" in closed
    nobody = stream_of(grant=grant_of(event=event_of(actor_id=None)))
    missing = dropped(nobody.receive(result("state.updated", {"scope": "actor", "key": "k", "value": 1})))
    assert "the event has no actor" in missing


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("message.delta", {"chunk": {"role": "assistant"}}, "content"),
        ("message.delta", {"chunk": {"role": "robot", "content": "x"}}, "robot"),
        ("message.completed", {"message": {"role": "assistant", "content": "x"}, "extra": 1}, "extra"),
        ("state.updated", {"scope": "actor", "key": "", "value": 1}, "key"),
        ("state.updated", {"scope": "actor", "key": "k", "value": "x" * 270_000}, "262,144"),
        ("state.updated", {"scope": "actor", "key": "k"}, "value"),
        ("log", {"level": "info", "text": "x" * 70_000}, "65536"),
        ("artifact.created", {"artifact_type": "file"}, "content_base64"),
        ("artifact.created", {"artifact_type": "file", "content_base64": "!"}, "base64"),
        ("artifact.created", {"artifact_type": "file", "artifact_id": "theirs"}, "uploaded"),
        (
            "artifact.created",
            {"artifact_type": "f", "artifact_id": "up", "content_base64": "AA=="},
            "artifact_id",
        ),
        ("artifact.created", {"artifact_type": "f", "content_base64": "AA==", "size_bytes": 2}, "size_bytes"),
        ("artifact.created", {"artifact_type": "f", "content_base64": "AA==", "sha256": "0" * 64}, "sha256"),
        ("attempt.started", {"attempt": 2, "cause": "x", "discard_after": 0}, "only the host"),
        ("interaction.requested", {"call_id": "c", "kind": "form", "title": "t"}, "only the host"),
        ("run.completed", {"finish_reason": 3}, "finish_reason"),
        ("acme.custom", [1], "JSON object"),
    ],
)
def test_an_invalid_result_is_dropped_with_field_and_reason(kind: str, data: Any, reason: str) -> None:
    stream = stream_of(uploads={"up": Uploaded(1, "0" * 64)})
    text = dropped(stream.receive(result(kind, data)))
    assert text.startswith(f"{kind} dropped: ")
    assert reason in text
    assert stream.state.sequence == 0
    assert not stream.is_over


def test_an_unknown_type_is_kept_and_warned_of_once() -> None:
    stream = stream_of()
    stored, warned = stream.receive(result("acme.custom", {"x": [1]}))
    assert isinstance(stored, Stored)
    assert stored.data == b'{"x":[1]}'
    assert isinstance(warned, ResultWarning)
    assert only(stream.receive(result("acme.custom", {}))).sequence == 2
    assert only(stream.end()).type == "run.completed"


def test_inline_content_leaves_the_result_and_the_host_says_what_it_is() -> None:
    content = b"\x00\x01bytes"
    data = {"artifact_type": "file", "name": "x.bin", "content_base64": base64.b64encode(content).decode()}
    stored = only(stream_of().receive(result("artifact.created", data)))
    assert isinstance(stored.projection, ArtifactWrite)
    assert stored.projection.content == content
    assert msgspec.json.decode(stored.data) == {
        "artifact_type": "file",
        "artifact_id": "new-artifact",
        "name": "x.bin",
        "size_bytes": 7,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_an_uploaded_artifact_is_announced_with_the_hosts_facts() -> None:
    uploads: dict[str, Uploaded] = {}
    stream = stream_of(uploads=uploads)
    uploads["up"] = Uploaded(12, "ab" * 32, "text/plain", "a.txt")
    stored = only(stream.receive(result("artifact.created", {"artifact_type": "file", "artifact_id": "up"})))
    assert stored.projection == ArtifactShown("up")
    data = msgspec.json.decode(stored.data)
    assert (data["size_bytes"], data["sha256"], data["name"]) == (12, "ab" * 32, "a.txt")


def test_an_action_is_recorded_whether_or_not_it_is_granted() -> None:
    granted = grant_of(agent=agent_of(resource_policy=ResourcePolicy(allowed_actions=["member.*"])))
    stored = only(stream_of(grant=granted).receive(result("action.requested", {"action": "member.mute"})))
    assert stored.projection == ActionRequest("member.mute", None, {})
    refused, warned = stream_of().receive(result("action.requested", {"action": "member.mute"}))
    assert isinstance(refused, Stored)
    assert isinstance(refused.projection, ActionRequest)
    assert "the agent's policy does not allow" in (refused.projection.refused or "")
    assert isinstance(warned, ResultWarning)


@pytest.mark.parametrize(
    ("results", "status", "code"),
    [
        ([], "failed", "runner.no_output"),
        ([("message.delta", {"chunk": {"role": "assistant", "content": "x"}})], "failed", "runner.no_output"),
        ([("log", {"level": "info", "text": "x"})], "failed", "runner.no_output"),
        ([("tool.call.started", {"tool_call_id": "t"})], "failed", "runner.no_output"),
        ([("message.completed", said("x"))], "completed", None),
        ([("state.updated", {"scope": "actor", "key": "k", "value": 1})], "completed", None),
        ([("acme.custom", {})], "completed", None),
        ([("run.completed", {})], "completed", None),
        ([("run.failed", {"code": "dify.timeout", "error": "x"})], "failed", "dify.timeout"),
        ([("run.failed", {"code": "no code at all", "error": "x"})], "failed", "runner.error"),
        ([("run.failed", {"code": "x"})], "failed", "runner.protocol"),
        ([("message.completed", said("x")), ("run.failed", {"error": "x"})], "failed", "runner.protocol"),
        ([("run.paused", {"pending": [PENDING]})], "failed", "runner.protocol"),
    ],
)
def test_how_a_run_ends_when_its_runner_is_done(
    results: list[tuple[str, Any]], status: str, code: str | None
) -> None:
    stream = stream_of()
    for kind, data in results:
        stream.receive(result(kind, data))
    stream.end()
    assert ending(stream) == (status, code)


def test_the_first_ending_wins_and_what_follows_is_ignored() -> None:
    stream = stream_of()
    stream.receive(result("run.completed", {}))
    assert stream.receive(result("run.failed", {"code": "x", "error": "y"})) == []
    assert stream.receive(result("message.completed", said("late"))) == []
    assert stream.fail("runner.crashed", "gone") == []
    assert ending(stream) == ("completed", None)
    assert stream.ignored == 2


@pytest.mark.parametrize(
    ("stop", "status", "code"),
    [("cancelled", "cancelled", "cancelled"), ("timeout", "timeout", "runner.timeout")],
)
def test_a_run_that_is_stopped_ends_as_stopped_however_it_goes_down(
    stop: Any, status: str, code: str
) -> None:
    def started() -> ResultStream:
        stream = stream_of()
        stream.stopping(stop, "why")
        return stream

    obeyed, ended, crashed, waited = started(), started(), started(), started()
    obeyed.receive(result("run.failed", {"code": "cancelled", "error": "CancelledError"}))
    ended.end()
    crashed.fail("runner.crashed", "gone")
    waited.stop(stop, "later")
    for stream in (obeyed, ended, crashed, waited):
        assert ending(stream) == (status, code)
        assert isinstance(stream.outcome, Ending)
        assert stream.outcome.error == "why"


def test_a_completion_within_the_grace_time_counts() -> None:
    stream = stream_of()
    stream.stopping("cancelled", "why")
    stream.receive(result("run.completed", said("just made it")))
    assert ending(stream) == ("completed", None)


def test_an_oversized_result_ends_the_run() -> None:
    stream = stream_of()
    stored = only(stream.receive(result("log", {"level": "info", "text": "x"}), MAX_RESULT_BYTES + 1))
    assert stored.type == "run.failed"
    assert ending(stream) == ("failed", "payload_too_large")


def test_a_run_whose_pause_is_not_kept_yet_can_still_be_stopped() -> None:
    stream = stream_of(grant=CONTINUING)
    stream.receive(result("run.paused", {"pending": [PENDING], "state": 1}))
    assert not stream.end(), "its runner has nothing more to say"
    stopped = only(stream.stop("timeout", "the deadline is over"))
    assert stopped.type == "run.failed"
    assert isinstance(stream.outcome, Ending)
    assert stream.outcome.status == "timeout"


def test_a_runner_that_handles_continuations_may_pause() -> None:
    stream = stream_of(grant=CONTINUING)
    stored = only(stream.receive(result("run.paused", {"pending": [PENDING], "state": {"s": 1}})))
    assert stored.type == "run.paused"
    assert isinstance(stored.outcome, Paused)
    assert stored.outcome.state == {"s": 1}
    assert stream.receive(result("message.completed", said("late"))) == []
    assert stream.end() == []


def test_usage_is_summed_and_what_is_unknown_stays_unknown() -> None:
    stream = stream_of()
    stream.receive(result("message.completed", said("x"), usage=Usage(input_tokens=2, total_tokens=5)))
    stream.receive(result("log", {"level": "info", "text": "x"}))
    stream.receive(result("run.completed", {}, usage=Usage(input_tokens=3)))
    assert stream.state.usage == Usage(input_tokens=5, total_tokens=5)


def test_a_result_of_several_lines_is_stored_on_one() -> None:
    raw = msgspec.Raw(b'{\n "level": "info",\r\n "text": "a\\nb" }')
    stored = only(stream_of().receive(AgentRunResult(run_id="r1", type="log", sequence=1, data=raw)))
    assert stored.body() == b'{"data":{"level":"info","text":"a\\nb"}}'


def test_text_that_is_no_utf8_never_reaches_the_journal() -> None:
    raw = msgspec.Raw(b'{"tool_call_id":"t","other":"\xff"}')
    text = dropped(
        stream_of().receive(AgentRunResult(run_id="r1", type="tool.call.started", sequence=1, data=raw))
    )
    assert "UTF-8" in text


@pytest.mark.parametrize("depth", [100, 200, 700, 950, 990, 995, 1000, 5000])
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("state.updated", '{"scope":"actor","key":"k","value":%s}'),
        ("artifact.created", '{"artifact_type":"f","content_base64":"","metadata":{"a":%s}}'),
        ("tool.call.started", '{"tool_call_id":"t","parameters":%s}'),
        ("tool.call.started", '{"tool_call_id":"t","unknown":%s}'),
        ("action.requested", '{"action":"group.mute","payload":{"a":%s}}'),
        ("acme.custom", '{"a":%s}\n'),
    ],
)
def test_nesting_is_bounded_long_before_a_decoder_gives_up(kind: str, payload: str, depth: int) -> None:
    data = (payload % ("[" * depth + "]" * depth)).encode()
    stream = stream_of()
    steps = stream.receive(AgentRunResult(run_id="r1", type=kind, sequence=1, data=msgspec.Raw(data)))
    assert isinstance(steps[0], Stored if depth <= 100 else ResultWarning)
    assert stream.state.sequence == (1 if depth <= 100 else 0)
