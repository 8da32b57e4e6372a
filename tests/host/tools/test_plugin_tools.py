"""Tools of plugins as the host calls them: real child processes, that die, hang and lie."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.domain.tool_pins import ToolPin
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, ConnectionLimits
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.tools.errors import OutcomeUnknownError, ToolChangedError, ToolFailedError
from hostler.tools.plugin_tools import PluginTools
from hostler.tools.port import Found, ToolInvocation
from hostler.tools.sources import ToolSources
from hostler_protocol.errors import (
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    to_fault,
)
from hostler_protocol.events import Actor
from hostler_protocol.limits import MAX_MESSAGE_BYTES, MAX_RESULT_BYTES
from support.invocations import pin_of

pytestmark = pytest.mark.gate("tool-arguments")

PLUGINS = Path(__file__).parents[2] / "support" / "plugins"
FAST = replace(DEFAULT_CONNECTION_LIMITS, tool_cancel_seconds=0.2)
PATIENT = replace(DEFAULT_CONNECTION_LIMITS, tool_cancel_seconds=60.0)
NOW = 1000.0
SOON = {"deadline": NOW + 0.2}
"""A deadline by the clock of `stop_the_clock`: it passes, and has never passed before the call was made."""


class Bench:
    """The tools of some plugins, and the shortest way to call them."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.tools = ToolSources([PluginTools(supervisor.catalog, supervisor.connection)])

    def invocation(self, name: str, parameters: dict[str, Any], **more: Any) -> ToolInvocation:
        pin = more.pop("pin", None) or pin_of(self.tools, "main", name)
        assert pin is not None
        fields = {"run_id": "r", "call_id": "c", "effect_key": "k", "workspace_id": "main"} | more
        return ToolInvocation(tool_name=name, parameters=parameters, pin=pin, **fields)

    async def call(self, name: str, /, _more: dict[str, Any] | None = None, **parameters: Any) -> Any:
        return await self.tools.call(self.invocation(name, parameters, **(_more or {})))

    async def stop_the_clock(self, key: str) -> None:
        """Let the calls of a plugin see one and the same time, as far as deadlines go."""
        (await self.supervisor.connection(key)).tool_calls._clock = lambda: NOW

    def pid(self, key: str) -> int:
        (status,) = [one for one in self.supervisor.status() if one.key == key]
        assert status.pid is not None
        return status.pid


@contextlib.asynccontextmanager
async def bench(tmp_path: Path, limits: ConnectionLimits, *names: str) -> AsyncIterator[Bench]:
    supervisor = Supervisor(tmp_path / "data", connection_limits=limits)
    try:
        async with asyncio.timeout(90):
            for name in names:
                folder = tmp_path / name
                shutil.copytree(PLUGINS / name, folder)
                supervisor.add(Folder(folder, level="trusted"))
            ends = await supervisor.start_all()
            assert set(ends.values()) == {None}, ends
            yield Bench(supervisor)
    finally:
        await supervisor.close(1.0)


async def with_bench(
    tmp_path: Path,
    body: Callable[[Bench], Awaitable[None]],
    *names: str,
    limits: ConnectionLimits = FAST,
) -> None:
    async with bench(tmp_path, limits, *(names or ("toolbox",))) as made:
        await body(made)


async def until_held(made: Bench, tool: str, name: str) -> asyncio.Task[Any]:
    """Start a call that waits, and wait until it does."""
    waiting = asyncio.create_task(made.call(f"toolbox.{tool}", name=name))
    await made.call("toolbox.held", name=name)
    return waiting


# -- what is offered ------------------------------------------------------------------------------


