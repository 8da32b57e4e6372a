"""A program of DSPy as a runner, by the model door and the run's own MCP server alone."""

import asyncio
import importlib
import os

from hostler_sdk import RunContext, Runner


class Agent(Runner):
    """DSPy

    Answers with a ReAct module, which knows of a model's address and of a server with tools.
    """

    capabilities = {"resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [{"name": "model", "type": "model-fallback-selector", "required": True}]

    async def run(self, ctx: RunContext):
        """Run the module on this loop: it is asynchronous, and so are its tools."""
        dspy = await loaded()
        httpx2 = importlib.import_module("httpx2")
        mcp = importlib.import_module("mcp")
        transport = importlib.import_module("mcp.client.streamable_http")
        model = dspy.LM(
            "openai/default", api_base=ctx.models.openai_url, api_key=ctx.models.openai_key, cache=False
        )
        async with (
            httpx2.AsyncClient(headers=ctx.tools.mcp_headers, timeout=None) as http,
            mcp.Client(transport.streamable_http_client(ctx.tools.mcp_url, http_client=http)) as server,
        ):
            listed = await server.list_tools()
            tools = [dspy.Tool.from_mcp_tool(server, tool) for tool in listed.tools]
            with dspy.context(lm=model):
                answer = await dspy.ReAct("question -> answer", tools).acall(question=ctx.input.text)
        return answer.answer


async def loaded():
    """Import the framework in a thread: it takes ten seconds, and the host's pings have to be answered."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else LiteLLM downloads a file
    dspy = await asyncio.to_thread(importlib.import_module, "dspy")
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)  # the host keeps the answers
    return dspy
