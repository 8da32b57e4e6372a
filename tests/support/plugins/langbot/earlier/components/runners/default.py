"""A runner of the generation before the published SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from langbot_plugin.api.agent_tools import (
    LANGBOT_AGENT_GATEWAY_SERVER_NAME,
    AgentAssetGateway,
    AgentAssetGatewayRegistration,
    AgentRunMCPBridge,
    get_default_agent_asset_gateway,
)
from langbot_plugin.api.definition.components.agent_runner.runner import AgentRunner
from langbot_plugin.api.entities.builtin.agent_runner import (
    AgentRunContext,
    AgentRunnerCapabilities,
    AgentRunnerManifest,
    AgentRunnerPermissions,
    AgentRunResult,
    AgentRunResultType,
)
from langbot_plugin.api.entities.builtin.agent_runner.result import MessageDeltaPayload
from langbot_plugin.api.entities.builtin.provider.message import Message, MessageChunk
from langbot_plugin.api.proxies.agent_run import AgentRunAdminAPIProxy, AgentRunAPIProxy
from langbot_plugin.api.proxies.agent_run.context import AgentRunContextAPIMixin
from langbot_plugin.api.proxies.agent_run_api import PermissionDeniedError

ALL = (
    AgentRunnerCapabilities,
    AgentRunnerManifest,
    AgentRunnerPermissions,
    AgentRunAdminAPIProxy,
    AgentRunContextAPIMixin,
    MessageDeltaPayload,
    AgentAssetGateway,
    AgentAssetGatewayRegistration,
    AgentRunMCPBridge,
    LANGBOT_AGENT_GATEWAY_SERVER_NAME,
    PermissionDeniedError,
    get_default_agent_asset_gateway,
)


class OldPuppet(AgentRunner):
    async def run(self, ctx: AgentRunContext) -> AsyncGenerator[AgentRunResult, None]:
        api = AgentRunAPIProxy(ctx=ctx, plugin_runtime_handler=self.plugin.plugin_runtime_handler)
        text = ctx.input.to_text()
        if text == "wait":
            while (await api.run_get()).cancel_requested_at is None:
                await api.run_get()
            return
        if text.startswith("tool "):
            result = await api.call_tool(text.removeprefix("tool "), {"thing": "lamp"})
            yield AgentRunResult.message_completed(
                ctx.run_id, Message(role="assistant", content=json.dumps(result))
            )
            return
        whole = ""
        for word in ("You ", "said ", f"{text}."):
            whole += word
            yield AgentRunResult.message_delta(ctx.run_id, MessageChunk(role="assistant", content=whole))
        result = AgentRunResult.run_completed(ctx.run_id)
        assert result.type == AgentRunResultType.RUN_COMPLETED
        yield result
