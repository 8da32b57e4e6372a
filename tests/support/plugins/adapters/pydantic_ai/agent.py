"""The agent of the suite in Pydantic AI."""

from pydantic_ai import Agent

from hostler_adapters.pydantic_ai import runner

agent = Agent(instructions="Be brief.")


@agent.tool_plain(requires_approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


Suite = runner(agent, name="suite")
