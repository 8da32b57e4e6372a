"""local-agent searches knowledge bases of the host; a service orders what was found. All over real wires."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.domain.model_entries import ModelEntry
from hostler_protocol.calls import KnowledgeItem, RetrieveReply
from hostler_protocol.errors import NotFoundError, UnavailableError
from hostler_protocol.grants import KnowledgeBaseResource
from support.agent_host import ask, hosting, record
from support.http_host import Event, Served
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer

PASSAGES = {
    "house": ["Breakfast is at seven.", "Dogs are welcome.", "The pool closes at nine."],
    "town": ["The museum is free on Sundays.", "The last tram leaves at midnight."],
}


class Library:
    """A knowledge service: its bases are found by order, `broken` does not answer."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.gone = False
        """Whether the base of that name is."""

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        names = [*PASSAGES, "broken", "secret", *([] if self.gone else ["gone"])]
        return {
            name: KnowledgeBaseResource(kb_id=name, kb_name=name.title(), operations=["list", "retrieve"])
            for name in names
        }

    async def retrieve(
        self,
        workspace_id: str,
        kb_id: str,
        query_text: str,
        *,
        top_k: int,
        filters: dict[str, Any] | None,
        deadline: float | None,
    ) -> RetrieveReply:
        self.asked.append({"workspace": workspace_id, "kb": kb_id, "query": query_text, "top_k": top_k})
        assert deadline is not None
        if kb_id == "broken":
            raise UnavailableError("the index of 'broken' is being built; try again in a minute")
        found = PASSAGES.get(kb_id)
        if found is None:
            raise NotFoundError(f"there is no knowledge base {kb_id!r}")
        items = [
            KnowledgeItem(content=text, score=1.0 - 0.1 * n, metadata={"source": f"{kb_id}.md"})
            for n, text in enumerate(found[:top_k])
        ]
        return RetrieveReply(items=items)


def reranked(request: Recorded) -> bytes:
    """The answer of a rerank service: documents about dogs first; it lists them in its own order."""
    given = request.json
    scores = [(n, 0.9 if "Dogs" in text else 0.5 - n / 100) for n, text in enumerate(given["documents"])]
    best = sorted(scores, key=lambda pair: -pair[1])[: given["top_n"]]
    results = [{"index": n, "relevance_score": score} for n, score in reversed(best)]
    whole = {"id": "rerank-1", "results": results, "meta": {"billed_units": {"search_units": 1}}}
    return json.dumps(whole).encode()


def hosted(folder: Path, server: ModelServer, library: Library, **config: Any) -> Any:
    judge = ModelEntry(id="judge", type="rerank", base_url=server.base_url, model="judge", api_key="k")
    whole = {"knowledge_bases": ["house", "town"], **config}
    return hosting(folder, server, config=whole, extra_models=[judge], knowledge=library)


def last(server: ModelServer) -> str:
    messages = [request.json["messages"] for request in server.requests if "messages" in request.json]
    return str(messages[-1][-1]["content"])


async def said(served: Served, found: list[Event]) -> str:
    one = await record(served, found)
    assert one["status"] == "completed", one
    return str(one["output"]["text"])


async def logged(served: Served, found: list[Event]) -> str:
    """What the runner noted in its journal."""
    run_id = json.loads(found[0].data)["run_id"]
    return (await served.client.get(f"/v1/runs/{run_id}/journal?limit=100")).text


async def test_what_was_found_stands_before_the_message_best_first(tmp_path: Path) -> None:
    library = Library()
    async with ModelServer(api_key="k") as server, hosted(tmp_path, server, library) as served:
        server.always("Yes.")
        assert await said(served, await ask(served, "May I bring my dog?")) == "Yes."
        assert library.asked == [
            {"workspace": "default", "kb": kb, "query": "May I bring my dog?", "top_k": 5}
            for kb in ("house", "town")
        ]
        told = last(server)
        assert told.startswith("Passages from the knowledge base, best first.")
        assert "[1] (house.md) Breakfast is at seven.\n\n[2] (town.md) The museum is free" in told
        assert told.endswith("The message:\nMay I bring my dog?")
        # the history keeps what was said, not what was looked up for it
        await ask(served, "And a cat?")
        history = [m["content"] for m in server.requests[-1].json["messages"][1:-1]]
        assert history == ["May I bring my dog?", "Yes."]


