"""The agent of the suite in the Claude Agent SDK."""

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from hostler_adapters.claude_agent import runner


@tool("pay", "Pays.", {"amount": int})
async def pay(given):
    return {"content": [{"type": "text", "text": f"paid {given['amount']}"}]}


options = ClaudeAgentOptions(
    system_prompt="Be brief.", tools=[], mcp_servers={"own": create_sdk_mcp_server("own", tools=[pay])}
)
Suite = runner(options, name="suite")
