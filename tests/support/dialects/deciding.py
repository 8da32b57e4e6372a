"""One port of clients for what a run asks people: each asks in its dialect, decides there, and reads the end.

A decision is `{"approved": ..., "editedArgs": ...}` or `{"happened": ..., "result": ...}`. A client whose
dialect has no word for one reads where to decide, has it decided there (`elsewhere`), and reads on.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.types import ElicitResult

from support.databases import TEST_SECONDS
from support.dialects import openai_chat, openai_responses
from support.dialects.a2a import a2a_client, got, message, told
from support.dialects.ag_ui import ag_ui_client
from support.dialects.ag_ui import texts_of as ag_ui_texts
from support.dialects.ai_sdk import AI, Front, texts
from support.dialects.langgraph import collect, interrupts_of, langgraph
from support.dialects.langgraph import texts_of as langgraph_texts
from support.dialects.mcp import Heard, accept, mcp_client
from support.dialects.mcp import texts_of as mcp_texts
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

Decision = dict[str, Any]
_places = (f"decided-{number}" for number in itertools.count())


BOTH = {"approved": True, "happened": True, "result": "so be it"}
"""The answer to an approval and to a call in doubt that wait together."""


def of(in_doubt: bool, decision: Decision) -> Decision:
    """Return the part of a decision that is for a call in doubt, or for an approval."""
    if decision != BOTH:
        return decision
    return {name: one for name, one in decision.items() if (name == "approved") != in_doubt}


class Outcome:
    """What a client was shown of a request, and the texts of the agent once it was decided."""

    def __init__(self, shown: Any, texts: list[str], requests: int = 1) -> None:
        self.shown = json.dumps(shown, ensure_ascii=False) if not isinstance(shown, str) else shown
        self.texts = texts
        self.requests = requests


class Deciding(ABC):
    """A client of one dialect."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.folder = folder
        self.place = next(_places)

    @abstractmethod
    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        """Say a text; take the decisions of what the run then asks, one after the other."""

    async def all_asked(self, decisions: tuple[Decision, ...]) -> bool:
        """Wait for what is to be decided at once; whether that is more than one request."""
        if BOTH not in decisions:
            return False
        async with asyncio.timeout(TEST_SECONDS):
            while True:
                pauses = (await self.served.client.get("/v1/pauses")).json()["items"]
                if sum(call["may_decide"] for pause in pauses for call in pause["calls"]) == 2:
                    return True
                await asyncio.sleep(0.02)

    async def elsewhere(self, decision: Decision) -> None:
        """Decide, over the host's own interface, what waits in the only run that does."""
        pauses = (await self.served.client.get("/v1/pauses")).json()["items"]
        (pause,) = [one for one in pauses if one["status"] in ("open", "needs_review")]
        (call,) = [one for one in pause["calls"] if one["may_decide"]]
        if "happened" in decision:
            path = f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve"
            body: dict[str, Any] = {"outcome": "happened", "result": decision["result"]}
        else:
            path = f"/v1/pauses/{pause['id']}/actions"
            edited = {"edited_args": decision["editedArgs"]} if "editedArgs" in decision else {}
            action = {
                "call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"], **edited
            }  # fmt: skip
            body = {"revision": pause["revision"], "actions": [action]}
        answer = await self.served.client.post(path, json=body)
        assert answer.is_success, answer.text


class Chat(Deciding):
    """OpenAI Chat Completions: a text says where to decide."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        async with openai_chat.client_of(self.served.url) as client:
            first = await client.chat.completions.create(
                model=agent, messages=[openai_chat.user(text)], extra_headers={"Hostler-On-Pause": "answer"}
            )
            shown = first.choices[0].message.content or ""
            for decision in decisions:
                await self.elsewhere(decision)
            whole: Any = await client.chat.completions.retrieve(first.id)
        assert "hostler pauses" in shown or "/v1/pauses" in shown
        return Outcome(shown, whole.hostler["messages"])


class Responses(Deciding):
    """OpenAI Responses: approvals alone have a word, which cannot edit."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        async with openai_responses.client_of(self.served.url) as client:
            first = await client.responses.create(model=agent, input=text)
            for decision in decisions:
                await self.elsewhere(decision)
            shown = first.model_dump_json()
            reading = await openai_responses.read(client, first.id)
            if reading.texts or first.status == "in_progress":
                return Outcome(shown, reading.texts)
            run_id = first.id.partition("_")[2]
            await self.served.client.get(f"/v1/runs/{run_id}/stream")
            record = (await self.served.client.get(f"/v1/runs/{run_id}")).json()
            return Outcome(shown, [one["content"] for one in record["output"]["messages"]])


