"""An agent of LlamaIndex as a runner, by the model door and the run's own MCP server alone."""

import asyncio
import importlib

from hostler_sdk import RunContext, Runner, delta, message

CONTEXT_TOKENS = 128_000
"""What the framework takes for the size of the model's window: it cannot know the model."""


class Agent(Runner):
    """LlamaIndex

    Answers with a FunctionAgent, which knows of a model's address and of a server with tools.
    """

    capabilities = {"streaming", "resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [{"name": "model", "type": "model-fallback-selector", "required": True}]

    async def run(self, ctx: RunContext):
        """Stream the agent's answer."""
        workflow = await loaded("llama_index.core.agent.workflow")
        models = await loaded("llama_index.llms.openai_like")
        mcp = await loaded("llama_index.tools.mcp")
        server = mcp.BasicMCPClient(ctx.tools.mcp_url, headers=ctx.tools.mcp_headers)
        model = models.OpenAILike(
            "default",
            api_base=ctx.models.openai_url,
            api_key=ctx.models.openai_key,
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=CONTEXT_TOKENS,
        )
        tools = await mcp.McpToolSpec(server).to_tool_list_async()
        agent = workflow.FunctionAgent(tools=tools, llm=model)
        answering = agent.run(ctx.input.text)
        async for event in answering.stream_events():
            if isinstance(event, workflow.AgentStream) and event.delta:
                yield delta(event.delta)
        yield message(str(await answering))


async def loaded(module):
    """Import a module in a thread: this framework takes seconds, and the host's pings have to be answered."""
    return await asyncio.to_thread(importlib.import_module, module)
