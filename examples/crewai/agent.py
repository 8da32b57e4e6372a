"""A crew of CrewAI as a runner, by the model door alone. Its tools are functions that call those of the run.

CrewAI has a client for MCP, too. It puts the server's address into the names of tools, and the door's port is
another one in each process: a resumed run would not find the answers to what it asked before.
"""

import asyncio
import os

from hostler_sdk import RunContext, Runner


class Agent(Runner):
    """CrewAI

    Answers with a crew of one agent, which knows of a model's address and of a function.
    """

    capabilities = {"resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [{"name": "model", "type": "model-fallback-selector", "required": True}]

    async def run(self, ctx: RunContext):
        """Have the crew work in a thread: it blocks, and the door answers on this loop."""
        loop = asyncio.get_running_loop()

        def prices(kind: str) -> str:
            """Return what a night costs, in euros. kind: single, double or suite."""
            call = ctx.tools.call("shop.prices", {"kind": kind})
            return str(asyncio.run_coroutine_threadsafe(call, loop).result())

        url, key = ctx.models.openai_url, ctx.models.openai_key
        return await asyncio.to_thread(answer, ctx.input.text, url, key, prices)


def answer(question: str, url: str, key: str, prices) -> str:
    """Return the crew's answer. The framework is imported here, since that takes ten seconds."""
    os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    clerk = Agent(
        role="Clerk",
        goal="Answer questions",
        backstory="You work in a hotel.",
        llm=LLM("openai/default", base_url=url, api_key=key),
        tools=[tool("prices")(prices)],
    )
    task = Task(description=question, expected_output="A short answer", agent=clerk)
    return Crew(agents=[clerk], tasks=[task]).kickoff().raw
