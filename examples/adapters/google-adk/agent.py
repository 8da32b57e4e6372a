"""A clerk in Google's ADK: model and tools are those of the run."""

from google.adk.agents import LlmAgent

from hostler_adapters.google_adk import host_tools, model, runner

agent = LlmAgent(
    name="clerk",
    model=model(),
    instruction="You are a clerk in a hotel. Be brief.",
    tools=[host_tools()],
)
Clerk = runner(agent, name="clerk")
