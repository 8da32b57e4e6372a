"""Recorded runs replayed offline: fifty of three kinds, a changed prompt, a plugin that wants the network."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.tapes import Tape, TapedResult, decode_tape, read_tape
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.journal.export import tape_of
from hostler.journal.replayer import Cast, Changes, Replayer
from hostler.plugins.source import Folder, SingleFile, identity_of
from hostler.storage.stores import agents
from support.command_line import WIRE
from support.gates import Gate
from support.http_host import Served, serving
from support.local_agents import FOLDER as LOCAL_AGENT
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer
from support.trust import plugin_entry

pytestmark = pytest.mark.timeout(240)
TOOLBOX = Path(__file__).parents[2] / "support" / "plugins" / "toolbox"
PLAIN = TOOLBOX.with_name("plain")
KINDS = {"chat": 20, "wire": 15, "plain": 15}


@contextlib.asynccontextmanager
async def host(tmp_path: Path) -> AsyncIterator[tuple[Served, ModelServer]]:
    """A host with local-agent on a scripted model and tools, the plugin without an SDK, and plain runners."""
    async with ModelServer() as server, serving(tmp_path / "data", agent=False) as served:
        server.always(think)
        model = ModelEntry(id="main", base_url=server.base_url, model="m", api_key="k", max_retries=0)
        chat: dict[str, Any] = {
            "name": "chat",
            "runner": "plugin:hostler/local-agent/default",
            "config": {"model": {"primary": "main"}},
            "resource_policy": {"allowed_tool_names": ["toolbox.echo"]},
        }
        others = {
            "wire": "plugin:acme/wire/default",
            "plain": "plugin:test/plain/default",
            **{name: f"plugin:test/plain/{name}" for name in ("odd", "parallel", "waits", "crashes")},
        }
        impatient = {**chat, "name": "impatient", "runner": "plugin:test/plain/impatient"}
        del impatient["resource_policy"]
        specs: list[dict[str, Any]] = [
            chat,
            impatient,
            *({"name": name, "runner": runner} for name, runner in others.items()),
        ]
        config = ConfigFile(
            plugins=[str(LOCAL_AGENT), str(WIRE), plugin_entry(TOOLBOX), str(PLAIN)],
            models=[model],
            agents=[convert({**spec, "event_types": []}, AgentSpec, str(spec["name"])) for spec in specs],
        )
        await served.host.apply(config, actor="test")
        yield served, server


def think(request: Recorded) -> Answer:
    """Call two tools at once, then say what they said."""
    messages = request.json["messages"]
    told = [m["content"] for m in messages if m["role"] == "tool"]
    last = messages[-1]
    if last["role"] == "tool" or not request.json.get("tools"):
        return Answer(pieces=["They ", "said: ", *told[-2:]])
    function = request.json["tools"][0]["function"]["name"]
    calls = [
        {
            "id": f"call_{len(messages)}_{n}",
            "name": function,
            "arguments": f'{{"value": "{request.last_text} {n}"}}',
        }
        for n in range(2)
    ]
    return Answer(tool_calls=calls, finish_reason="tool_calls")


async def taped(served: Served, run_id: str) -> Tape:
    """A run as it is after it was written down and read again."""
    made = await tape_of(served.host.db, served.host.blobs, "default", run_id, host_version="1")
    return read_tape(decode_tape(msgspec.json.encode(made)))


async def record(served: Served, agent: str, text: str, **fields: Any) -> Tape:
    said = await served.say(text, agent=agent, **fields)
    return await taped(served, said["run_id"])


def cast(agent: str) -> Cast:
    """The runner of an agent of this host."""
    match agent:
        case "chat":
            return Cast(Folder(LOCAL_AGENT), "default")
        case "wire":
            return Cast(Folder(WIRE), "default")
        case "plain":
            return Cast(Folder(PLAIN), "default")
    return Cast(Folder(PLAIN), agent)


async def test_fifty_recorded_runs_are_the_same_again_without_a_network(tmp_path: Path) -> None:
    tapes: list[Tape] = []
    async with host(tmp_path) as (served, server):
        for agent, count in KINDS.items():
            for n in range(count):
                place = {"conversation_id": f"{agent} {n % 4}"}
                tapes.append(await record(served, agent, f"hello {n}", **place))
        assert {tape.run.status for tape in tapes} == {"completed"}
        answered = len(server.requests)
    assert answered == 2 * KINDS["chat"]  # each asked for tools, and then said something
    async with Replayer.open() as replayer:
        assert replayer.network is None
        for tape in tapes:
            replayed = await replayer.replay(tape, cast(tape.run.agent))
            assert replayed.divergence is None, replayed.divergence
            assert replayed.text == replayed.recorded_text != ""
            assert replayed.asked == len(tape.calls) > 0
        assert [status.restarts for status in replayer.supervisor.status()] == [0, 0, 0]
    called = [call.method for tape in tapes for call in tape.calls]
    assert called.count("tool.call") == 2 * KINDS["chat"]
    assert called.count("model.stream") == 2 * KINDS["chat"]


async def test_a_changed_prompt_is_named_as_the_first_step_that_differs(tmp_path: Path) -> None:
    async with host(tmp_path) as (served, _):
        tape = await record(served, "chat", "what is up?")
    (asked,) = [call.step for call in tape.calls if call.method == "model.stream"][:1]
    prompt = [{"role": "system", "content": "You are an assistant who rhymes."}]
    async with Replayer.open() as replayer:
        replayed = await replayer.replay(tape, cast("chat"), Changes(values={"prompt": prompt}))
        again = await replayer.replay(tape, cast("chat"), Changes(values={"prompt": prompt}))
    found = replayed.divergence
    assert found is not None
    assert (found.step, found.kind) == (asked, "call")
    assert found.title == f"step {asked}: model.stream was called with other messages"
    assert found.lines == (
        'messages[0].content: "You are a helpful assistant." -> "You are an assistant who rhymes."',
    )
    assert again.divergence == found


@pytest.mark.parametrize("agent", ["odd", "parallel"])
async def test_ids_and_files_of_its_own_making_are_no_difference(tmp_path: Path, agent: str) -> None:
    async with host(tmp_path) as (served, _):
        tape = await record(served, agent, "x", conversation_id="c")
    assert tape.run.status == "completed"
    async with Replayer.open() as replayer:
        replayed = await replayer.replay(tape, cast(agent))
    assert replayed.divergence is None, replayed.divergence


async def test_a_call_that_the_runner_gave_up_has_no_answer_again(tmp_path: Path) -> None:
    async with host(tmp_path) as (served, server):
        server.say(["one", "two", Gate()])
        tape = await record(served, "impatient", "x", conversation_id="c")
    assert [call.given_up for call in tape.calls if call.method == "model.stream"] == [True]
    async with Replayer.open() as replayer:
        replayed = await replayer.replay(tape, cast("impatient"))
    assert replayed.divergence is None, replayed.divergence
    assert replayed.text == "one two nothing"


async def test_a_run_that_the_host_ended_is_compared_up_to_there(tmp_path: Path) -> None:
    async with host(tmp_path) as (served, _):
        crashed = await record(served, "crashes", "x", conversation_id="c")
        begun = await served.say("x", agent="waits", conversation_id="c", wait=None)
        run_id = begun["run"]["run_id"]
        async for batch in served.host.runs.feed.watch(run_id):
            if batch[-1].type == "message.completed":
                break
        await served.client.post(f"/v1/runs/{run_id}/cancel", json={})
        await served.host.runs.wait("default", run_id, 30)
        cancelled = await taped(served, run_id)
    assert (crashed.run.status_code, cancelled.run.status) == ("runner.crashed", "cancelled")
    async with Replayer.open() as replayer:
        for tape in (crashed, cancelled, crashed):
            replayed = await replayer.replay(tape, cast(tape.run.agent))
            assert replayed.divergence is None, replayed.divergence
            assert "compared up to there" in replayed.notes[0]


async def test_what_a_runner_leaves_out_adds_or_says_otherwise_is_named(tmp_path: Path) -> None:
    """The recording is changed instead of the runner: what it now lacks, the runner does in addition."""
    async with host(tmp_path) as (served, _):
        tape = await record(served, "plain", "x", conversation_id="c")
    assert [call.method for call in tape.calls] == ["state.get", "state.set"]
    said = tape.results[0]
    other = {"message": {**said.data["message"], "content": "something else"}}
    gone = replace(tape, calls=tape.calls[:1])
    more = replace(tape.calls[0], step=9, position=99, name=("state.get", "0" * 64, 1))
    extra = TapedResult(9, "log", {"level": "info", "text": "x"})
    cases: list[tuple[Tape, str, str]] = [
        (gone, "call", "state.set was called; the recording has no such call"),
        (
            replace(tape, calls=(*tape.calls, more)),
            "call_missing",
            "state.get is in the recording",
        ),
        (
            replace(tape, results=(replace(said, data=other), *tape.results[1:])),
            "result",
            "message.content",
        ),
        (replace(tape, results=(extra, *tape.results)), "result", "where the recording has log"),
        (replace(tape, results=(*tape.results, extra)), "result_missing", "log is in the recording"),
        (replace(tape, results=tape.results[:1]), "result_extra", "run.completed sent after"),
    ]
    async with Replayer.open() as replayer:
        for changed, kind, words in cases:
            found = (await replayer.replay(changed, cast("plain"))).divergence
            assert found is not None
            assert (found.kind, words in found.title) == (kind, True), found
            assert found.lines


LISTENS = '''
import socket
from hostler_sdk import Runner, message

class Reaches(Runner):
    """Reaches"""
    async def run(self, ctx):
        try:
            socket.create_connection(("127.0.0.1", int(ctx.input.text)), 5).close()
            yield message("reached")
        except OSError as error:
            yield message("out of reach")
'''


async def test_a_plugin_in_a_replay_reaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LISTENS)
    came: list[int] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with host(tmp_path) as (served, _):
            source = SingleFile(tmp_path / "own.py", "Reaches")
            runner = await _agent_of(served, source)
            tape = await record(served, runner, str(port), conversation_id="c")
        assert "reached" in str(tape.results[0].data)
        recorded = len(came)
        async with Replayer.open() as replayer:
            replayed = await replayer.replay(tape, Cast(source))
    assert len(came) == recorded
    assert replayed.divergence is not None
    assert replayed.text == "out of reach"
    assert replayed.divergence.title == "step 1: message.completed with other message.content"


async def _agent_of(served: Served, source: SingleFile) -> str:
    """An agent for a runner in a file of its own."""
    served.host.supervisor.add(source)
    identity = identity_of(source)
    (name,) = (await served.host.supervisor.connection(identity.key)).runners
    spec = AgentSpec(name="own", runner=identity.runner_id(name), event_types=[])
    await served.host.db.write(lambda tx: agents.apply(tx, "default", spec))
    served.host.event_router.changed("default")
    return spec.name
