"""What a run's token opens, as MCP lists it: what its grant holds, as it stood when the grant was built."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hostler.calls.executor import CallExecutor
from hostler.calls.run_tokens import RunAccess
from hostler.domain.agents import ResourcePolicy
from hostler.domain.tool_pins import ToolPin
from hostler.http.asset_gateway.tool_list import HOST_CALL_TOOLS, call_of, definitions
from hostler.http.mcp.messages import RpcError
from hostler.tools.port import OfferedTool
from hostler_protocol.calls import CALLS, RetrieveParams
from support.grants import agent_of, catalog_of, grant_of

CATALOG = catalog_of(tools=["call_tool", "search", "send"], knowledge_bases=["handbook", "prices"])


def access_of(**policy: Any) -> RunAccess:
    agent = agent_of(resource_policy=ResourcePolicy(**policy))
    grant = grant_of(agent=agent, catalog=CATALOG)
    return RunAccess("r", grant, cast("CallExecutor", None), 0.0, "digest", may_wait=True)


def offered(**pins: ToolPin) -> dict[str, OfferedTool]:
    tools = CATALOG.tools.items()
    return {name: OfferedTool(tool, pins.get(name) or CATALOG.tool_pins[name]) for name, tool in tools}


def names(access: RunAccess, tools: dict[str, OfferedTool]) -> list[str]:
    return [tool["name"] for tool in definitions(access, tools)]


def test_every_offer_is_a_call_and_takes_nothing_that_the_call_does_not() -> None:
    for offer in HOST_CALL_TOOLS.values():
        assert set(offer.properties) < set(CALLS[offer.method].params.__struct_fields__)
        assert set(offer.required) <= set(offer.properties)
        assert "run_id" not in offer.properties


def test_only_what_the_grant_holds_is_listed_as_it_stood() -> None:
    bare = access_of()
    assert not {"call_tool", "retrieve_knowledge"} & set(names(bare, offered()))
    assert {"history_page", "state_set", "artifact_read"} < set(names(bare, offered()))
    access = access_of(allowed_tool_names=["*"], allowed_kb_ids=["prices"])
    assert names(access, offered()).count("call_tool") == 1  # the tool of that name is reached through it
    assert names(access, offered())[-2:] == ["search", "send"]
    changed = ToolPin(tool_id="plugin:acme/any#send", owner="acme/any", schema_digest="1")
    assert "send" not in names(access, offered(send=changed))
    assert "search" not in names(access, {})
    (knowledge,) = [one for one in definitions(access, {}) if one["name"] == "retrieve_knowledge"]
    assert knowledge["inputSchema"]["properties"]["kb_id"]["enum"] == ["prices"]


def test_a_call_is_of_the_tokens_run_whatever_it_says() -> None:
    access = access_of(allowed_kb_ids=["prices"])
    arguments = {"kb_id": "prices", "query_text": "tea", "top_k": 2}
    method, params = call_of(access, {"name": "retrieve_knowledge", "arguments": arguments})
    assert method == "knowledge.retrieve"
    assert params == RetrieveParams(run_id="r", kb_id="prices", query_text="tea", top_k=2)
    with pytest.raises(RpcError, match="takes no 'run_id'"):
        call_of(access, {"name": "retrieve_knowledge", "arguments": arguments | {"run_id": "other"}})
    method, params = call_of(
        access, {"name": "artifact_read", "arguments": {"artifact_id": "a", "limit": 10**9}}
    )
    assert (method, cast("Any", params).limit) == ("artifact.read", 512 * 1024)
