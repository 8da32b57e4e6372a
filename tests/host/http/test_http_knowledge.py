"""Knowledge bases over HTTP: bases, documents and their states, searches, bounds; a service of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.knowledge import MAX_DOCUMENT_BYTES
from hostler_protocol.calls import KnowledgeItem, RetrieveReply
from hostler_protocol.grants import KnowledgeBaseResource
from hostler_protocol.limits import MIB
from support.command_line import CommandLine
from support.http_host import WORKSPACE, Served, serving

pytestmark = pytest.mark.gate("knowledge")
DOGS = "# House\n\n## Pets\n\nDogs are welcome.\n\n## Times\n\nBreakfast is at seven.\n"


async def put(
    client: httpx.AsyncClient, name: str, content: Any, kb: str = "house", **more: Any
) -> httpx.Response:
    return await client.put(f"/v1/knowledge/{kb}/documents/{name}", content=content, **more)


async def settled(client: httpx.AsyncClient, name: str, kb: str = "house") -> dict[str, Any]:
    """A document once it waits no more."""
    async with asyncio.timeout(100):
        while True:
            found = await client.get(f"/v1/knowledge/{kb}/documents/{name}")
            assert found.status_code == 200, found.text
            record: dict[str, Any] = found.json()
            if record["state"] in ("ready", "failed"):
                return record
            await asyncio.sleep(0.02)


async def search(client: httpx.AsyncClient, query: str, **more: Any) -> list[dict[str, Any]]:
    answer = await client.post("/v1/knowledge/house/search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_base_is_made_filled_searched_changed_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        entry = {"kb_id": "house", "name": "House rules", "description": "What guests ask"}
        made = await client.post("/v1/knowledge", json=entry)
        assert made.status_code == 201, made.text
        assert made.json() | {"created_at": 0, "changed_at": 0} == {
            **entry,
            "passage_chars": 1000,
            "kept_by": "host",
            **dict.fromkeys(("documents", "waiting", "indexing", "failed", "size_bytes", "passages"), 0),
            "made_by": made.json()["made_by"],
            "created_at": 0,
            "changed_at": 0,
        }
        assert (await client.post("/v1/knowledge", json=entry)).status_code == 409
        wrong = await client.post(
            "/v1/knowledge", json={"kb_id": "-x", "name": "n" * 300, "passage_chars": 7}
        )
        assert wrong.status_code == 400
        assert all(text in wrong.text for text in ("is no id", "has 300 characters", "passage_chars"))
        assert (await client.put("/v1/knowledge/other", json=entry)).status_code == 400

        metadata = json.dumps({"lang": "en", "floor": 2})
        first = await put(client, "a%2Frules.md", DOGS.encode(), params={"metadata": metadata})
        assert first.status_code == 201, first.text
        record = await settled(client, "a%2Frules.md")
        assert record["name"] == "a/rules.md"
        assert (record["mime_type"], record["metadata"]) == ("text/markdown", {"lang": "en", "floor": 2})
        assert (record["state"], record["passages_done"], record["passages_total"]) == ("ready", 2, 2)
        assert record["searchable"]
        assert record["indexed_at"] >= record["created_at"]
        again = await put(client, "a%2Frules.md", DOGS.encode(), params={"metadata": metadata})
        assert (again.status_code, again.json()["document_id"]) == (200, record["document_id"])

        (best,) = await search(client, "are dogs welcome?")
        assert best["content"] == "Dogs are welcome."
        assert 0.3 < best["score"] < 1
        assert best["metadata"]["source"] == "a/rules.md"
        assert best["metadata"]["heading"] == "House > Pets"
        assert await search(client, "dogs", filters={"floor": [1, 3]}) == []
        assert len(await search(client, "dogs", filters={"floor": [1, 2], "document": "a/rules.md"})) == 1
        for body in (
            {"query": ""},
            {"query": "x" * 4001},
            {"query": "x", "top_k": 51},
            {"query": "x", "filters": {"a": []}},
        ):
            assert (await client.post("/v1/knowledge/house/search", json=body)).status_code == 400, body
        assert (await client.post("/v1/knowledge/none/search", json={"query": "x"})).status_code == 404

        content = await client.get("/v1/knowledge/house/documents/a%2Frules.md/content")
        assert content.text == DOGS
        assert content.headers["content-type"] == "text/markdown"
        assert "attachment" in content.headers["content-disposition"]
        part = await client.get(
            "/v1/knowledge/house/documents/a%2Frules.md/content", headers={"range": "bytes=2-6"}
        )
        assert (part.status_code, part.text) == (206, "House")
        same = await client.get(
            "/v1/knowledge/house/documents/a%2Frules.md/content",
            headers={"if-none-match": content.headers["etag"]},
        )
        assert same.status_code == 304

        for name in ("b.md", "c.md"):
            assert (await put(client, name, b"Cats sleep.")).status_code == 201
            await settled(client, name)
        page = (await client.get("/v1/knowledge/house/documents?limit=2")).json()
        assert [one["name"] for one in page["items"]] == ["a/rules.md", "b.md"]
        rest = await client.get(f"/v1/knowledge/house/documents?limit=2&cursor={page['next_cursor']}")
        assert [one["name"] for one in rest.json()["items"]] == ["c.md"]
        assert (await client.get("/v1/knowledge/house/documents?state=failed")).json()["items"] == []

        changed = await client.put(
            "/v1/knowledge/house", json={**entry, "name": "Rules", "passage_chars": 500}
        )
        assert changed.status_code == 200
        assert (changed.json()["name"], changed.json()["documents"]) == ("Rules", 3)
        assert (await client.post("/v1/knowledge/house/documents/b.md/reindex")).status_code == 200
        await settled(client, "b.md")
        assert (await client.delete("/v1/knowledge/house/documents/b.md")).status_code == 204
        assert (await client.delete("/v1/knowledge/house/documents/b.md")).status_code == 404
        assert [one["metadata"]["source"] for one in await search(client, "cats")] == ["c.md"]
        assert [one["kb_id"] for one in (await client.get("/v1/knowledge")).json()["items"]] == ["house"]
        assert (await client.delete("/v1/knowledge/house")).status_code == 204
        assert (await client.get("/v1/knowledge/house")).status_code == 404
        assert (await client.get("/v1/knowledge/house/documents")).status_code == 404
        actions = [one["action"] for one in (await client.get("/v1/audit?limit=100")).json()["items"]]
        assert "knowledge_base.removed" in actions
        assert "knowledge_document.put" in actions


async def stream_of(size: int) -> AsyncIterator[bytes]:
    """One line without an end, as a client sends it that does not say how long it is."""
    piece = b"x" * MIB
    for _ in range(size // MIB):
        yield piece


async def status_of_declared(served: Served, size: int) -> int:
    """The status of a PUT that says how long it is, and sends nothing."""
    address = httpx.URL(served.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    lines = [
        "PUT /v1/knowledge/house/documents/big.txt HTTP/1.1",
        f"host: {address.netloc.decode()}",
        f"authorization: {served.client.headers['authorization']}",
        f"content-length: {size}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(100):
        status = (await reader.readline()).split()[1]
    writer.close()
    return int(status)


async def test_what_cannot_be_taken_is_refused_early_and_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        await client.post("/v1/knowledge", json={"kb_id": "house"})
        # a gigabyte in one line: by what it says of itself, or as soon as there is too much
        assert await status_of_declared(served, 1024 * MIB) == 413
        streamed = await put(client, "big.txt", stream_of(MAX_DOCUMENT_BYTES + 2 * MIB))
        assert streamed.status_code == 413
        packed = await put(client, "big.txt", b"\x1f\x8b", headers={"content-encoding": "gzip"})
        assert packed.status_code == 415
        for name, kind in (("a.pdf", None), ("a.docx", None), ("a", None), ("a.txt", "application/pdf")):
            refused = await put(client, name, b"x", headers={} if kind is None else {"content-type": kind})
            assert refused.status_code == 415, name
            assert "what can: plain text, Markdown" in refused.json()["detail"]
        other = await put(client, "a.txt", b"x", params={"sha256": "0" * 64})
        assert other.status_code == 400
        for metadata in (
            "[]",
            "{",
            '{"a b": 1}',
            '{"a": {}}',
            '{"document": "x"}',
            json.dumps({"a": "x" * 201}),
        ):
            assert (await put(client, "a.txt", b"x", params={"metadata": metadata})).status_code == 400, (
                metadata
            )
        assert (await client.get("/v1/knowledge/house/documents")).json()["items"] == []

        broken: Mapping[str, tuple[bytes, str]] = {
            "broken.txt": (b"fine \xff\xfe\xfa", "is not UTF-8: byte 5"),
            "nul.txt": (b"a\x00b", "holds NUL characters"),
            "empty.md": (b"\n\n \n", "it has no text"),
            "bad.json": (b'{"a": ', "it is no JSON"),
            "bad.jsonl": (b'{"a": 1}\n{"a"\n', "line 2 is no JSON"),
            "deep.json": (b"[" * 5_000 + b"]" * 5_000, "nested deeper than 128 levels"),
            "deeper.json": (b"[" * 200 + b"1" + b"]" * 200, "nested deeper than 128 levels"),
            "cell.csv": (b'a,b\n"never closed', "the table cannot be read: line 2"),
            "wide.csv": (b",".join([b"a"] * 2_000), "has 2,000 columns"),
            "tags.html": (b"<p>a</p>" * 200_000, "too many tags"),
        }
        for name, (content, _) in broken.items():
            assert (await put(client, name, content)).status_code == 201, name
        # deep HTML, and one line of two million words, are read
        await put(client, "deep.html", b"<div>" * 100_000 + b"<h1>Deep</h1><p>needle</p>" + b"</div>" * 10)
        await put(client, "line.txt", b"word " * 400_000 + b"haystack")
        for name, (_, why) in broken.items():
            record = await settled(client, name)
            assert record["state"] == "failed", name
            assert why in record["reason"], record["reason"]
            assert not record["searchable"]
        assert (await settled(client, "deep.html"))["state"] == "ready"
        assert [one["metadata"]["source"] for one in await search(client, "needle")] == ["deep.html"]
        line = await settled(client, "line.txt")
        assert line["passages_total"] > 1_900
        assert [one["metadata"]["source"] for one in await search(client, "haystack")] == ["line.txt"]
        assert (await client.get("/v1/knowledge/house")).json()["failed"] == len(broken)


@pytest.mark.parametrize(
    ("name", "kind", "content", "query", "found"),
    [
        (
            "t.csv",
            None,
            "name,price\nTea,3\nCake,5\n",
            "cake price",
            "name: Tea\nprice: 3\n\nname: Cake\nprice: 5",
        ),
        ("t.tsv", None, "a\tb\nx\ty z\n", "y", "a: x\nb: y z"),
        (
            "j.json",
            None,
            '[{"name": "Tea", "more": {"tags": ["hot", true]}}]',
            "hot",
            "name: Tea\nmore.tags: hot\nmore.tags: true",
        ),
        ("l.jsonl", None, '{"q": "How?"}\n\n{"q": "Why?"}\n', "why", "q: How?\n\nq: Why?"),
        (
            "h.html",
            None,
            "<title>House</title><script>var secret</script><h1>Pets</h1><p>Dogs &amp; cats",
            "cats",
            "Dogs & cats",
        ),
        ("g.txt", "text/plain; charset=gb18030", "早餐七点开始", "早餐", "早餐七点开始"),
        ("y.yaml", None, "price: 3\n", "price", "price: 3"),
    ],
)
async def test_formats(
    tmp_path: Path, name: str, kind: str | None, content: str, query: str, found: str
) -> None:
    data = content.encode("gb18030" if kind else "utf-8")
    async with serving(tmp_path, agent=False) as served:
        await served.client.post("/v1/knowledge", json={"kb_id": "house"})
        await put(served.client, name, data, headers={"content-type": kind} if kind else {})
        assert (await settled(served.client, name))["state"] == "ready"
        (item,) = await search(served.client, query)
        assert item["content"] == found
        assert await search(served.client, "secret") == []


class Shelf:
    """A knowledge service of an embedder."""

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        return {"shelf": KnowledgeBaseResource(kb_id="shelf", kb_name="A shelf", operations=["retrieve"])}

    async def retrieve(self, workspace_id: str, kb_id: str, query_text: str, **_: Any) -> RetrieveReply:
        return RetrieveReply(items=[KnowledgeItem(content=f"{workspace_id}: {query_text}", score=0.5)])


async def test_a_service_of_its_own_is_listed_and_searched_and_kept_elsewhere(tmp_path: Path) -> None:
    async with serving(tmp_path, knowledge=Shelf()) as served:
        client = served.client
        (only,) = (await client.get("/v1/knowledge")).json()["items"]
        assert (only["kb_id"], only["name"], only["kept_by"]) == ("shelf", "A shelf", "service")
        assert (await client.get("/v1/knowledge/shelf")).json() == only
        assert (await client.get("/v1/knowledge/house")).status_code == 404
        found = await client.post("/v1/knowledge/shelf/search", json={"query": "dogs"})
        assert found.json()["items"][0]["content"] == "default: dogs"
        assert (await client.post("/v1/knowledge/house/search", json={"query": "x"})).status_code == 404
        for answer in (
            await client.post("/v1/knowledge", json={"kb_id": "house"}),
            await put(client, "a.md", b"x", "shelf"),
            await client.get("/v1/knowledge/shelf/documents"),
            await client.delete("/v1/knowledge/shelf"),
        ):
            assert answer.status_code == 409
            assert "kept by a service of its own" in answer.json()["detail"]


async def test_rights_of_keys(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.post("/v1/knowledge", json={"kb_id": "house"})
        await put(served.client, "a.md", b"Dogs.")
        reading, writing = (
            await served.key(WORKSPACE, "knowledge:read"),
            await served.key(WORKSPACE, "knowledge:write"),
        )
        async with served.as_key(reading) as reader, served.as_key(writing) as writer:
            assert (await reader.post("/v1/knowledge/house/search", json={"query": "x"})).status_code == 200
            assert (await put(reader, "b.md", b"x")).status_code == 403
            assert (await put(writer, "b.md", b"x")).status_code == 201
            assert (await writer.get("/v1/knowledge/house")).status_code == 403


async def test_a_host_that_starts_again_goes_on_also_from_a_backup(tmp_path: Path) -> None:
    data, copied = tmp_path / "data", tmp_path / "restored"

    async def fill(served: Served) -> None:
        await served.client.post("/v1/knowledge", json={"kb_id": "house"})
        for n in range(30):
            await put(served.client, f"{n}.txt", f"Number word{n}".encode())

    async with serving(data, agent=False) as served:
        await fill(served)
    async with serving(data, agent=False) as served:
        for n in range(30):
            assert (await settled(served.client, f"{n}.txt"))["state"] == "ready"
        assert len(await search(served.client, "word7")) == 1
        assert len(served.host.bases.offered("default")) == 1  # type: ignore[union-attr]
    hostler, restored = CommandLine(data, tmp_path), CommandLine(copied, tmp_path)
    made = await asyncio.to_thread(hostler, "backup", tmp_path / "copy")
    assert made.status == 0, made.err
    assert (await asyncio.to_thread(restored, "restore", tmp_path / "copy")).status == 0
    async with serving(copied, agent=False) as served:
        assert len(await search(served.client, "word7")) == 1
        content = await served.client.get("/v1/knowledge/house/documents/7.txt/content")
        assert content.text == "Number word7"
