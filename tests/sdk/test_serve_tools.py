"""Tools served by the SDK, in real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PluginProtocolError,
    from_fault,
    to_fault,
)
from hostler_protocol.events import Actor
from hostler_protocol.limits import MAX_MESSAGE_BYTES, MAX_RESULT_BYTES
from hostler_protocol.manifest import RunnerList, ToolManifest
from hostler_protocol.methods import NoParams
from hostler_protocol.tools import ToolCallContext, ToolCancelNote, ToolInvokeParams, ToolLookupParams
from hostler_sdk.conformance.process import PluginUnderTest
from hostler_sdk.loading import PluginLoadError, load_folder
from support.child_plugins import EXAMPLES, folder_plugin, within

SECONDS = 110.0
TOOLBOX = Path(__file__).parents[1] / "support" / "plugins" / "toolbox"
CONTEXT = ToolCallContext(run_id="r1", call_id="c1", effect_key="k1")


def with_toolbox(
    body: Callable[[PluginUnderTest], Awaitable[None]], folder: Path = TOOLBOX, **extra: str
) -> None:
    async def whole() -> None:
        async with folder_plugin(folder, **extra).started() as plugin:
            await body(plugin)
            assert plugin.junk is None

    within(SECONDS, whole)


def invoke(tool: str, context: ToolCallContext = CONTEXT, /, **parameters: Any) -> ToolInvokeParams:
    return ToolInvokeParams(tool_name=tool, parameters=parameters, context=context)


async def call(plugin: PluginUnderTest, tool: str, /, **parameters: Any) -> Any:
    return (await plugin.session.request("tool/call", invoke(tool, **parameters))).result


async def refusal(plugin: PluginUnderTest, tool: str, /, **parameters: Any) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        await call(plugin, tool, **parameters)
    return from_fault(to_fault(caught.value))


def test_a_plugin_with_tools_alone_is_served_and_lists_them() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        runners: RunnerList = await plugin.session.request("runners/list", NoParams())
        assert runners.runners == []
        listed = await plugin.session.request("tools/list", NoParams())
        tools = {
            one.name: one for raw in listed.tools if (one := msgspec.json.decode(raw, type=ToolManifest))
        }
        assert tools["echo"].effect == "pure"
        assert tools["keep"].effect == "reconcilable"
        assert tools["hold"].effect == "default"
        assert (tools["ask_client"].client, tools["ask_client"].approval) == (True, "required")
        assert tools["large"].parameters["properties"] == {"size": {"type": "integer"}}
        assert tools["large"].output_schema == {"type": "string"}
        assert tools["echo"].output_schema is None

    with_toolbox(body)


def test_the_context_arrives_whole() -> None:
    given = ToolCallContext(
        run_id="r", call_id="c", effect_key="k", workspace_id="w", actor=Actor(actor_id="ada"), deadline=5.5
    )

    async def body(plugin: PluginUnderTest) -> None:
        told = (await plugin.session.request("tool/call", invoke("whose", given))).result
        assert told == {
            "run_id": "r",
            "call_id": "c",
            "effect_key": "k",
            "workspace_id": "w",
            "actor": "ada",
            "deadline": 5.5,
        }

    with_toolbox(body)


def test_many_calls_wait_at_once_and_a_ping_is_answered() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        names = [f"h{number}" for number in range(100)]
        waiting = [asyncio.create_task(call(plugin, "hold", name=name)) for name in names]
        for name in names:
            await call(plugin, "held", name=name)
        await plugin.ping()
        for name in reversed(names):
            await call(plugin, "release", name=name)
        assert await asyncio.gather(*waiting) == names

    with_toolbox(body)


def test_plain_code_that_blocks_does_not_stop_the_others() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        began = asyncio.create_task(call(plugin, "held", name="t"))
        await call(plugin, "echo")  # `held` has said how a thread tells that it began
        waiting = asyncio.create_task(call(plugin, "hold_in_thread", name="t"))
        await began
        await plugin.ping()
        assert await call(plugin, "echo", value=1) == 1
        await call(plugin, "release", name="t")
        assert await waiting == "t"

    with_toolbox(body)


async def ask_and_cancel(plugin: PluginUnderTest, name: str) -> asyncio.Task[Any]:
    waiting = asyncio.create_task(call(plugin, name, name="h"))
    await call(plugin, "held", name="h")
    (id_,) = plugin.session._requests
    plugin.write(plugin.session.link.notify("tool/cancel", ToolCancelNote(id=id_)))
    return waiting


def test_a_cancelled_tool_is_stopped_and_answers_so() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        waiting = await ask_and_cancel(plugin, "hold")
        with pytest.raises(CancelledCallError):
            await waiting
        assert await call(plugin, "held", name="h") == "cancelled"

    with_toolbox(body)


def test_a_call_cancelled_before_its_first_step_is_answered_too() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        id_, data = plugin.session.link.request("tool/call", invoke("hold", name="early"))
        note = plugin.session.link.notify("tool/cancel", ToolCancelNote(id=id_))
        answer = plugin.session._requests[id_] = asyncio.get_running_loop().create_future()
        plugin.write(data + note + note)
        with pytest.raises(CancelledCallError):
            await answer
        plugin.write(plugin.session.link.notify("tool/cancel", ToolCancelNote(id=id_)))  # long answered
        plugin.write(plugin.session.link.notify("tool/cancel", ToolCancelNote(id="never")))
        await plugin.ping()

    with_toolbox(body)


def test_a_tool_that_finishes_all_the_same_says_what_came_of_it() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        waiting = await ask_and_cancel(plugin, "hold_stubbornly")
        assert await call(plugin, "echo", value=2) == 2
        await call(plugin, "release", name="h")
        assert await waiting == "h"

    with_toolbox(body)


def test_each_failure_says_what_it_is() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        error = await refusal(plugin, "echo", valeu=1)
        assert isinstance(error, InvalidArgumentError)
        assert "valeu" in error.message
        error = await refusal(plugin, "large", size="big")
        assert isinstance(error, InvalidArgumentError)
        assert "large" in error.message
        error = await refusal(plugin, "fail", text="no such seat")
        assert (to_fault(error).code, error.message) == ("runtime_error", "KeyError: 'no such seat'")
        assert isinstance(await refusal(plugin, "refuse", text="taken"), ConflictError)
        for kind, says in (("object", "an object"), ("nan", "nan"), ("set", "a set"), ("half", "half a")):
            error = await refusal(plugin, "not_json", kind=kind)
            assert to_fault(error).code == "runtime_error"
            assert "the result of not_json is not JSON: result['of'] " in error.message
            assert says in error.message
        error = await refusal(plugin, "quit_itself")
        assert error.message == "SystemExit: 3"
        error = await refusal(plugin, "ask_client", what="x")
        assert isinstance(error, InvalidArgumentError)
        assert "client" in error.message
        error = await refusal(plugin, "nothing")
        assert isinstance(error, NotFoundError)
        assert "echo" in error.message

    with_toolbox(body)


def test_a_result_that_fits_into_no_message_is_refused_by_name_of_the_limit() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        fits = MAX_MESSAGE_BYTES - 1_000
        assert len(await call(plugin, "large", size=fits)) == fits > MAX_RESULT_BYTES
        for size in (MAX_MESSAGE_BYTES - 100, MAX_MESSAGE_BYTES + 1):
            error = await refusal(plugin, "large", size=size)
            assert isinstance(error, PayloadTooLargeError)
            assert f"{MAX_MESSAGE_BYTES:,}" in error.message

    with_toolbox(body)


def test_prints_of_a_tool_stay_off_the_wire() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        assert await call(plugin, "chat") == "said"

    with_toolbox(body)


def test_a_lookup_tells_what_was_kept(tmp_path: Path) -> None:
    async def body(plugin: PluginUnderTest) -> None:
        params = ToolLookupParams(tool_name="keep", effect_key="k1", context=CONTEXT)
        assert not (await plugin.session.request("tool/lookup", params)).found
        await call(plugin, "keep", value="v")
        told = await plugin.session.request("tool/lookup", params)
        assert (told.found, told.result) == (True, "v")
        with pytest.raises(InvalidArgumentError, match="no lookup"):
            await plugin.session.request(
                "tool/lookup", ToolLookupParams(tool_name="echo", effect_key="k", context=CONTEXT)
            )

    with_toolbox(body, TOOLBOX_FOLDER=str(tmp_path))


def test_shutdown_waits_for_the_calls_at_work() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        waiting = asyncio.create_task(call(plugin, "hold", name="h"))
        await call(plugin, "held", name="h")
        (id_,) = plugin.session._requests
        stopping = asyncio.create_task(plugin.session.request("shutdown", NoParams()))
        await plugin.ping()
        assert not stopping.done()
        assert not waiting.done()
        plugin.write(plugin.session.link.notify("tool/cancel", ToolCancelNote(id=id_)))
        with pytest.raises(CancelledCallError):
            await waiting
        await stopping
        assert await plugin.exit_status() == 0

    with_toolbox(body)


def test_the_end_of_input_stops_tools_that_will_not_end() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        waiting = asyncio.create_task(call(plugin, "hold_stubbornly", name="h"))
        await call(plugin, "held", name="h")
        plugin.close_input()
        await plugin.exit_status()
        with pytest.raises(PluginProtocolError):
            await waiting

    with_toolbox(body)


def test_the_shop_offers_one_tool_of_each_class(tmp_path: Path) -> None:
    async def body(plugin: PluginUnderTest) -> None:
        first = await call(plugin, "book", kind="suite", nights=2)
        assert first == {"booking": "B1", "kind": "suite", "nights": 2, "total": 600}
        assert await call(plugin, "book", kind="suite", nights=2) == first
        assert "on its way" in await call(plugin, "send", to="Ada", text="hi")
        assert isinstance(await refusal(plugin, "send", to=" ", text="hi"), InvalidArgumentError)

    with_toolbox(body, EXAMPLES / "shop", SHOP_FILE=str(tmp_path / "shop.sqlite3"))


# -- loading --------------------------------------------------------------------------------------


def folder_of(path: Path, tools: str, code: str, module: str) -> Path:
    (path / "hostler.yaml").write_text(f"plugin: {{author: a, name: b}}\ntools: {tools}\n")
    (path / f"{module}.py").write_text(code)
    return path


@pytest.mark.parametrize(
    ("number", "tools", "code", "words"),
    [
        (1, '["{}:a", "{}:a"]', "from hostler_sdk import tool\n@tool\ndef a(): ...\n", "two are named b.a"),
        (
            2,
            '["{}:a"]',
            'from hostler_sdk import tool\n@tool(effect="reconcilable")\ndef a(): ...\n',
            "add @a.lookup",
        ),
        (3, '["{}:a"]', "def a(): ...\n", "not a function decorated with @tool"),
        (4, '["{}"]', "", "module:function"),
    ],
)
def test_what_is_no_tool_is_said_at_once(
    tmp_path: Path, number: int, tools: str, code: str, words: str
) -> None:
    module = f"no_tool_{number}"
    folder = folder_of(tmp_path, tools.replace("{}", module), code, module)
    with pytest.raises(PluginLoadError, match=words):
        load_folder(folder, {})
