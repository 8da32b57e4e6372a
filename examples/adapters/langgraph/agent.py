"""A clerk in LangGraph: a model and a node of tools, which are those of the run."""

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from hostler_adapters.langgraph import host_tools, model, runner

INSTRUCTIONS = ("system", "You are a clerk in a hotel. Be brief.")
chat = model()


async def build(ctx):
    """Build the graph of a run: its tools are known then."""
    tools = await host_tools()
    bound = chat.bind_tools(tools)

    def clerk(state: MessagesState):
        return {"messages": [bound.invoke([INSTRUCTIONS, *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("clerk", clerk)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "clerk")
    graph.add_conditional_edges("clerk", tools_condition)
    graph.add_edge("tools", "clerk")
    return graph.compile()


Clerk = runner(build, name="clerk")
