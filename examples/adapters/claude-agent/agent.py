"""A clerk in the Claude Agent SDK: model and tools are those of the run, and no built-in tools."""

from claude_agent_sdk import ClaudeAgentOptions

from hostler_adapters.claude_agent import runner

options = ClaudeAgentOptions(system_prompt="You are a clerk in a hotel. Be brief.", tools=[])
Clerk = runner(options, name="clerk")
