"""Files of a message that is to be sent: within the platform's limits, or none of it is sent."""

from __future__ import annotations

import pytest

from hostler_sdk.channels import ArtifactRef, Channel, NotSent
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files
from support.channel_wire import Wire

LIMITS = FileLimits(files=2, bytes_each=10, bytes_all=15, mime_types=("image/*", "text/plain"), empty=False)


def ref(name: str | None, size: int | None = None, mime_type: str | None = "image/png") -> ArtifactRef:
    return ArtifactRef(artifact_id=name or "?", name=name, size_bytes=size, mime_type=mime_type)


async def read(wire: Wire, *refs: ArtifactRef, limits: FileLimits | None = LIMITS) -> list[OutgoingFile]:
    return await read_files(Channel("c", {}, None, wire), refs, limits)


async def test_files_are_read_with_name_and_type() -> None:
    wire = Wire()
    wire.ingest.files = {"a": b"1234567890", "?": b""}
    one, two = await read(wire, ref("a", mime_type="Text/Plain; x=y"), ref(None, mime_type=None), limits=None)
    assert (one.name, one.mime_type, one.content) == ("a", "text/plain", b"1234567890")
    assert (two.name, two.mime_type, two.content) == ("file", "application/octet-stream", b"")


@pytest.mark.parametrize(
    ("refs", "told"),
    [
        ([ref("a")] * 3, "the message has 3 files; at most 2 are sent"),
        ([ref("a", 11)], "a has over"),
        ([ref("a", 8), ref("b", 8)], "the files of the message have over"),
        (
            [ref("a", mime_type="video/mp4")],
            "a is video/mp4; files of these types are sent: image/*, text/",
        ),
    ],
)
async def test_files_are_checked_before_one_is_read(refs: list[ArtifactRef], told: str) -> None:
    with pytest.raises(NotSent) as refused:
        await read(Wire(AssertionError("read")), *refs)
    assert refused.value.final
    assert refused.value.message.startswith(told)


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ([b"x" * 11], "a has over"),
        ([b"x" * 8, b"x" * 8], "the files of the message have over"),
        ([b""], "a is empty, which the platform does not take"),
    ],
)
async def test_files_that_are_larger_than_was_said_are_refused(contents: list[bytes], told: str) -> None:
    wire = Wire()
    wire.ingest.files = dict(zip("ab", contents, strict=False))
    with pytest.raises(NotSent) as refused:
        await read(wire, *(ref(name, 1) for name in wire.ingest.files))
    assert refused.value.final
    assert refused.value.message.startswith(told)
