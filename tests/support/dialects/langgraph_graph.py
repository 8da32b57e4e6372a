"""A graph for the maker's own server that plays the scripts of the player: say, ask, fail, wait, hold."""

import asyncio
import json
from pathlib import Path
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt


async def play(state: MessagesState) -> Any:
    """Take the steps of the newest message."""
    said = []
    for kind, *rest in json.loads(state["messages"][-1].content):
        match kind:
            case "say":
                text = rest[0]
            case "ask":
                text = f"answered: {json.dumps({'size': interrupt({'question': rest[0]})})}"
            case "fail":
                raise RuntimeError(rest[0])
            case "wait":
                while not await asyncio.to_thread(Path(rest[0]).exists):
                    await asyncio.sleep(0.02)
                continue
            case _:
                await asyncio.sleep(3600)
        model = GenericFakeChatModel(messages=iter([AIMessage(content=text)]))
        said.append(await model.ainvoke(state["messages"]))
    return {"messages": said}


graph = (
    StateGraph(MessagesState)
    .add_node("agent", play)
    .add_edge(START, "agent")
    .add_edge("agent", END)
    .compile()
)
