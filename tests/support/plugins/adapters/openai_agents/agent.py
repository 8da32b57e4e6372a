"""The agent of the suite in the OpenAI Agents SDK."""

from agents import Agent, function_tool

from hostler_adapters.openai_agents import runner


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


Suite = runner(Agent(name="suite", instructions="Be brief.", tools=[pay]), name="suite")
