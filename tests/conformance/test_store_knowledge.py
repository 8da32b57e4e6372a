"""Knowledge bases on both databases, plain and sealed: documents, indexing in steps, searches, removal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.knowledge import KnowledgeBase, Value
from hostler.domain.quotas import UNBOUNDED, WorkspaceQuota, quotas_of
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import query_of
from hostler.storage.stores import knowledge_bases, knowledge_documents, quotas
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.knowledge_documents import StoredDocument
from hostler.storage.stores.knowledge_passages import STEP_PASSAGES
from hostler.tools.knowledge import indexer
from hostler.tools.knowledge.bases import KnowledgeBases, Upload
from hostler.tools.knowledge.indexer import Indexer
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, PayloadTooLargeError
from support.databases import run
from support.knowledge import chunks, open_gate
from support.shaky_database import Shaky

pytestmark = pytest.mark.gate("knowledge")
WS = "w"
RULES = """# House

## Pets

Dogs are welcome, if they are small. Cats are welcome, too.

## Times

Breakfast is at seven. The pool closes at nine.
"""
CHINESE = "# 规则\n\n## 宠物\n\n欢迎小型犬入住。\n\n## 时间\n\n早餐从七点开始，游泳池九点关闭。\n"


class Library:
    """The bases of a database, with an indexer that works when it is told to."""

    def __init__(self, database: SqlDatabase, folder: Path, quota: WorkspaceQuota | None = None) -> None:
        self.db = database
        self.blobs = BlobFolder(folder / "blobs")
        bounds = UNBOUNDED if quota is None else quotas_of(quota)
        self.bases = KnowledgeBases(database, self.blobs, lambda _: bounds)
        self.indexer = Indexer(database, self.blobs, self.bases, "host-1", open_gate, purge_seconds=0)

    async def put(
        self, name: str, text: str | bytes, mime: str = "text/markdown", kb: str = "house", **metadata: Value
    ) -> knowledge_documents.Put:
        data = text.encode() if isinstance(text, str) else text
        upload = Upload(name=name, mime_type=mime, metadata=metadata)
        return await self.bases.put_document(WS, kb, upload, chunks(data), "ann")

    async def work(self) -> None:
        """Do all that there is to do."""
        while (
            await self.indexer.index_next()
            or await self.indexer.remove_next()
            or await self.indexer.cut_next()
            or await self.indexer.purge()
        ):
            pass

    async def find(self, query: str, kb: str = "house", **filters: Any) -> list[str]:
        return [item.content for item in await self.items(query, kb, **filters)]

    async def items(self, query: str, kb: str = "house", top_k: int = 5, **filters: Any) -> list[Any]:
        reply = await self.bases.retrieve(WS, kb, query, top_k=top_k, filters=filters or None, deadline=None)
        return reply.items

    async def document(self, name: str, kb: str = "house") -> StoredDocument:
        def read(tx: Tx) -> StoredDocument:
            return knowledge_documents.get(tx, WS, knowledge_bases.get(tx, WS, kb), name)

        return await self.db.read(read)

    async def count(self, table: str) -> int:
        text = f"SELECT count(*) AS n FROM {table}"
        row = await self.db.read(lambda tx: tx.one(query_of("test.count", text, text)))
        assert row is not None
        return int(row["n"])


@asynccontextmanager
async def library(database: SqlDatabase, folder: Path, **more: Any) -> AsyncIterator[Library]:
    one = Library(database, folder, **more)
    try:
        await one.bases.create(WS, KnowledgeBase(kb_id="house", name="House rules"), "ann")
        yield one
    finally:
        await one.blobs.settle()
        one.blobs.close()


def test_documents_are_indexed_and_the_best_passages_found(database: SqlDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            assert (await one.put("rules.md", RULES, lang="en")).is_new
            await one.put("guize.md", CHINESE, lang="zh", year=2026)
            assert await one.find("dogs") == []  # they wait
            assert (await one.document("rules.md")).state == "waiting"
            await one.work()
            ready = await one.document("rules.md")
            assert (ready.state, ready.passages_done, ready.passages_total) == ("ready", 2, 2)

            best, *others = await one.items("May I bring small dogs?")
            assert best.content.startswith("Dogs are welcome")
            assert 0 < best.score < 1
            assert all(best.score > other.score for other in others)
            assert best.metadata["source"] == "rules.md"
            assert best.metadata["heading"] == "House > Pets"
            assert (best.metadata["passage"], best.metadata["passages"]) == (1, 2)
            assert best.metadata["document_metadata"] == {"lang": "en"}
            # the headings are found, too; whole words only; of scripts without blanks any two characters
            assert (await one.find("pets"))[0].startswith("Dogs")
            assert await one.find("ool") == []
            assert (await one.find("可以带小型犬吗"))[0] == "欢迎小型犬入住。"
            assert (await one.find("POOL"))[0].startswith("Breakfast")

            assert await one.find("dogs", lang="zh") == []
            assert len(await one.find("dogs", lang=["zh", "en"])) == 1
            assert len(await one.find("早餐", year=2026.0, lang="zh")) == 1
            assert await one.find("dogs", document="guize.md") == []
            assert len(await one.find("dogs", document=["guize.md", "rules.md"])) == 1
            with pytest.raises(InvalidArgumentError, match="expected a boolean, a number, or a text"):
                await one.find("dogs", lang={"no": 1})
            with pytest.raises(NotFoundError, match="no knowledge base 'other'"):
                await one.find("dogs", kb="other")

    run(scenario())


def test_a_replaced_document_is_found_as_it_was_until_the_new_one_is_ready(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            first = await one.put("a.txt", "The old price is ten.", "text/plain")
            await one.work()
            same = await one.put("a.txt", "The old price is ten.", "text/plain")
            assert not same.is_changed
            assert same.document.version_id == first.document.version_id

            await one.put("a.txt", "The new price is twelve.", "text/plain")
            await one.put(
                "a.txt", "The newest price is twenty.", "text/plain"
            )  # before the one before it is ready
            assert await one.find("price") == ["The old price is ten."]
            await one.work()
            assert await one.find("price") == ["The newest price is twenty."]
            assert await one.find("old twelve ten") == []
            # one that cannot be read leaves what was there, and says why
            await one.put("a.txt", b"\xff\xfa price", "text/plain")
            await one.work()
            failed = await one.document("a.txt")
            assert failed.state == "failed"
            assert failed.reason is not None
            assert "is not UTF-8: byte 0" in failed.reason
            assert await one.find("price") == ["The newest price is twenty."]
            await one.bases.remove_document(WS, "house", "a.txt", "ann")
            assert await one.find("price") == []
            await one.work()
            for table in (
                "knowledge_passages",
                "knowledge_versions",
                "knowledge_documents",
                "knowledge_search",
            ):
                if table == "knowledge_search" and database.dialect == "sqlite":
                    continue  # an index without content has no rows to count
                assert await one.count(table) == 0
            assert await one.count("blobs") == 0
            base = await database.read(lambda tx: knowledge_bases.get(tx, WS, "house"))
            assert (base.passages, base.chars) == (0, 0)
            assert await database.read(lambda tx: quotas.recount(tx, WS)) == []

    run(scenario())


def test_indexing_goes_on_where_another_host_ended(database: SqlDatabase, tmp_path: Path) -> None:
    text = "\n\n".join(
        f"Paragraph {n} tells of item{n} at length. " + "word " * 150 for n in range(3 * STEP_PASSAGES)
    )

    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            await one.put("long.txt", text, "text/plain")
            steps = 0
            real = one.indexer._step

            def dying(*args: Any, **more: Any) -> bool:
                nonlocal steps
                steps += 1
                if steps == 3:
                    raise RuntimeError("the host dies here")
                return real(*args, **more)

            one.indexer._step = dying  # type: ignore[method-assign]
            with pytest.raises(RuntimeError, match="dies here"):
                await one.indexer.index_next()
            begun = await one.document("long.txt")
            assert (begun.state, begun.passages_done) == ("indexing", 2 * STEP_PASSAGES)
            assert await one.find("item3") == []

            other = Indexer(database, one.blobs, one.bases, "host-2", open_gate)
            assert not await other.index_next()  # the lease of the first one holds
            await database.write(lambda tx: knowledge_documents.release_own(tx, "host-1"))
            added: list[int] = []
            went = other._step

            def noting(*args: Any, **more: Any) -> bool:
                added.append(more["before"])
                return went(*args, **more)

            other._step = noting  # type: ignore[method-assign]
            assert await other.index_next()
            assert added[0] == 2 * STEP_PASSAGES
            done = await one.document("long.txt")
            assert done.state == "ready"
            assert await one.count("knowledge_passages") == done.passages_total == 3 * STEP_PASSAGES
            assert len(await one.find("item3")) == 1
            # the first host comes back: its claim is lost, and it changes nothing
            one.indexer._step = real  # type: ignore[method-assign]
            assert not await one.indexer.index_next()

    run(scenario())


@pytest.mark.parametrize("fault", [{"refusals": 1}, {"unheard": 1}])
def test_a_worker_whose_first_write_fails_tries_it_again(
    database: SqlDatabase, tmp_path: Path, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "RETRY_SECONDS", 0.0)

    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            await one.put("rules.md", RULES)
            await database.write(lambda tx: knowledge_documents.claim(tx, "host-1", 600_000))  # it was killed
            shaky: Any = Shaky(database, **fault)
            again = Indexer(shaky, one.blobs, one.bases, "host-1", open_gate)
            stepped = asyncio.Event()

            async def indexed() -> None:
                while (await one.document("rules.md")).state != "ready":
                    await stepped.wait()
                    stepped.clear()

            working, waiting = asyncio.create_task(again.work(stepped.set)), asyncio.create_task(indexed())
            done, _ = await asyncio.wait({working, waiting}, timeout=60, return_when="FIRST_COMPLETED")
            assert done == {waiting}
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    run(scenario())


def test_an_indexer_without_work_writes_nothing(database: SqlDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            before = database.groups_committed
            assert not await one.indexer.index_next()
            assert not await one.indexer.remove_next()
            assert not await one.indexer.cut_next()
            assert not await one.indexer.purge()
            assert database.groups_committed == before

    run(scenario())


def test_a_document_that_ends_its_host_each_time_fails(database: SqlDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            await one.put("bad.txt", "bad", "text/plain")
            for _ in range(knowledge_documents.MAX_ATTEMPTS):
                assert await database.read(knowledge_documents.waits)
                claim = await database.write(lambda tx: knowledge_documents.claim(tx, "host-1", -1))
                assert claim is not None
            assert await database.write(lambda tx: knowledge_documents.claim(tx, "host-1", 1000)) is None
            assert not await database.read(knowledge_documents.waits)
            failed = await one.document("bad.txt")
            assert (
                failed.reason == "its indexing was begun 5 times and ended with its host each time: split it"
            )
            await one.bases.reindex(WS, "house", "bad.txt", "ann")
            await one.work()
            assert await one.find("bad") == ["bad"]

    run(scenario())


def test_another_length_has_all_documents_cut_again(database: SqlDatabase, tmp_path: Path) -> None:
    text = " ".join(f"Sentence number {n} is about topic{n}." for n in range(60))

    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            await one.put("a.txt", text, "text/plain")
            await one.work()
            before = (await one.document("a.txt")).passages_total
            await one.bases.put(WS, KnowledgeBase(kb_id="house", passage_chars=200), "ann")
            assert len(await one.find("topic7")) == 1  # as it was cut, until the rest is there
            await one.work()
            after = (await one.document("a.txt")).passages_total
            assert before is not None
            assert after is not None
            assert after > 3 * before
            assert await one.count("knowledge_passages") == after
            (found,) = await one.find("topic7")
            assert len(found) <= 200

    run(scenario())


def test_a_removed_base_is_gone_with_all_that_was_in_it(database: SqlDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            for n in range(5):
                await one.put(f"{n}.txt", f"Number {n}", "text/plain")
            await one.work()
            await one.bases.remove(WS, "house", "ann")
            assert one.bases.offered(WS) == {}
            # one of the same id is another base
            await one.bases.create(WS, KnowledgeBase(kb_id="house"), "ann")
            assert await one.find("number") == []
            await one.put("new.txt", "Number six", "text/plain")
            await one.work()
            assert await one.find("number") == ["Number six"]
            assert await one.count("knowledge_bases") == await one.count("knowledge_versions") == 1
            assert await one.count("blobs") == 1
            assert await database.read(lambda tx: quotas.recount(tx, WS)) == []

    run(scenario())


def test_bounds_are_reached_and_said(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = WorkspaceQuota(max_artifact_bytes=1_000)

    async def scenario() -> None:
        async with library(database, tmp_path, quota=quota) as one:
            monkeypatch.setattr(knowledge_documents, "MAX_DOCUMENTS", 2)
            await one.put("1.txt", "one", "text/plain")
            await one.put("2.txt", "two", "text/plain")
            with pytest.raises(ConflictError, match="has 2 documents already"):
                await one.put("3.txt", "three", "text/plain")
            with pytest.raises(PayloadTooLargeError, match=r"1,000|quota"):
                await one.put("1.txt", "x" * 2_000, "text/plain")
            with pytest.raises(InvalidArgumentError, match="the body is empty"):
                await one.put("1.txt", "", "text/plain")
            with pytest.raises(InvalidArgumentError, match="is no name of a document"):
                await one.put("..", "x", "text/plain")
            monkeypatch.setattr("hostler.tools.knowledge.indexer.MAX_PASSAGES", 1)
            await one.put("2.txt", "# a\n\nx\n\n# b\n\ny\n")
            await one.put("1.txt", "  \n \n", "text/plain")
            await one.work()
            assert "more than 1 passages" in str((await one.document("2.txt")).reason)
            assert "it has no text" in str((await one.document("1.txt")).reason)
            assert await one.count("blobs") == 2
            monkeypatch.setattr(knowledge_bases, "MAX_BASES", 1)
            with pytest.raises(ConflictError, match="there are 1 knowledge bases already"):
                await one.bases.create(WS, KnowledgeBase(kb_id="other"), "ann")
            with pytest.raises(ConflictError, match="PUT changes it"):
                await one.bases.create(WS, KnowledgeBase(kb_id="house"), "ann")

    run(scenario())


def test_common_words_cost_no_more_than_a_bounded_search(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of words that most passages have, those with all of them are ranked; rare words are never missed."""
    module = "hostler.storage.stores.knowledge_passages"
    monkeypatch.setattr(f"{module}.MAX_CANDIDATES", 20)
    monkeypatch.setattr(f"{module}._LOOKED_AT", 80)
    chosen = random.Random(7)
    rows = [f"common{n % 3} shared text {chosen.random()}" for n in range(300)]
    rows[5] = "common0 common1 common2 shared needle"
    text = "\n".join(["text", *rows])

    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            await one.put("rows.csv", text.replace(",", ";"), "text/csv")
            await one.bases.put(WS, KnowledgeBase(kb_id="house", passage_chars=200), "ann")
            await one.work()
            assert "needle" in (await one.find("shared needle", top_k=1))[0]
            found = await one.find("common0 common1 common2 shared", top_k=3)
            assert all(all(f"common{n}" in content for n in range(3)) for content in found)
            assert len(await one.find("shared", top_k=50)) == 20

    run(scenario())


def test_two_hosts_see_each_others_bases(database: SqlDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with library(database, tmp_path) as one:
            other = KnowledgeBases(database, one.blobs, lambda _: UNBOUNDED)
            assert await other.follow()
            offered: Mapping[str, Any] = other.offered(WS)
            assert offered["house"].kb_name == "House rules"
            assert offered["house"].operations == ["list", "retrieve"]
            assert not await other.follow()
            await one.bases.put(WS, KnowledgeBase(kb_id="house", name="Rules"), "ann")
            assert await other.follow()
            assert other.offered(WS)["house"].kb_name == "Rules"
            assert other.offered("another") == {}
            # two that work on the same documents index each once
            for n in range(8):
                await one.put(f"{n}.txt", f"Number {n}", "text/plain")
            second = Indexer(database, one.blobs, other, "host-2", open_gate)

            async def all_of(indexer: Indexer) -> int:
                done = 0
                while await indexer.index_next():
                    done += 1
                return done

            assert sum(await asyncio.gather(all_of(one.indexer), all_of(second))) == 8
            assert await one.count("knowledge_passages") == 8

    run(scenario())
