"""Files of people, fetched within bounds: what cannot be had is named, and the rest comes."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_sdk.channels import Channel
from hostler_sdk.channels.attachments import FileBounds, FileUnavailableError, RemoteFile, fetch
from hostler_sdk.errors import Cancelled
from support.channel_wire import Wire, remote


async def fetched(wire: Wire, *files: RemoteFile, **bounds: Any) -> tuple[list[bytes], list[str]]:
    found = await fetch(Channel("c", {}, None, wire), files, FileBounds(**bounds))
    contents = [wire.ingest.files[one.artifact_id] for one in found.attachments]
    return contents, [one["reason"] for one in found.missing]


BROKEN = FileUnavailableError("it broke")
GONE = FileUnavailableError("it is gone", final=True)


async def test_files_are_stored_whole_with_name_and_type() -> None:
    wire = Wire()
    files = [remote([b"a" * 3_000_000, b"b"], name="a.bin", mime_type="x/y"), remote([])]
    found = await fetch(Channel("c", {}, None, wire), files, FileBounds())
    one, two = found.attachments
    assert (one.name, one.mime_type, one.size_bytes, two.size_bytes) == ("a.bin", "x/y", 3_000_001, 0)
    assert wire.ingest.files[one.artifact_id] == b"a" * 3_000_000 + b"b"


async def test_of_a_picture_without_a_type_the_content_tells_it() -> None:
    wire = Wire()
    begins = [
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0",
        b"GIF89a",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"RIFF\0\0\0\0WAVE",
        b"",
    ]
    found = await fetch(Channel("c", {}, None, wire), [remote([begin]) for begin in begins], FileBounds())
    types = [one.mime_type for one in found.attachments]
    assert types == ["image/png", "image/jpeg", "image/gif", "image/webp", None, None]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (remote(size_bytes=11), "over"),
        (remote([b"x" * 8, b"x" * 8]), "over"),
        (remote([b"x" * 8, b"x" * 8], size_bytes=1), "over"),
        (remote([GONE]), "it is gone"),
        (remote([BROKEN], [b"a", BROKEN]), "it broke"),
        (remote([None], [b"a", None]), "within"),
    ],
)
async def test_what_cannot_be_had_is_named_and_the_others_come(file: RemoteFile, reason: str) -> None:
    contents, missing = await fetched(Wire(), file, remote([b"other"]), bytes_each=10, tries=2, seconds=0.05)
    assert contents == [b"other"]
    assert len(missing) == 1
    assert reason in missing[0]


async def test_a_file_that_broke_is_fetched_again_from_its_beginning() -> None:
    assert await fetched(Wire(), remote([b"ab", BROKEN], [b"abc"])) == ([b"abc"], [])


async def test_more_files_than_the_bound_are_named() -> None:
    contents, missing = await fetched(Wire(), *(remote([b"x"]) for _ in range(5)), files=3)
    assert (len(contents), len(missing)) == (3, 2)
    assert "more than 3 files" in missing[0]


async def test_the_host_is_waited_for_and_its_refusals_are_named() -> None:
    wire = Wire(StorageError("the disk is full"), InvalidArgumentError("files of type x/y are not taken"))
    assert await fetched(wire, remote([b"a"])) == (
        [],
        ["the host does not take it: files of type x/y are not taken"],
    )
    assert await fetched(Wire(StorageError("full")), remote([b"a"])) == ([b"a"], [])
    with pytest.raises(Cancelled):
        await fetched(Wire(Cancelled("the host is gone")), remote([b"a"]))
