"""A runner of the published SDK that takes the steps of its message, a JSON list."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

from langbot_plugin.api.definition.components.runner.runner import Runner
from langbot_plugin.api.entities.builtin.provider.message import Message, MessageChunk
from langbot_plugin.api.entities.builtin.resource.tool import LLMTool
from langbot_plugin.api.entities.builtin.runner import RunnerContext, RunnerResult
from langbot_plugin.api.entities.builtin.runner.errors import AgentAPIException
from langbot_plugin.entities.io.actions.enums import PluginToRuntimeAction


def plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    found = dict(given)
    if "messages" in found:
        found["messages"] = [Message.model_validate(one) for one in found["messages"]]
    if "funcs" in found:
        found["funcs"] = [LLMTool.model_construct(**one) for one in found["funcs"]]
    if isinstance(found.get("value"), str) and found.pop("bytes", False):
        found["value"] = found["value"].encode()
    return found


async def fetched(library: str, url: str) -> Any:
    """Ask as plugins do that expect an open network."""
    if library == "aiohttp":
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.text()
    import httpx

    if library == "httpx":
        with httpx.Client(trust_env=False) as client:
            return (await asyncio.to_thread(client.get, url)).text
    transport = httpx.AsyncHTTPTransport() if library == "transport" else None
    async with httpx.AsyncClient(trust_env=False, transport=transport) as client:
        try:
            return (await client.get(url)).text
        except httpx.TransportError as error:
            return {"raised": type(error).__name__}


class Puppet(Runner):
    async def run(self, ctx: RunnerContext):
        try:
            steps = json.loads(ctx.input.to_text())
        except ValueError:
            steps = [["say", f"{self.get_plugin_config()['greeting']}, {ctx.input.to_text()}"]]
        told: list[Any] = []
        api = self.get_run_api(ctx)
        for kind, *given in steps:
            match kind:
                case "api":
                    name, kwargs = given
                    try:
                        told.append(plain(await getattr(api, name)(**arguments(kwargs))))
                    except AgentAPIException as error:
                        told.append({"error": plain(error.error)})
                    except Exception as error:  # noqa: BLE001 - it tells what it met
                        told.append({"raised": f"{type(error).__name__}: {error}"})
                case "stream":
                    async for event in api.invoke_llm_stream_events(**arguments(given[0])):
                        told.append(plain(event))
                        if event.chunk is not None and event.chunk.content:
                            yield RunnerResult.message_delta(ctx.run_id, event.chunk)
                case "raw":
                    action, data = given
                    handler = self.plugin.plugin_runtime_handler
                    try:
                        told.append(await handler.call_action(PluginToRuntimeAction(action), data))
                    except Exception as error:  # noqa: BLE001 - it tells what it met
                        told.append({"raised": str(error), "data": getattr(error, "data", None)})
                case "context":
                    told.append(plain(ctx))
                case "delta":
                    chunk = MessageChunk(role="assistant", content=given[0], is_final=len(given) > 1)
                    yield RunnerResult.message_delta(ctx.run_id, chunk)
                case "say":
                    message = Message(role="assistant", content=given[0])
                    yield RunnerResult.message_completed(ctx.run_id, message)
                case "state":
                    yield RunnerResult.state_updated(ctx.run_id, given[0], given[1], scope="conversation")
                case "tool":
                    yield RunnerResult.tool_call_started(ctx.run_id, "t1", given[0], {})
                    yield RunnerResult.tool_call_completed(ctx.run_id, "t1", given[0], {"ok": True})
                case "traced":
                    told.append(await ctx.call_tool(*given))
                case "log":
                    await ctx.log(given[0])
                case "done":
                    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "odd": {"x": 1}}
                    yield RunnerResult.run_completed(ctx.run_id, usage=usage)
                    return
                case "fail":
                    yield RunnerResult.run_failed(
                        ctx.run_id, given[0], code="puppet.unwilling", retryable=True
                    )
                    return
                case "raise":
                    raise ValueError(given[0])
                case "unknown":
                    yield RunnerResult(run_id=ctx.run_id, type="puppet.dance", data={})
                case "foreign":
                    yield RunnerResult.model_construct(run_id="someone-elses", type="log", data={})
                case "meet":
                    await self.meet(given[0])
                case "wait":
                    try:
                        await asyncio.Event().wait()
                    finally:
                        await api.set_plugin_storage("cancelled", b"yes")
                case "until-cancelled":
                    while (await api.run_get()).cancel_requested_at is None:
                        await asyncio.sleep(0.01)
                case "stubborn":
                    while True:
                        with contextlib.suppress(asyncio.CancelledError):
                            await asyncio.sleep(60)
                case "block":
                    import time

                    time.sleep(given[0])
                case "die-first":
                    if (await api.run_get()).metadata["attempt"] == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "fetch":
                    told.append(await fetched(*given))
                case "look":
                    told.append(os.environ.get(given[0]))
                case "write":
                    with open(given[0], "w") as file:
                        file.write("x")
        if told:
            text = json.dumps(told, ensure_ascii=False)
            yield RunnerResult.message_completed(ctx.run_id, Message(role="assistant", content=text))

    places: dict[str, asyncio.Event] = {}

    async def meet(self, name: str) -> None:
        """Wait until another run of this process is at the same place."""
        if name in self.places:
            self.places[name].set()
        else:
            self.places[name] = asyncio.Event()
            await self.places[name].wait()
