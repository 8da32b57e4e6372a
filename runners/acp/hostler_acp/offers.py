"""What the run offers to its agent: tools, as an MCP server of the session, and a model, by variables."""

from __future__ import annotations

import sys
from pathlib import Path

from acp.schema import AgentCapabilities, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from hostler_acp.failures import AcpFailure
from hostler_sdk import RunContext
from hostler_sdk.errors import RuntimeFailure

NAME = "hostler"
BRIDGE = Path(__file__).with_name("mcp_bridge.py")
McpServers = list[HttpMcpServer | McpServerStdio]


def mcp_servers(ctx: RunContext, capabilities: AgentCapabilities | None) -> McpServers:
    """Return the run's server as the agent can reach it: by HTTP, else by a program that passes it on.

    Without a tool there is none. Raises AcpFailure where the plugin's process may not listen.
    """
    if not any("call" in tool.operations for tool in ctx.resources.tools):
        return []
    try:
        url, headers = ctx.tools.mcp_url, ctx.tools.mcp_headers
    except RuntimeFailure as error:
        raise _refused("tools", error, "set config `offer-tools` to false") from error
    if capabilities is not None and capabilities.mcp_capabilities and capabilities.mcp_capabilities.http:
        listed = [HttpHeader(name=name, value=value) for name, value in headers.items()]
        return [HttpMcpServer(type="http", name=NAME, url=url, headers=listed)]
    variables = [
        EnvVariable(name="HOSTLER_MCP_URL", value=url),
        EnvVariable(name="HOSTLER_MCP_AUTHORIZATION", value=headers["authorization"]),
    ]
    return [McpServerStdio(name=NAME, command=sys.executable, args=["-I", str(BRIDGE)], env=variables)]


def model_variables(ctx: RunContext) -> dict[str, str]:
    """Return what leads programs that talk to OpenAI or Anthropic to the run's model, if one is chosen.

    Raises AcpFailure where the plugin's process may not listen.
    """
    if not ctx.config.get("model") or not ctx.resources.models:
        return {}
    try:
        return {**ctx.models.openai_variables, **ctx.models.anthropic_variables}
    except RuntimeFailure as error:
        raise _refused("model", error, "leave config `model` out") from error


def run_keys(ctx: RunContext) -> list[str]:
    """Return the key of the run, if the agent gets it, so that no text shows it."""
    if not ctx.resources.tools and not ctx.resources.models:
        return []
    try:
        return [ctx.models.openai_key]
    except RuntimeFailure:
        return []  # what needs it says so


def _refused(what: str, error: RuntimeFailure, way_out: str) -> AcpFailure:
    return AcpFailure(
        "loopback_refused",
        f"the run's {what} cannot be offered to the agent: {error.message}. Run the host where bubblewrap "
        f"works, or {way_out}",
    )
