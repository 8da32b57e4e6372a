"""A graph for the maker's own server that plays scripts of the player, all but files and state."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt


def script_of(state: Any) -> tuple[list[Any], list[ToolMessage]]:
    """The steps of the newest message, and what tools have returned since."""
    newest = max(place for place, one in enumerate(state["messages"]) if isinstance(one, HumanMessage))
    returned = [one for one in state["messages"][newest:] if isinstance(one, ToolMessage)]
    return json.loads(state["messages"][newest].content), returned


def answered(question: str) -> str:
    return f"answered: {json.dumps({'size': interrupt({'question': question})})}"


async def play(state: MessagesState) -> Command[Literal["tools", "question", "__end__"]]:
    """Take the steps up to the next call of a tool, or several questions at once."""
    steps, returned = script_of(state)
    said: list[Any] = []

    async def say(text: str) -> None:
        model = GenericFakeChatModel(messages=iter([AIMessage(content=text)]))
        said.append(await model.ainvoke(state["messages"]))

    for _ in returned:
        while steps.pop(0)[0] != "tool":
            pass
    if returned:
        result = json.dumps(json.loads(str(returned[-1].content)), ensure_ascii=False)
        await say(f"{returned[-1].name}: {result}")
    for kind, *rest in steps:
        match kind:
            case "say":
                await say(rest[0])
            case "ask":
                await say(answered(rest[0]))
            case "tool":
                call = {"name": rest[0], "args": rest[1], "id": rest[2], "type": "tool_call"}
                said.append(AIMessage(content="", tool_calls=[call]))
                return Command(update={"messages": said}, goto="tools")
            case "together":
                asked = [Send("question", {"question": question}) for _, question in rest[0]]
                return Command(update={"messages": said}, goto=asked)
            case "fail":
                raise RuntimeError(rest[0])
            case "wait":
                while not await asyncio.to_thread(Path(rest[0]).exists):
                    await asyncio.sleep(0.02)
            case _:
                await asyncio.sleep(3600)
    return Command(update={"messages": said}, goto=END)


async def tools(state: MessagesState) -> Any:
    """Tell what a thing costs."""
    (call,) = state["messages"][-1].tool_calls
    thing = call["args"]["thing"]
    result = json.dumps({"thing": thing, "euros": len(thing)}, ensure_ascii=False, separators=(",", ":"))
    return {"messages": [ToolMessage(result, name=call["name"], tool_call_id=call["id"])]}


async def question(state: Any) -> Any:
    """Ask one of several questions."""
    return {"messages": [AIMessage(content=answered(state["question"]))]}


graph = (
    StateGraph(MessagesState)
    .add_node("agent", play)
    .add_node("tools", tools)
    .add_node("question", question)
    .set_entry_point("agent")
    .add_edge("tools", "agent")
    .add_edge("question", END)
    .compile()
)
