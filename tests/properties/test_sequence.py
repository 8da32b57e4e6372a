"""A run's result stream, whatever comes in whatever order."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.outcomes import (
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
from hostler.domain.result_sequence import MAX_WARNINGS_PER_RUN, ResultStream
from hostler_protocol.content import Usage
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.manifest import Capabilities
from hostler_protocol.results import RESULT_TYPES, TERMINAL_RESULTS, AgentRunResult, decode_data
from support.examples import examples
from support.grants import grant_of, manifest_of

GRANT = grant_of()
CONTINUING = grant_of(manifest=manifest_of(capabilities=Capabilities(continuation=True)))

message_ids = st.sampled_from([None, "m1", "m2", "own", "", "a\x00b"])
contents = st.one_of(st.text(max_size=20), st.just([{"type": "text", "text": "x"}]), st.integers())
messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": contents, "message_id": message_ids}
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
inline = st.sampled_from(["", base64.b64encode(b"bytes").decode(), "not base64!", "AAA"])
payloads: dict[str, st.SearchStrategy[Any]] = {
    "message.delta": st.fixed_dictionaries({"chunk": messages}),
    "message.completed": st.fixed_dictionaries({"message": messages}),
    "tool.call.started": st.fixed_dictionaries({"tool_call_id": st.just("t"), "parameters": json_values}),
    "tool.call.completed": st.fixed_dictionaries({"tool_call_id": st.just("t"), "result": json_values}),
    "artifact.created": st.fixed_dictionaries(
        {"artifact_type": st.sampled_from(["file", ""]), "metadata": st.just({"n": 2**70})},
        optional={
            "content_base64": inline,
            "artifact_id": st.sampled_from(["up", "foreign"]),
            "size_bytes": st.sampled_from([5, 6]),
        },
    ),
    "state.updated": st.fixed_dictionaries(
        {
            "scope": st.sampled_from(["conversation", "actor", "subject", "runner", "galaxy"]),
            "key": st.sampled_from(["k", "conversation_id", "", "x" * 300, "a\x00"]),
            "value": json_values,
        }
    ),
    "action.requested": st.fixed_dictionaries({"action": st.sampled_from(["group.mute", "rm"])}),
    "interaction.requested": st.just({"call_id": "c", "kind": "form", "title": "t"}),
    "log": st.fixed_dictionaries({"level": st.sampled_from(["info", "loud"]), "text": st.text(max_size=10)}),
    "run.paused": st.fixed_dictionaries(
        {"pending": st.sampled_from([[], [{"tool_name": "t", "arguments": {}, "kind": "approval"}]])}
    ),
    "attempt.started": st.just({"attempt": 9, "cause": "x", "discard_after": 0}),
    "run.completed": st.fixed_dictionaries({}, optional={"message": messages}),
    "run.failed": st.fixed_dictionaries(
        {
            "code": st.sampled_from(["runner.error", "cancelled", "Not a code!", ""]),
            "error": st.text(max_size=5),
        }
    ),
    "acme.custom": json_values,
    "": st.just({}),
}
assert set(RESULT_TYPES) <= set(payloads)


@st.composite
def results(draw: st.DrawFn) -> AgentRunResult:
    kind = draw(st.sampled_from(sorted(payloads)))
    data = (
        draw(st.one_of(payloads[kind], json_values)) if draw(st.integers(0, 9)) == 0 else draw(payloads[kind])
    )
    encoded = msgspec.json.encode(data)
    if draw(st.integers(0, 4)) == 0:
        encoded = msgspec.json.format(encoded, indent=2)
    if draw(st.integers(0, 19)) == 0:
        encoded = draw(st.sampled_from([b'{"text":"\xff"}', b"[" * 3000 + b"]" * 3000, b"null"]))
    return AgentRunResult(
        run_id=draw(st.sampled_from(["r1"] * 9 + ["other"])),
        type=kind,
        sequence=1,
        data=msgspec.Raw(encoded),
        usage=draw(st.sampled_from([None, Usage(input_tokens=2), Usage(output_tokens=3, total_tokens=3)])),
        timestamp=draw(st.sampled_from([None, 1.5])),
    )


plain_deltas = st.builds(
    lambda text: AgentRunResult(
        run_id="r1",
        type="message.delta",
        sequence=1,
        data=msgspec.Raw(msgspec.json.encode({"chunk": {"role": "assistant", "content": text}})),
    ),
    st.text(max_size=5),
)
hosts = st.sampled_from(["end", "end", "fail", "stopping", "timing", "stop", "timeout"])
scripts = st.lists(results() | hosts, max_size=25)


def play(stream: ResultStream, script: list[AgentRunResult | str]) -> list[Step]:
    steps: list[Step] = []
    for item in script:
        match item:
            case AgentRunResult():
                steps += stream.receive(item, len(bytes(item.data)))
            case "end":
                steps += stream.end()
            case "fail":
                steps += stream.fail("runner.crashed", "it died")
            case "stopping":
                stream.stopping("cancelled", "asked for")
            case "timing":
                stream.stopping("timeout", "too long")
            case "stop":
                steps += stream.stop("cancelled", "asked for")
            case "timeout":
                steps += stream.stop("timeout", "too long")
    return steps


@given(scripts, st.booleans())
@settings(max_examples=examples(200, 3_000), deadline=None)
def test_any_order_gives_one_gapless_sequence_and_at_most_one_ending(
    script: list[AgentRunResult | str], continues: bool
) -> None:
    stream = ResultStream(
        "r1",
        CONTINUING if continues else GRANT,
        uploads={"up": Uploaded(5, "0" * 64)},
    )
    steps = play(stream, script)
    over = stream.is_over
    steps += stream.end()

    stored = [step for step in steps if isinstance(step, Stored)]
    assert [one.sequence for one in stored] == list(range(1, len(stored) + 1))
    outcomes = [one for one in stored if one.outcome is not None]
    assert len(outcomes) == 1
    assert steps[-1] is outcomes[0], "nothing is stored or projected after the ending"
    assert stream.outcome is outcomes[0].outcome
    terminal = [one for one in stored if one.type in TERMINAL_RESULTS]
    if isinstance(stream.outcome, Paused):
        assert continues
        assert terminal == []
    else:
        assert terminal == outcomes
        _consistent(outcomes[0])
    assert stream.receive(_message("late"), 10) == []
    assert stream.end() == stream.fail("host.error", "y") == stream.stop("cancelled", "z") == []
    assert over or stream.outcome is not None


@given(scripts)
@settings(max_examples=examples(200, 3_000), deadline=None)
def test_what_is_stored_is_valid_and_what_it_projects_is_within_the_grant(
    script: list[AgentRunResult | str],
) -> None:
    stream = ResultStream("r1", GRANT, uploads={"up": Uploaded(5, "0" * 64)})
    steps = play(stream, script)
    said: list[str] = []
    for step in steps:
        if isinstance(step, ResultWarning):
            assert step.reason
            continue
        assert b"\n" not in step.body()
        assert set(msgspec.json.decode(step.body())) <= {"data", "usage", "timestamp"}
        assert b"content_base64" not in step.data or step.type not in RESULT_TYPES
        if step.type in RESULT_TYPES:
            decode_data(step.type, step.data)
        match step.projection:
            case TranscriptWrite(message=message):
                assert message.message_id
                said.append(message.message_id)
            case StateWrite(scope=scope, scope_key=key, value=value):
                assert GRANT.state_keys[scope] == key
                msgspec.json.decode(value)
            case ArtifactWrite(content=content, sha256=sha256):
                assert hashlib.sha256(content).hexdigest() == sha256
            case _:
                pass
    assert len(said) == len(set(said)), "a message enters the transcript once"


@given(st.lists(results() | plain_deltas, max_size=25))
@settings(max_examples=examples(100, 1_500), deadline=None)
def test_deltas_taken_many_at_once_are_stored_as_one_by_one(script: list[AgentRunResult]) -> None:
    arrived = [ResultArrived(each, len(bytes(each.data))) for each in script]
    one_by_one, together = (ResultStream("r1", GRANT, artifact_id=lambda: "new") for _ in range(2))
    expected = [_shown(step) for step in play(one_by_one, list(script))]
    found: list[Any] = []
    at = 0
    while at < len(arrived):
        if (deltas := together.receive_deltas(arrived, at)) is None:
            steps = together.receive(arrived[at].result, arrived[at].size)
            found += [_shown(step) for step in steps]
            at += 1
        else:
            bodies = deltas.bodies()
            found += [(n, "message.delta", body) for n, body in enumerate(bodies, deltas.first)]
            at += len(bodies)
    assert found == expected
    assert together.state == one_by_one.state
    assert together.outcome == one_by_one.outcome


@given(scripts)
@settings(max_examples=examples(100, 1_500), deadline=None)
def test_without_streaming_all_but_the_deltas_is_stored_as_with_it(
    script: list[AgentRunResult | str],
) -> None:
    quiet = msgspec.structs.replace(GRANT, streaming=False)
    told: list[Any] = []
    for grant in (GRANT, quiet):
        stream = ResultStream("r1", grant, artifact_id=lambda: "new")
        stored = [step for step in play(stream, list(script)) if isinstance(step, Stored)]
        assert [step.sequence for step in stored] == list(range(1, len(stored) + 1))
        kept = [(step.type, step.data, step.usage) for step in stored if not step.is_delta]
        told.append((kept, stream.outcome, stream.state.usage, stream.state.produced))
    assert told[0] == told[1]


def _shown(step: Step) -> Any:
    return (step.sequence, step.type, step.body()) if isinstance(step, Stored) else step


@given(scripts)
@settings(max_examples=examples(100, 1_500), deadline=None)
def test_cutting_a_run_into_attempts_keeps_one_sequence(script: list[AgentRunResult | str]) -> None:
    first = ResultStream("r1", GRANT)
    steps = play(first, script[: len(script) // 2])
    if first.is_over:
        return
    second = ResultStream("r1", GRANT, state=first.state)
    steps += second.attempt_started(2, "runner.crashed")
    steps += play(second, script[len(script) // 2 :])
    stored = [step for step in steps if isinstance(step, Stored)]
    assert [one.sequence for one in stored] == list(range(1, len(stored) + 1))
    started = next(one for one in stored if one.type == "attempt.started")
    kept = [
        one.sequence for one in stored if one.type == "message.completed" and one.sequence < started.sequence
    ]
    assert msgspec.json.decode(started.data)["discard_after"] == (kept[-1] if kept else 0)
    said = [
        one.projection.message.message_id for one in stored if isinstance(one.projection, TranscriptWrite)
    ]
    assert len(said) == len(set(said))


@given(st.lists(st.just("galaxy"), min_size=MAX_WARNINGS_PER_RUN + 1, max_size=MAX_WARNINGS_PER_RUN + 30))
@settings(max_examples=5, deadline=None)
def test_warnings_are_bounded_and_the_rest_is_counted(scopes: list[str]) -> None:
    stream = ResultStream("r1", GRANT)
    steps: list[Step] = []
    for scope in scopes:
        data = msgspec.json.encode({"scope": scope, "key": "k", "value": 1})
        steps += stream.receive(
            AgentRunResult(run_id="r1", type="state.updated", sequence=1, data=msgspec.Raw(data))
        )
    steps += stream.end()
    warnings = [step.reason for step in steps if isinstance(step, ResultWarning)]
    assert len(warnings) == MAX_WARNINGS_PER_RUN + 1
    assert warnings[-1].startswith(f"{len(scopes) - MAX_WARNINGS_PER_RUN} further warnings")


def _message(text: str) -> AgentRunResult:
    data = msgspec.json.encode({"message": {"role": "assistant", "content": text}})
    return AgentRunResult(run_id="r1", type="message.completed", sequence=1, data=msgspec.Raw(data))


def _consistent(last: Stored) -> None:
    ending = last.outcome
    assert isinstance(ending, Ending)
    data = msgspec.json.decode(last.data)
    if last.type == "run.completed":
        assert (ending.status, ending.status_code) == ("completed", None)
    else:
        assert ending.status in {"failed", "cancelled", "timeout"}
        assert ending.status_code == data["code"]
        assert {"cancelled": "cancelled", "timeout": "runner.timeout"}.get(
            ending.status, data["code"]
        ) == data["code"]
