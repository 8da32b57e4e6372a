"""The agents that the runner knows by name."""

from __future__ import annotations

from typing import Final, NamedTuple


class Provider(NamedTuple):
    """A coding agent: `command` speaks the protocol over stdio, `key_variable` has the key of its models."""

    title: str
    command: str
    key_variable: str
    install: str


PROVIDERS: Final[dict[str, Provider]] = {
    "claude-code": Provider(
        "Claude Code",
        "claude-agent-acp",
        "ANTHROPIC_API_KEY",
        "npm install -g @agentclientprotocol/claude-agent-acp",
    ),
    "codex": Provider(
        "Codex", "codex-acp", "OPENAI_API_KEY", "npm install -g @agentclientprotocol/codex-acp"
    ),
    "gemini": Provider("Gemini CLI", "gemini --acp", "GEMINI_API_KEY", "npm install -g @google/gemini-cli"),
    "opencode": Provider("OpenCode", "opencode acp", "", "npm install -g opencode-ai"),
    "custom": Provider("The agent", "", "", ""),
}
