"""Many sources of tools behind one service: names, schemas and results are looked after in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hostler.domain.allowances import Allowances, WorkspaceEntry
from hostler.domain.tool_pins import ToolPin
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.sources import ToolSources
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, PayloadTooLargeError, to_fault
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_TOOL_ARGUMENT_BYTES
from support.invocations import pin_of

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Shelf:
    """A source whose tools give back what they are given."""

    def __init__(self, id_prefix: str, *names: str) -> None:
        self.id_prefix = id_prefix
        self.revision = 1
        self.called: list[ToolInvocation] = []
        self._tools = {name: self.tool(name) for name in names}

    def tool(self, name: str, **more: Any) -> OfferedTool:
        fields: dict[str, Any] = {"parameters": NUMBER} | more
        pin = ToolPin(
            tool_id=self.id_prefix + name, owner=self.id_prefix, schema_digest=digest(fields["parameters"])
        )
        return OfferedTool(ToolResource(tool_name=name, description=f"Is {name}."), pin, **fields)

    def change(self, name: str, **more: Any) -> None:
        self._tools[name] = self.tool(name, **more)
        self.revision += 1

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        return dict(self._tools)

    async def call(self, invocation: ToolInvocation) -> Any:
        self.called.append(invocation)
        return invocation.parameters["n"]

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        return Found(invocation.effect_key)


def invocation(pin: ToolPin | None, n: Any = 1) -> ToolInvocation:
    assert pin is not None
    name = pin.tool_id.partition(":")[2]
    return ToolInvocation(name, {"n": n}, "r", "c", "k", workspace_id="main", pin=pin)


async def test_each_tool_is_asked_of_the_source_that_has_it() -> None:
    left, right = Shelf("left:", "a"), Shelf("right:", "b")
    tools = ToolSources([left, right])
    assert set(tools.offered("main")) == {"a", "b"}
    assert (await tools.detail("main", "b")).description == "Is b."
    assert await tools.call(invocation(pin_of(tools, "main", "b"), 7)) == 7
    assert (len(left.called), len(right.called)) == (0, 1)
    assert pin_of(tools, "main", "c") is None
    with pytest.raises(NotFoundError, match="'c' is gone"):
        await tools.check("main", "c", {})
    with pytest.raises(ToolChangedError):
        await tools.call(invocation(ToolPin(tool_id="other:a", owner="o", schema_digest="0")))


async def test_a_tool_that_its_workspace_may_use_no_more_is_not_called() -> None:
    allowances = Allowances("home", [WorkspaceEntry(name="main", tools=["a", "b"])])
    shelf = Shelf("exec:", "a", "b")
    tools = ToolSources([shelf], allowances=allowances)
    pin = pin_of(tools, "main", "a")
    assert await tools.call(invocation(pin)) == 1
    allowances.replace([WorkspaceEntry(name="main", tools=["b"])])
    assert set(tools.offered("main")) == {"b"}
    assert tools.refused("main") == []
    assert set(tools.offered("home")) == {"a", "b"}
    with pytest.raises(ToolChangedError, match="workspace 'main' may not use tool 'a'"):
        await tools.call(invocation(pin))
    with pytest.raises(NotFoundError):
        await tools.check("main", "a", {"n": 1})
    assert len(shelf.called) == 1
    allowances.replace([WorkspaceEntry(name="main", tools=["a"])])
    assert await tools.call(invocation(pin)) == 1


async def test_a_name_that_two_sources_offer_is_nobodys_but_who_holds_the_tool_keeps_it() -> None:
    left, right = Shelf("left:", "a"), Shelf("right:")
    tools = ToolSources([left, right])
    pin = pin_of(tools, "main", "a")
    right.change("a")
    assert tools.offered("main") == {}
    assert [tool.pin.owner for tool in tools.refused("main")] == ["left:", "right:"]
    with pytest.raises(NotFoundError, match="left: and right:"):
        await tools.check("main", "a", {"n": 1})
    assert await tools.call(invocation(pin)) == 1


async def test_arguments_are_held_against_the_schema_as_it_stands() -> None:
    shelf = Shelf("left:", "a")
    tools = ToolSources([shelf])
    await tools.check("main", "a", {"n": 1})
    with pytest.raises(InvalidArgumentError, match="at /n"):
        await tools.check("main", "a", {"n": "one"})
    with pytest.raises(PayloadTooLargeError):
        await tools.check("main", "a", {"n": "x" * MAX_TOOL_ARGUMENT_BYTES})
    shelf.change("a", parameters={"type": "object", "properties": {"n": {"type": "string"}}})
    await tools.check("main", "a", {"n": "one"})
    shelf.change("a", parameters={"type": "nothing"})
    with pytest.raises(InvalidArgumentError, match="schema of tool 'a' can't be used"):
        await tools.check("main", "a", {})


async def test_a_result_that_is_not_what_the_tool_declares_is_its_failure() -> None:
    shelf = Shelf("left:")
    shelf.change("a", output_schema={"type": "integer"})
    tools = ToolSources([shelf])
    pin = pin_of(tools, "main", "a")
    assert await tools.call(invocation(pin, 1)) == 1
    with pytest.raises(ToolFailedError, match="not what it declares") as caught:
        await tools.call(invocation(pin, "one"))
    assert to_fault(caught.value).code == "runtime_error"
    assert len(shelf.called) == 2


async def test_a_tool_with_a_problem_is_told_of_and_not_called() -> None:
    shelf = Shelf("left:", "a")
    tools = ToolSources([shelf])
    pin = pin_of(tools, "main", "a")
    shelf.change("a", problem="it changed and waits to be confirmed")
    assert tools.offered("main") == {}
    assert [tool.problem for tool in tools.refused("main")] == ["it changed and waits to be confirmed"]
    with pytest.raises(NotFoundError, match="waits to be confirmed"):
        await tools.check("main", "a", {"n": 1})
    with pytest.raises(ToolChangedError, match="waits to be confirmed"):
        await tools.call(invocation(pin))
    assert shelf.called == []


async def test_only_a_reconcilable_tool_is_looked_up() -> None:
    tools = ToolSources([Shelf("left:", "a")])
    pin = pin_of(tools, "main", "a")
    with pytest.raises(InvalidArgumentError, match="can't tell"):
        await tools.lookup(invocation(pin))
    known = ToolPin(tool_id="left:a", owner="left:", schema_digest="0", effect="reconcilable")
    assert await tools.lookup(invocation(known)) == Found("k")


def test_two_sources_can_not_claim_the_same_ids() -> None:
    with pytest.raises(ValueError, match="left:"):
        ToolSources([Shelf("left:"), Shelf("left:more:")])
