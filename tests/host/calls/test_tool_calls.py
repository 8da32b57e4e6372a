"""The ledger of tool calls: what it refuses before a tool is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from hostler.calls.tool_calls import ToolCalls
from hostler.domain.agents import ResourcePolicy
from hostler.domain.recording import CallName
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.run_log import RunLog
from hostler.storage.sql.database import SqlDatabase
from hostler.tools.port import ToolInvocation, ToolService
from hostler_protocol.calls import ToolCallParams
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError, UnauthorizedError
from support.call_world import catalog, world_of
from support.grants import agent_of, grant_of


class Refusing:
    """Tools that take no arguments, and may not be called."""

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        if parameters:
            raise InvalidArgumentError(f"{tool_name} takes nothing")

    async def call(self, invocation: ToolInvocation) -> Any:
        raise AssertionError(f"{invocation.tool_name} was called")


@pytest.mark.parametrize(
    ("tool", "parameters", "approval", "expected", "words"),
    [
        ("gone", {}, "never", NotFoundError, "'gone' is gone since this run began"),
        ("search", {"x": 1}, "never", InvalidArgumentError, "search takes nothing"),
        ("search", {"x": 1}, "required", InvalidArgumentError, "search takes nothing"),
        ("search", {}, "required", UnauthorizedError, "needs a person or a client"),
    ],
)
async def test_what_is_refused_before_the_tool_is_asked(
    database: SqlDatabase,
    tmp_path: Path,
    tool: str,
    parameters: dict[str, Any],
    approval: Any,
    expected: type[HostlerError],
    words: str,
) -> None:
    async with world_of(database, tmp_path) as world:
        policy = ResourcePolicy(allowed_tool_names=["s*"], tool_approval={"search": approval})
        grant = grant_of(agent=agent_of(resource_policy=policy), catalog=catalog(world.services.models))
        scope = world.caller(grant=grant).scope()
        services = replace(scope.services, tools=cast("ToolService", Refusing()))
        calls = ToolCalls(replace(scope, services=services), cast("RunLog", None), cast("CallLog", None))
        params = ToolCallParams(run_id=scope.run_id, tool_name=tool, parameters=parameters)
        record = CallRecord(CallName("tool.call", "d", 1), params)
        with pytest.raises(expected, match=words):
            await calls.call(record, None)
        assert not calls.begun