class A2A(Deciding):
    """A2A: a data part answers each request."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        async with a2a_client(self.served.url, agent=agent) as client:
            found = await told(client, message(text, context_id=self.place))
            if await self.all_asked(decisions):
                found.take_task(await got(client, found.task_id))
            shown, number = found.requests, len(found.requests)
            for decision in decisions:
                given = [
                    {"id": one["id"], **of(one["kind"] == "in_doubt", decision)} for one in found.requests
                ]
                answer = message(*given, task_id=found.task_id)
                found = await told(client, answer)
                assert (await told(client, answer)).texts == found.texts
        return Outcome(shown, found.texts, number)


class AgUi(Deciding):
    """AG-UI: `resume` answers each interrupt."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        async with ag_ui_client(self.served.url, ADMIN_KEY, agent=agent, thread=self.place) as client:
            done = await client.run(text, runId="asked")
            if await self.all_asked(decisions):
                done = await client.command(run={"runId": "asked"})
            shown, number = [done["interrupts"], client.events[:]], len(done["interrupts"])
            for decision in decisions:
                resume = [
                    {
                        "interruptId": one["id"],
                        "status": "resolved",
                        "payload": of(one["reason"] == "hostler:in_doubt", decision),
                    }
                    for one in done["interrupts"]
                ]
                done = await client.command(run={"runId": "decided", "resume": resume})
                again = await client.command(run={"runId": "decided", "resume": resume})
                assert ag_ui_texts(again["messages"]) == ag_ui_texts(done["messages"])
                assert "failed" not in again
        return Outcome(shown, ag_ui_texts(done["messages"]), number)


class AiSdk(Deciding):
    """AI SDK: approvals and budgets have a word, which cannot edit; a call in doubt is a data part."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        front = Front(self.served, node_clients(AI), self.folder)
        asked = await front.chat({"send": text}, agent=agent, id=self.place)
        (decision,) = decisions
        if decision == {"approved": True}:
            approve = {"approved": True}
            done = await front.chat(approve, agent=agent, id=self.place, messages=asked["messages"])
        else:
            await self.elsewhere(decision)
            resume: dict[str, Any] = {"resume": True}
            done = await front.chat(resume, agent=agent, id=self.place, messages=asked["messages"], late=True)
        assert asked["errors"] == done["errors"] == []
        return Outcome([asked["messages"], asked["data"]], texts(done))


class LangGraph(Deciding):
    """LangGraph: `Command(resume)` answers each interrupt; an edit is in the words of its middleware."""

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        said = {"messages": [{"type": "human", "content": text}]}
        async with langgraph(self.served.url) as client:
            parts = await collect(client.runs.stream(self.place, agent, input=said, stream_mode="values"))
            found = interrupts_of(parts)
            await self.all_asked(decisions)
            state = await client.threads.get_state(self.place)
            assert state["tasks"][0]["interrupts"][: len(found)] == found
            found = state["tasks"][0]["interrupts"]
            shown, number, values = found, len(found), None
            for decision in decisions:
                resume = {one["id"]: self._words(decision, one) for one in found}
                values = await client.runs.wait(self.place, agent, command={"resume": resume})
                again = await client.runs.wait(self.place, agent, command={"resume": resume})
                assert again == values
                found = values.get("__interrupt__", [])
        return Outcome(shown, langgraph_texts(values), number)

    def _words(self, decision: Decision, interrupt: Any) -> Decision:
        if "editedArgs" not in decision:
            return of("happened" in json.dumps(interrupt), decision)
        (request,) = interrupt["value"]["action_requests"]
        edited = {"name": request["name"], "args": decision["editedArgs"]}
        return {"decisions": [{"type": "edit", "edited_action": edited}]}


class Mcp(Deciding):
    """MCP: forms, in one call; a form cannot edit."""

    mode = "2026-07-28"

    async def decide(self, agent: str, text: str, *decisions: Decision) -> Outcome:
        heard = Heard()
        left = list(decisions)

        async def answer(params: Any) -> ElicitResult:
            decision = left[0] if left[0] == BOTH else left.pop(0)
            if "editedArgs" in decision:
                await self.elsewhere(decision)
                return ElicitResult(action="cancel")
            return accept(**of("happened" in params.requested_schema["properties"], decision))

        async with mcp_client(self.served.url, ADMIN_KEY, self.mode, heard=heard, answer=answer) as client:
            result = await client.call_tool(agent, {"message": text})
        return Outcome([one.message for one in heard.asked], mcp_texts(result), len(heard.asked))


class McpSession(Mcp):
    """MCP with a session."""

    mode = "legacy"


Make = Callable[[Served, Path], Deciding]
CLIENTS: dict[str, Make] = {
    "openai-chat": Chat,
    "openai-responses": Responses,
    "a2a": A2A,
    "ag-ui": AgUi,
    "ai-sdk": AiSdk,
    "langgraph": LangGraph,
    "mcp": Mcp,
    "mcp-session": McpSession,
}