async def test_tools_of_a_plugin_without_runners_are_known_by_its_name(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        offered = made.tools.offered("main")
        assert all(name.startswith("toolbox.") for name in offered)
        echo, client = offered["toolbox.echo"], offered["toolbox.ask_client"]
        assert echo.pin.tool_id == "plugin:acme/toolbox#echo"
        assert (echo.pin.owner, echo.pin.effect, echo.pin.client) == ("acme/toolbox", "pure", False)
        assert echo.resource.approval == "never"
        assert (client.pin.client, client.resource.approval) == (True, "required")
        detail = await made.tools.detail("main", "toolbox.large")
        assert detail.parameters["required"] == ["size"]
        assert detail.description == "Gives so many characters."
        await made.tools.check("main", "toolbox.large", {"size": 1})
        with pytest.raises(InvalidArgumentError, match="at /size"):
            await made.tools.check("main", "toolbox.large", {"size": "1"})
        with pytest.raises(NotFoundError):
            await made.tools.detail("main", "toolbox.gone")
        with pytest.raises(NotFoundError):
            await made.tools.check("main", "shop.echo", {})
        assert pin_of(made.tools, "main", "toolbox.gone") is None

    await with_bench(tmp_path, body)


async def test_a_name_that_two_plugins_offer_is_nobodys(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        pin = pin_of(made.tools, "main", "toolbox.echo")
        assert pin is not None
        twin = tmp_path / "twin"
        shutil.copytree(PLUGINS / "toolbox", twin)
        manifest = twin / "hostler.yaml"
        manifest.write_text(manifest.read_text().replace("author: acme", "author: evil"))
        key = made.supervisor.add(Folder(twin, level="trusted"))
        await made.supervisor.connection(key)
        assert pin_of(made.tools, "main", "toolbox.echo") is None
        owners = [tool.pin.owner for tool in made.tools.refused("main") if tool.name == "toolbox.echo"]
        assert owners == ["acme/toolbox", "evil/toolbox"]
        with pytest.raises(NotFoundError, match="acme/toolbox and evil/toolbox"):
            await made.tools.detail("main", "toolbox.echo")
        assert await made.call("toolbox.echo", {"pin": pin}, value=1) == 1  # a run that has it keeps it
        await made.supervisor.remove(key)
        assert pin_of(made.tools, "main", "toolbox.echo") == pin

    await with_bench(tmp_path, body)


async def test_a_tool_that_changed_is_not_called_under_its_old_pin(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        pin = pin_of(made.tools, "main", "toolbox.keep")
        assert pin is not None
        source = tmp_path / "toolbox" / "toolbox.py"
        source.write_text(
            source.read_text().replace("async def keep(value: Any", "async def keep(value: str")
        )
        await made.supervisor.restart("acme/toolbox")
        now = pin_of(made.tools, "main", "toolbox.keep")
        assert now is not None
        assert now != pin
        with pytest.raises(ToolChangedError):
            await made.call("toolbox.keep", {"pin": pin}, value="x")
        assert await made.tools.lookup(made.invocation("toolbox.keep", {})) is None
        assert await made.call("toolbox.keep", value="x") == "x"
        gone = ToolPin(tool_id="plugin:acme/toolbox#gone", owner="acme/toolbox", schema_digest="0")
        with pytest.raises(ToolChangedError):
            await made.call("toolbox.gone", {"pin": gone})

    await with_bench(tmp_path, body)


# -- calls ----------------------------------------------------------------------------------------


async def test_a_call_carries_its_context_and_gives_plain_json(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        deadline = time.time() + 500
        more = {"deadline": deadline, "actor": Actor(actor_id="ada"), "effect_key": "key"}
        told = await made.call("toolbox.whose", more)
        assert told == {
            "run_id": "r",
            "call_id": "c",
            "effect_key": "key",
            "workspace_id": "main",
            "actor": "ada",
            "deadline": deadline,
        }

    await with_bench(tmp_path, body)


async def test_more_calls_than_there_is_room_for_wait_their_turn(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        many = FAST.tool_calls * 2
        assert await asyncio.gather(*(made.call("toolbox.echo", value=n) for n in range(many))) == list(
            range(many)
        )
        waiting = [await until_held(made, "hold", f"h{n}") for n in range(50)]
        for n in reversed(range(50)):
            await made.call("toolbox.release", name=f"h{n}")
        assert await asyncio.gather(*waiting) == [f"h{n}" for n in range(50)]

    await with_bench(tmp_path, body)


@pytest.mark.parametrize(
    ("tool", "parameters", "code", "words"),
    [
        ("fail", {"text": "no seat"}, "runtime_error", "KeyError: 'no seat'"),
        ("refuse", {"text": "taken"}, "conflict", "taken"),
        ("pretend_denied", {}, "runtime_error", "a person said no"),
        ("not_json", {}, "runtime_error", "not JSON"),
        ("large", {"size": MAX_MESSAGE_BYTES}, "payload_too_large", f"{MAX_MESSAGE_BYTES:,}"),
        ("large", {"size": "x"}, "invalid_argument", "large"),
        ("quit_itself", {}, "runtime_error", "SystemExit"),
    ],
)
async def test_a_tools_own_error_is_an_outcome(
    tmp_path: Path, tool: str, parameters: dict[str, Any], code: str, words: str
) -> None:
    async def body(made: Bench) -> None:
        with pytest.raises(ToolFailedError) as caught:
            await made.call(f"toolbox.{tool}", **parameters)
        fault = to_fault(caught.value)
        assert fault.code == code
        assert words in fault.message

    await with_bench(tmp_path, body)


async def test_a_process_that_dies_in_the_middle_leaves_the_outcome_unknown_and_comes_back(
    tmp_path: Path,
) -> None:
    async def body(made: Bench) -> None:
        waiting = await until_held(made, "hold", "h")
        with pytest.raises(OutcomeUnknownError, match="may have done its work"):
            await made.call("toolbox.keep", value="die")
        with pytest.raises(OutcomeUnknownError):
            await waiting
        found = await made.tools.lookup(made.invocation("toolbox.keep", {}))
        assert found == Found("die")
        assert await made.tools.lookup(made.invocation("toolbox.keep", {}, effect_key="other")) is None
        assert await made.call("toolbox.echo", value=1) == 1

    await with_bench(tmp_path, body)


async def test_killed_from_outside_every_open_call_is_unknown(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        waiting = [await until_held(made, "hold", f"h{n}") for n in range(20)]
        os.kill(made.pid("acme/toolbox"), signal.SIGKILL)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ends} == {OutcomeUnknownError}

    await with_bench(tmp_path, body)


async def test_what_cannot_be_asked_was_not_asked(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        pin = pin_of(made.tools, "main", "toolbox.keep")
        with pytest.raises(InvalidArgumentError, match="client"):
            await made.call("toolbox.ask_client", what="x")
        with pytest.raises(InvalidArgumentError, match="can't tell"):
            await made.tools.lookup(made.invocation("toolbox.echo", {}))
        with pytest.raises(DeadlineExceededError):
            await made.call("toolbox.keep", {"deadline": time.time() - 1}, value="late")
        (tmp_path / "toolbox" / "toolbox.py").write_text("broken at import")
        os.kill(made.pid("acme/toolbox"), signal.SIGKILL)
        with contextlib.suppress(OutcomeUnknownError):  # the host may not have heard of its death
            await made.call("toolbox.echo")
        with pytest.raises(UnavailableError, match=r"toolbox\.keep"):
            await made.call("toolbox.keep", {"pin": pin}, value="v")
        assert list((tmp_path / "toolbox").glob("kept-*")) == []

    await with_bench(tmp_path, body)


async def test_confirm_is_asked_right_before_and_may_forbid_the_call(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        order: list[str] = []

        async def allowed() -> None:
            order.append("confirmed")
            assert list((tmp_path / "toolbox").glob("kept-*")) == []

        async def fenced() -> None:
            raise UnauthorizedError("the lease is lost")

        async def dying() -> None:
            os.kill(made.pid("acme/toolbox"), signal.SIGKILL)
            connection = await made.supervisor.connection("acme/toolbox")
            await asyncio.shield(connection.closed)

        with pytest.raises(UnauthorizedError, match="lease"):
            await made.call("toolbox.keep", {"confirm": fenced}, value="v")
        with pytest.raises(UnavailableError, match="nothing was called"):
            await made.call("toolbox.keep", {"confirm": dying}, value="v")
        assert await made.call("toolbox.keep", {"confirm": allowed}, value="v") == "v"
        assert order == ["confirmed"]

    await with_bench(tmp_path, body)


# -- deadlines and cancelling ---------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["hold", "hold_stubbornly"])
async def test_a_tool_out_of_time_is_stopped_and_its_outcome_unknown(tmp_path: Path, tool: str) -> None:
    async def body(made: Bench) -> None:
        await made.stop_the_clock("acme/toolbox")
        with pytest.raises(OutcomeUnknownError):
            await made.call(f"toolbox.{tool}", SOON, name="h")
        assert await made.call("toolbox.echo", value=1) == 1

    await with_bench(tmp_path, body)


async def test_a_caller_that_leaves_stops_the_tool(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        waiting = await until_held(made, "hold", "h")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while await made.call("toolbox.held", name="h") != "cancelled":
            await asyncio.sleep(0.01)

    await with_bench(tmp_path, body)


# -- plugins that lie -----------------------------------------------------------------------------


async def test_hostile_answers_cost_their_own_call_alone(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        (status,) = made.supervisor.status()
        assert len(status.warnings) == 3
        assert await made.call("liar.good") == "good"
        assert await made.call("liar.wrong_id") == "wrong_id"
        assert await made.call("liar.twice") == "twice"
        assert len(await made.call("liar.huge")) > MAX_RESULT_BYTES
        for way, kind, code in (
            ("no_result", OutcomeUnknownError, "runtime_error"),
            ("number", OutcomeUnknownError, "runtime_error"),
            ("too_huge", ToolFailedError, "payload_too_large"),
            ("denied", ToolFailedError, "runtime_error"),
            ("expired", ToolFailedError, "runtime_error"),
            ("cancelled", OutcomeUnknownError, "runtime_error"),
            ("odd_code", ToolFailedError, "runtime_error"),
            ("no_data", ToolFailedError, "runtime_error"),
        ):
            with pytest.raises(HostlerError) as caught:
                await made.call(f"liar.{way}")
            assert type(caught.value) is kind, way
            assert to_fault(caught.value).code == code, way
            assert "decided_by" not in to_fault(caught.value).details
        assert await made.call("liar.good") == "good"

    await with_bench(tmp_path, body, "liar")


@pytest.mark.parametrize("way", ["flood", "deep", "garbage"])
async def test_a_plugin_that_breaks_the_wire_is_ended_and_its_calls_are_unknown(
    tmp_path: Path, way: str
) -> None:
    async def body(made: Bench) -> None:
        with pytest.raises(OutcomeUnknownError):
            await made.call(f"liar.{way}")
        assert await made.call("liar.good") == "good"
        assert await made.call("toolbox.echo", value=1) == 1

    await with_bench(tmp_path, body, "liar", "toolbox")


async def test_an_answer_within_the_grace_counts(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        await made.stop_the_clock("evil/liar")
        assert await made.call("liar.late", SOON) == "after all"

    await with_bench(tmp_path, body, "liar", limits=PATIENT)


async def test_a_tool_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async def body(made: Bench) -> None:
        await made.stop_the_clock("evil/liar")
        with pytest.raises(OutcomeUnknownError, match="by its deadline"):
            await made.call("liar.silent", SOON)
        assert await made.call("liar.good") == "good"

    await with_bench(tmp_path, body, "liar")
