"""A clerk in the OpenAI Agents SDK: model and tools are those of the run."""

from agents import Agent

from hostler_adapters.openai_agents import runner

Clerk = runner(Agent(name="Clerk", instructions="You are a clerk in a hotel. Be brief."), name="clerk")
