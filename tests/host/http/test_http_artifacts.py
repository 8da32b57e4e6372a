"""Files in, files out, in ranges, and nothing of the host's disk."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.http.downloads import content_disposition
from hostler.http.problems import RangeNotSatisfiableError
from hostler.http.ranges import etag_matches, parse_range
from support.http_host import Served, serving


async def test_a_file_comes_back_whole_and_in_ranges(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        data = bytes(range(256)) * 4000  # more than one piece
        sha256 = hashlib.sha256(data).hexdigest()
        made = await served.client.post(
            "/v1/artifacts",
            params={"name": 'a "b"/ü\n.bin', "conversation_id": "c", "sha256": sha256},
            content=data,
            headers={"content-type": "image/png; x=y"},
        )
        assert made.status_code == 201, made.text
        record = made.json()
        assert record == {
            "artifact_id": record["artifact_id"],
            "artifact_type": "file",
            "size_bytes": len(data),
            "sha256": sha256,
            "created_at": record["created_at"],
            "mime_type": "image/png",
            "name": 'a "b"/ü\n.bin',
            "source": "upload",
            "conversation_id": "c",
            "run_id": None,
            "runner_id": None,
            "expires_at": None,
            "metadata": {},
        }
        path = f"/v1/artifacts/{record['artifact_id']}"
        assert (await served.client.get(path)).json() == record
        whole = await served.client.get(f"{path}/content")
        assert (whole.status_code, whole.content) == (200, data)
        assert whole.headers["etag"] == f'"{sha256}"'
        assert whole.headers["accept-ranges"] == "bytes"
        assert whole.headers["content-type"] == "image/png"
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert whole.headers["content-disposition"] == (
            "attachment; filename=\"a _b____.bin\"; filename*=UTF-8''a%20%22b%22%2F%C3%BC%0A.bin"
        )
        assert str(tmp_path) not in str(whole.headers) + (await served.client.get(path)).text
        size = len(data)
        for asked, first, last in (
            ("bytes=0-0", 0, 0),
            ("bytes=5-", 5, size - 1),
            ("bytes=-7", size - 7, size - 1),
            ("bytes=300000-700000", 300_000, 700_000),
            (f"bytes={size - 1}-{size + 100}", size - 1, size - 1),
        ):
            part = await served.client.get(f"{path}/content", headers={"range": asked})
            assert part.status_code == 206, asked
            assert part.content == data[first : last + 1], asked
            assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
        head = await served.client.head(f"{path}/content", headers={"range": "bytes=1-2"})
        assert (head.status_code, head.content, head.headers["content-length"]) == (206, b"", "2")
        beyond = await served.client.get(f"{path}/content", headers={"range": f"bytes={size}-"})
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
        assert beyond.json()["code"] == "invalid_argument"
        for condition, status in ((f'"{sha256}"', 206), (f'W/"{sha256}"', 200), ('"other"', 200)):
            part = await served.client.get(
                f"{path}/content", headers={"range": "bytes=0-1", "if-range": condition}
            )
            assert part.status_code == status, condition
        unchanged = await served.client.get(f"{path}/content", headers={"if-none-match": f'W/"{sha256}"'})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert (await served.client.delete(path)).status_code == 204
        assert (await served.client.get(f"{path}/content")).status_code == 404

    await _with(tmp_path, scenario)


async def test_what_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        wrong = await served.client.post("/v1/artifacts", params={"sha256": "0" * 64}, content=b"x")
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_argument")
        empty = await served.client.post("/v1/artifacts", content=b"")
        assert (empty.status_code, empty.json()["size_bytes"]) == (201, 0)
        content = await served.client.get(f"/v1/artifacts/{empty.json()['artifact_id']}/content")
        assert (content.status_code, content.content) == (200, b"")
        assert content.headers["content-type"] == "application/octet-stream"

    await _with(tmp_path, scenario)


async def test_an_upload_over_its_limit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(served: Served) -> None:
        monkeypatch.setattr("hostler.http.routes.artifacts.MAX_UPLOAD_BODY_BYTES", 1000)

        async def drip() -> Any:
            for _ in range(11):
                yield b"x" * 100

        for content in (b"x" * 1001, drip()):
            answer = await served.client.post("/v1/artifacts", content=content)
            assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        left = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size]
        assert left == []

    await _with(tmp_path, scenario)


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_ranges_are_those_of_python_slices(size: int, first: int, last: int) -> None:
    data = bytes(range(size))
    for header, expected in (
        (f"bytes={first}-{last}", data[first : last + 1] if first <= last else None),
        (f"bytes={first}-", data[first:]),
        (f"bytes=-{last}", data[max(0, size - last) :] if last else b""),
    ):
        try:
            found = parse_range(header, size)
        except RangeNotSatisfiableError:
            assert expected == b"", header
            continue
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert data[found.offset : found.offset + found.length] == expected != b""


@given(st.text())
def test_any_other_range_means_the_whole_or_none(header: str) -> None:
    try:
        found = parse_range(header, 10)
    except RangeNotSatisfiableError:
        return
    assert found is None or (0 <= found.offset < 10 and 0 < found.length <= 10 - found.offset)


def test_entity_tags() -> None:
    assert etag_matches('"a", "b"', '"b"', weakly=False)
    assert etag_matches("*", '"b"', weakly=True)
    assert not etag_matches("*", '"b"', weakly=False)
    assert not etag_matches('W/"b"', '"b"', weakly=False)
    assert not etag_matches(None, '"b"', weakly=True)


@given(st.text())
def test_no_name_breaks_out_of_its_header(name: str) -> None:
    header = content_disposition(name)
    assert header.isascii()
    assert b"\r" not in header
    assert b"\n" not in header
    if name:
        assert header.count(b'"') == 2


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
