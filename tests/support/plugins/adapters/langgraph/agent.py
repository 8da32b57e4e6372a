"""The agent of the suite in LangGraph."""

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from hostler_adapters.langgraph import host_tools, model, runner

chat = model()


@tool
def pay(amount: int) -> str:
    """Pays."""
    said = interrupt({"question": f"Pay {amount}?", "actions": ["approve", "deny"]})
    return f"paid {amount}" if said == "approve" else "a person refused this call"


async def build(ctx):
    tools = [pay, *await host_tools()]
    bound = chat.bind_tools(tools)

    def agent(state: MessagesState):  # a plain function: LangGraph calls it in a thread
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile()


Suite = runner(build, name="suite")