async def test_a_service_orders_what_was_found(tmp_path: Path) -> None:
    library = Library()
    more = {"rerank_model": "judge", "rerank_top_k": 2, "retrieval_top_k": 2}
    async with ModelServer(api_key="k") as server, hosted(tmp_path, server, library, **more) as served:
        server.add(Answer(body=reranked), model="judge")
        server.say("They are.")
        await ask(served, "Are dogs welcome?")
        ordering, _ = server.requests
        assert ordering.path == "/v1/rerank"
        assert ordering.json == {
            "model": "judge",
            "query": "Are dogs welcome?",
            "documents": [*PASSAGES["house"][:2], *PASSAGES["town"]],
            "top_n": 2,
        }
        told = last(server)
        assert "[1] (house.md) Dogs are welcome.\n\n[2] (house.md) Breakfast is at seven.\n\nThe" in told
        assert "museum" not in told

        server.fail(500, "no", model="judge", times=3)
        server.say("Without order.")
        found = await ask(served, "And cats?")
        assert await said(served, found) == "Without order."
        assert "the passages were not ordered by 'judge'" in await logged(served, found)
        assert "[2]" in last(server)
        assert "[3]" not in last(server)


async def test_what_cannot_be_searched_costs_no_answer(tmp_path: Path) -> None:
    library = Library()
    bases = {"knowledge_bases": ["broken", "gone", "town"]}
    async with ModelServer(api_key="k") as server, hosted(tmp_path, server, library, **bases) as served:
        library.gone = True
        server.say("At midnight.")
        found = await ask(served, "When is the last tram?")
        assert await said(served, found) == "At midnight."
        notes = await logged(served, found)
        assert "'broken' was not searched: the index of 'broken' is being built" in notes
        assert "knowledge base 'gone' is not granted" in notes
        assert [asked["kb"] for asked in library.asked] == ["broken", "town"]
        assert "[2] (town.md) The last tram leaves at midnight." in last(server)


async def test_a_run_finds_a_passage_of_a_base_that_the_host_keeps(tmp_path: Path) -> None:
    """From a document of a person to what a model is told, with nothing in between but the host."""
    rules = "# House\n\n## Pets\n\nDogs are welcome.\n\n## Times\n\nBreakfast is at seven.\n"
    async with ModelServer(api_key="k") as server, hosting(tmp_path, server) as served:
        server.always("They are.")
        client = served.client
        spec = (await client.get("/v1/agents/chat")).json()["spec"]
        spec["config"]["knowledge-bases"] = ["house"]
        refused = await client.put("/v1/agents/chat", json=spec)
        assert "there is no knowledge base 'house'" in refused.text
        assert (await client.post("/v1/knowledge", json={"kb_id": "house"})).status_code == 201
        assert (await client.put("/v1/agents/chat", json=spec)).status_code == 200
        put = await client.put("/v1/knowledge/house/documents/rules.md", content=rules.encode())
        assert put.status_code == 201
        async with asyncio.timeout(100):
            while (await client.get("/v1/knowledge/house")).json()["passages"] < 2:
                await asyncio.sleep(0.02)
        assert await said(served, await ask(served, "May I bring my dogs?")) == "They are."
        assert "[1] (rules.md) Dogs are welcome.\n\nThe message:" in last(server)
        assert "Breakfast" not in last(server)
        assert (await client.delete("/v1/knowledge/house")).status_code == 204
        found = await ask(served, "And my other dogs?")
        assert await said(served, found) == "They are."
        assert "knowledge base 'house' is not granted" in await logged(served, found)
