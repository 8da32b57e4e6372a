"""An agent of smolagents as a runner, by the model door alone. Its tool is a function that calls the run's.

smolagents can take tools from the run's MCP server, too (`ToolCollection.from_mcp`, `ctx.tools.mcp_url`), but
none with a parameter that may be null or is one of several values: it wants a single type for each.
"""

import asyncio

from hostler_sdk import RunContext, Runner


class Agent(Runner):
    """smolagents

    Answers with a ToolCallingAgent, which knows of a model's address and of a function.
    """

    capabilities = {"resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [{"name": "model", "type": "model-fallback-selector", "required": True}]

    async def run(self, ctx: RunContext):
        """Ask the agent in a thread: it blocks, and the door answers on this loop."""
        loop = asyncio.get_running_loop()

        def prices(kind: str) -> str:
            """Tells what a night costs, in euros.

            Args:
                kind: the kind of room: single, double or suite
            """
            call = ctx.tools.call("shop.prices", {"kind": kind})
            return str(asyncio.run_coroutine_threadsafe(call, loop).result())

        url, key = ctx.models.openai_url, ctx.models.openai_key
        return await asyncio.to_thread(answer, ctx.input.text, url, key, prices)


def answer(question: str, url: str, key: str, prices) -> str:
    """Return the agent's answer. The framework is imported here, since that takes seconds."""
    from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

    model = OpenAIModel("default", api_base=url, api_key=key)
    agent = ToolCallingAgent([tool(prices)], model, verbosity_level=LogLevel.OFF)
    return str(agent.run(question))
