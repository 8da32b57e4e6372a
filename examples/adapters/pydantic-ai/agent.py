"""A clerk in Pydantic AI: model and tools are those of the run."""

from pydantic_ai import Agent

from hostler_adapters.pydantic_ai import runner

agent = Agent(instructions="You are a clerk in a hotel. Be brief.")
Clerk = runner(agent, name="clerk")
