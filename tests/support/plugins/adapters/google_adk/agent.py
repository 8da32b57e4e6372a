"""The agent of the suite in Google's ADK."""

from google.adk.agents import LlmAgent
from google.adk.tools import FunctionTool

from hostler_adapters.google_adk import host_tools, model, runner


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


agent = LlmAgent(
    name="suite",
    model=model(),
    instruction="Be brief.",
    tools=[host_tools(), FunctionTool(pay, require_confirmation=True)],
)
Suite = runner(agent, name="suite")
