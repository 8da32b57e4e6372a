"""Payloads of results: what is stored of them, and why one is dropped."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
import pytest

from hostler.domain.grants import Grant
from hostler.domain.outcomes import ArtifactShown, ArtifactWrite, Uploaded
from hostler.domain.payloads import artifact_of, one_line, plain_deltas, state_write_of, unknown_payload
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import MAX_INLINE_ARTIFACT_BYTES, MAX_JSON_DEPTH, MAX_RESULT_BYTES
from hostler_protocol.results import AgentRunResult, ArtifactCreated, StateUpdated

GRANT = Grant(
    workspace_id="w",
    agent_id="a",
    agent_version=1,
    runner_id="plugin:acme/echo/default",
    owner="acme/echo",
    state_keys={"conversation": "key of c"},
    state_closed={"actor": "the event has no actor"},
)
DATA = base64.b64encode(b"abc").decode()
SHA256 = hashlib.sha256(b"abc").hexdigest()
UPLOADS = {"up1": Uploaded(3, SHA256, "text/plain", "a.txt")}


def arrived(data: bytes, **fields: Any) -> ResultArrived:
    size = fields.pop("size", len(data))
    named = {"run_id": "r1", "type": "message.delta", "sequence": 1, "data": msgspec.Raw(data), **fields}
    return ResultArrived(AgentRunResult(**named), size)


def test_payloads_are_utf_8_on_one_line_and_not_too_deep() -> None:
    assert one_line(b'{"a": 1}') == b'{"a": 1}'
    assert one_line(b'{\n"a":\r\n1}') == b'{"a":1}'
    deepest, deeper = (b"[" * depth + b"0" + b"]" * depth for depth in (MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1))
    assert one_line(deepest) == deepest
    for bad in (b'{"a": "\xff"}', deeper):
        with pytest.raises(InvalidArgumentError):
            one_line(bad)
    assert unknown_payload(b'{"x":1}') == b'{"x":1}'
    for bad in (b"[1]", b"{", b"null"):
        with pytest.raises(InvalidArgumentError):
            unknown_payload(bad)


def test_state_is_written_in_the_scopes_of_the_grant() -> None:
    write = state_write_of(StateUpdated(scope="conversation", key="k", value=[1]), GRANT)
    assert (write.scope, write.scope_key, write.key, write.value) == ("conversation", "key of c", "k", "[1]")
    for scope, words in (("actor", "the event has no actor"), ("runner", "not granted"), ("moon", "one of")):
        with pytest.raises(InvalidArgumentError, match=words):
            state_write_of(StateUpdated(scope=scope, key="k", value=1), GRANT)


def test_inline_content_becomes_an_artifact_of_the_host() -> None:
    stored, write = artifact_of(
        ArtifactCreated(artifact_type="file", content_base64=DATA, name="x"), "new", {}
    )
    assert isinstance(write, ArtifactWrite)
    assert (write.artifact_id, write.content, write.sha256, write.size_bytes) == ("new", b"abc", SHA256, 3)
    assert (stored.artifact_id, stored.content_base64, stored.size_bytes) == ("new", None, 3)


def test_an_upload_is_announced_with_the_facts_of_the_host() -> None:
    stored, write = artifact_of(ArtifactCreated(artifact_type="file", artifact_id="up1"), "new", UPLOADS)
    assert write == ArtifactShown("up1")
    assert (stored.sha256, stored.size_bytes, stored.mime_type, stored.name) == (
        SHA256,
        3,
        "text/plain",
        "a.txt",
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "neither content_base64 nor artifact_id"),
        ({"artifact_id": "other"}, "no artifact that this run uploaded"),
        ({"artifact_id": "up1", "content_base64": DATA}, "leave it to the host"),
        ({"content_base64": "#"}, "not base64"),
        ({"content_base64": DATA, "size_bytes": 4}, "size_bytes says 4"),
        ({"artifact_id": "up1", "sha256": "0" * 64}, "sha256 says"),
        ({"content_base64": DATA, "name": ""}, "name must have"),
        ({"content_base64": DATA, "mime_type": "x" * 256}, "mime_type must have"),
    ],
)
def test_an_artifact_that_is_stated_wrongly_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        artifact_of(ArtifactCreated(artifact_type="file", **fields), "new", UPLOADS)


def test_inline_content_is_bounded() -> None:
    large = base64.b64encode(b"x" * (MAX_INLINE_ARTIFACT_BYTES + 1)).decode()
    with pytest.raises(PayloadTooLargeError):
        artifact_of(ArtifactCreated(artifact_type="file", content_base64=large), "new", {})


def test_plain_deltas_end_at_the_first_result_that_is_anything_else() -> None:
    plain = arrived(b'{"chunk":{"role":"assistant","content":"a"}}')
    others = [
        arrived(b'{"chunk":{"role":"assistant","content":"a"}}', type="log"),
        arrived(b'{"chunk":{"role":"assistant","content":"a"}}', run_id="r2"),
        arrived(b'{"chunk":{"role":"assistant","content":"a"}}', timestamp=1.0),
        arrived(b'{"chunk":{"role":"assistant","content":"a"}}', size=MAX_RESULT_BYTES + 1),
        arrived(b'{"chunk":\n{"role":"assistant","content":"a"}}'),
        arrived(b'{"chunk":{"role":"assistant","content":[{"type":"text","text":"a"}]}}'),
        arrived(b"{"),
    ]
    for other in others:
        assert len(plain_deltas([plain, plain, other, plain], 0, "r1")) == 2
        assert plain_deltas([plain, other], 1, "r1") == []
