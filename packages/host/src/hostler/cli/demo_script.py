"""The scripted conversation of `hostler demo`: the demo fails at the first step that does not work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import msgspec
from rich.text import Text

from hostler.cli.child_server import ChildServer, start_server
from hostler.cli.client import Api
from hostler.cli.demo_screen import Stage, greet
from hostler.cli.output import FAILED
from hostler.cli.routes import route
from hostler.cli.talk import Talk
from hostler.cli.terminal import out
from hostler.cli.transport import HttpReply
from hostler.domain.config_changes import sparse
from hostler.domain.hook_answers import HookReply
from hostler.domain.hook_samples import SignedRequest, sample_of, signed
from hostler.domain.hooks import Hook, HookMapping
from hostler.host.demo_agents import WIDGET
from hostler.journal.feed import StoredResult
from hostler_protocol.content import text_of
from hostler_protocol.ids import new_id
from hostler_protocol.results import (
    ArtifactCreated,
    AttemptStarted,
    MessageCompleted,
    MessageDelta,
    RunFailed,
    decode_data,
)

STEP_SECONDS = 120.0
"""The most that one step may take; a small model on a busy machine needs a while."""
KILL_AFTER_RESULTS = 30
COUNT_TO = 120
GUIDE = "guide"
JSON = "application/json"
FIRINGS = 2
LOOK_SECONDS = 0.1


class NotSeenError(Exception):
    """A step did not show what it should; the message says what was expected and what was seen."""


@dataclass
class DemoReply:
    """The answer to one message, as it was received."""

    text: str = ""
    """The completed message."""
    streamed: str = ""
    deltas: int = 0
    sequences: list[int] = field(default_factory=list)
    attempts: int = 1
    artifact_id: str | None = None
    first_ms: float = 0.0
    seconds: float = 0.0
    ending: str = ""
    error: str = ""


async def play(folder: Path, config: Path, port: int, agents: Sequence[str]) -> int:
    """Play all steps and return the exit status. An agent after guide and echo has a real model."""
    stage = Stage()
    began = time.perf_counter()
    server = await start_server(folder, port=port, config=config)
    script = Script(stage, server, folder, config)
    try:
        greet(server.address.url, folder, agents)
        stage.step("A server")
        stage.passed(f"ready after {time.perf_counter() - began:.1f} s, process {server.pid}")
        steps = [
            script.streams,
            script.remembers,
            script.makes_an_artifact,
            script.takes_a_webhook,
            script.welcomes_a_visitor,
            script.keeps_to_a_schedule,
            script.survives_a_kill,
        ]
        for step in steps:
            async with asyncio.timeout(STEP_SECONDS):
                await step()
        for agent in agents[2:]:
            async with asyncio.timeout(STEP_SECONDS):
                await script.speaks_with_a_model(agent)
    except NotSeenError as error:
        stage.failed(str(error))
        return FAILED
    except TimeoutError:
        stage.failed(f"nothing more came within {STEP_SECONDS:.0f} s")
        return FAILED
    finally:
        await script.close()
    out().print(
        Text.assemble(("  All steps passed.  ", "bold green"), ("Talk with it: ", "dim"), "hostler demo")
    )
    return 0


class Script:
    """The steps of the demo, in one conversation."""

    def __init__(self, stage: Stage, server: ChildServer, folder: Path, config: Path) -> None:
        self._stage = stage
        self._server = server
        self._folder = folder
        self._config = config
        self._api = Api.at(server.address.url, server.address.key)
        self._talk = Talk(self._api, GUIDE)
        self._sent: list[str] = []
        self._restart: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop the current server process, after an unfinished restart."""
        if self._restart is not None:
            await asyncio.gather(self._restart, return_exceptions=True)
        await self._api.close()
        await self._server.stop()

    async def streams(self) -> None:
        """Check that a reply streams in pieces."""
        self._stage.step("A reply, streamed")
        reply = await self._exchange("hello")
        _expect(reply.deltas >= 5, f"expected a reply in many pieces, saw {reply.deltas}")
        _expect(
            reply.streamed.strip() == reply.text.strip(), "the pieces do not make up the completed message"
        )
        self._stage.passed(
            f"{reply.deltas} pieces over {reply.seconds:.1f} s, the first after {reply.first_ms:.0f} ms; "
            "together they are the completed message"
        )

    async def remembers(self) -> None:
        """Check that state is kept from one turn to the next."""
        self._stage.step("Something remembered from one turn to the next")
        await self._exchange("my name is Ada")
        reply = await self._exchange("who am I?")
        _expect("Ada" in reply.text, f"expected to be called Ada, saw {reply.text!r}")
        self._stage.passed("the second run read from the state what the first one kept there")

    async def makes_an_artifact(self) -> None:
        """Check that an artifact is made and can be downloaded."""
        self._stage.step("An artifact")
        reply = await self._exchange("note: buy bread")
        _expect(reply.artifact_id is not None, "expected an artifact.created result, saw none")
        content = await self._api.text(route("artifacts", reply.artifact_id or "", "content"))
        _expect(content == "buy bread\n", f"expected its content to be 'buy bread', saw {content!r}")
        self._stage.passed(f"note.txt read back over HTTP: {content.strip()!r}, {len(content)} bytes")

    async def takes_a_webhook(self) -> None:
        """Check that another service's signed request starts one run, however often it is sent."""
        self._stage.step("A webhook, signed as GitHub signs")
        secret = self._folder / "hook-secret"
        secret.touch(mode=0o600)
        secret.write_text(token_urlsafe())
        hook = Hook(
            name="github",
            verify="github",
            secrets=[f"file:{secret}"],
            agent="echo",
            map=HookMapping(text="body.issue.title", conversation_id="body.repository.full_name"),
        )
        await self._api.put(route("config", "hooks", hook.name), sparse(hook))
        request = self._signed(hook, secret.read_text())
        outcomes = []
        for _ in range(2):
            reply = await self._api.deliver(hook.path, request.headers, request.body)
            _expect(reply.status == 202, f"expected 202, saw {reply.status}: {reply.body!r}")
            outcomes.append(msgspec.json.decode(reply.body, type=HookReply))
        _expect(
            [one.outcome for one in outcomes] == ["accepted", "duplicate"],
            f"expected it to be taken once, saw {[one.outcome for one in outcomes]}",
        )
        forged = await self._api.deliver(hook.path, self._signed(hook, "a guess").headers, request.body)
        _expect(forged.status == 401, f"expected 401 for a wrong signature, saw {forged.status}")
        event = await self._api.get(route("events", outcomes[0].event_id))
        answer = await self._answer_of(event["run_id"])
        _expect(answer == "A sample!", f"expected echo to say 'A sample!', saw {answer!r}")
        self._stage.passed(
            f"one run of echo, which says {answer!r}; sent again: {outcomes[1].outcome}; wrong signature: 401"
        )

    async def _answer_of(self, run_id: str) -> str:
        """Wait until a run has ended, and return its last message."""
        answer = ""
        async for result in self._api.results(run_id):
            if result.type == "message.completed":
                raw = msgspec.json.decode(result.json, type=_DataOnly).data
                decoded = decode_data(result.type, raw)
                answer = text_of(decoded.message.content) if isinstance(decoded, MessageCompleted) else ""
        return answer

    async def welcomes_a_visitor(self) -> None:
        """Check that a visitor of a page has a conversation without a key, also after a reload."""
        self._stage.step("A visitor of a web page, in the widget")
        origin = self._server.address.url
        first = await self._visit(origin)
        message = {"event_type": "message.received", "input": {"text": "my name is Grace"}}
        headers = {"origin": origin, "authorization": f"Bearer {first['token']}", "content-type": JSON}
        sent = await self._api.deliver("/v1/events", headers, msgspec.json.encode(message))
        _expect(sent.status == 202, f"expected 202, saw {sent.status}: {sent.body!r}")
        answer = await self._answer_of(msgspec.json.decode(sent.body)["run"]["run_id"])
        _expect("Grace" in answer, f"expected to be called Grace, saw {answer!r}")
        again = await self._visit(origin, first["visitor"])
        _expect(
            again["conversation_id"] == first["conversation_id"],
            "the visitor came back to another conversation",
        )
        elsewhere = await self._enter("https://elsewhere.example", None)
        _expect(
            elsewhere.status == 403, f"expected 403 for a page that is not listed, saw {elsewhere.status}"
        )
        self._stage.passed(
            f"without a key, guide says {answer!r}; after a reload: the same conversation; another site: 403"
        )

    async def _visit(self, origin: str, visitor: str | None = None) -> dict[str, Any]:
        reply = await self._enter(origin, visitor)
        _expect(reply.status == 201, f"expected 201, saw {reply.status}: {reply.body!r}")
        return msgspec.json.decode(reply.body, type=dict[str, Any])

    async def _enter(self, origin: str, visitor: str | None) -> HttpReply:
        body = msgspec.json.encode({"visitor": visitor})
        headers = {"origin": origin, "content-type": JSON}
        return await self._api.deliver(route("widgets", WIDGET["name"], "visitors"), headers, body)

    @staticmethod
    def _signed(hook: Hook, secret: str) -> SignedRequest:
        message_id = new_id()
        body, headers = sample_of(hook, message_id)
        return signed(hook, secret, hook.path, headers, body, now=time.time(), message_id=message_id)

    async def keeps_to_a_schedule(self) -> None:
        """Check that a schedule fires, each planned time once."""
        self._stage.step("A schedule, each second")
        place = ("schedules", "demo-tick")
        entry = {"name": "demo-tick", "every": 1, "agent": "echo", "text": "tick"}
        await self._api.put(route(*place), entry)
        fired: list[dict[str, Any]] = []
        while len(fired) < FIRINGS:
            await asyncio.sleep(LOOK_SECONDS)
            fired = await self._api.items(route(*place, "firings"), limit=FIRINGS)
        await self._api.delete(route(*place))
        planned = sorted(firing["planned_at"] for firing in fired)
        runs = {firing["run_id"] for firing in fired} - {None}
        _expect(len(runs) == FIRINGS, f"expected a run for each of {FIRINGS} firings, saw {len(runs)}")
        _expect(len(set(planned)) == FIRINGS, "a planned time has fired twice")
        late = max(firing["late"] for firing in fired)
        self._stage.passed(f"{FIRINGS} runs for {FIRINGS} planned times, at most {late * 1000:.0f} ms late")

    async def survives_a_kill(self) -> None:
        """Kill the server while it streams, and check that nothing is lost."""
        self._stage.step("kill -9 in the middle of an answer")
        reply = await self._exchange(f"count to {COUNT_TO}", kill_after=KILL_AFTER_RESULTS)
        expected = " ".join(str(number) for number in range(1, COUNT_TO + 1))
        _expect(self._restart is not None, "the run had ended before the server could be killed")
        _expect(reply.text == expected, f"expected the whole count, saw {reply.text[-60:]!r} ({reply.error})")
        count = len(reply.sequences)
        _expect(
            reply.sequences == list(range(1, count + 1)),
            f"expected results 1 to {count} once each, saw {reply.sequences}",
        )
        _expect(
            reply.streamed.strip() == expected,
            f"expected the pieces of both attempts to make up the count, saw {reply.streamed[-60:]!r}",
        )
        self._stage.passed(
            f"results 1 to {count}, each once, over two connections; attempt {reply.attempts} ended completed"
        )
        self._stage.step("Nothing lost")
        again = await self._exchange("who am I?")
        _expect("Ada" in again.text, f"expected the new process to know Ada, saw {again.text!r}")
        history = await self._talk.history(100)
        questions = [item["content"] for item in history if item["role"] == "user"]
        _expect(questions == self._sent, f"expected the history to hold {self._sent}, saw {questions}")
        answers = len(history) - len(questions)
        _expect(
            answers == len(questions),
            f"expected an answer to each message, saw {answers} of {len(questions)}",
        )
        self._stage.passed(f"the new process knows Ada, and all {len(history)} messages are in the history")

    async def speaks_with_a_model(self, agent: str) -> None:
        """Check that a real model answers offline."""
        self._stage.step("A real model, offline")
        self._talk = Talk(self._api, agent)
        reply = await self._exchange("In one short sentence: what is bread?")
        _expect(
            bool(reply.text.strip()) and reply.deltas > 1, f"expected an answer, saw {reply.error or 'none'}"
        )
        self._stage.passed(f"{reply.deltas} pieces from a model on this machine, {reply.seconds:.1f} s")

    async def _exchange(self, text: str, *, kill_after: int | None = None) -> DemoReply:
        """Send a message and follow its answer, also over a restart of the server.

        The server is killed after result `kill_after`. NotSeenError if the run does not complete.
        """
        self._sent.append(text)
        self._stage.message("you", text, "bold")
        self._stage.begin_answer(self._talk.agent if self._talk.agent == GUIDE else "model")
        reply, began = DemoReply(), time.perf_counter()
        run_id = (await self._talk.send(text)).run_id
        first = 0.0
        async for result in self._api.results(run_id, on_lost=self._lost):
            now = time.perf_counter()
            self._note(reply, result)
            if reply.deltas == 1 and not first:
                first = now
                reply.first_ms = (now - began) * 1000
            if kill_after is not None and result.sequence >= kill_after and self._restart is None:
                self._restart = asyncio.create_task(self._kill_and_restart())
        reply.seconds = time.perf_counter() - began
        self._stage.end_answer()
        if reply.ending != "run.completed":
            raise NotSeenError(f"expected the run to complete, saw {reply.ending}: {reply.error}")
        return reply

    def _note(self, reply: DemoReply, result: StoredResult) -> None:
        reply.sequences.append(result.sequence)
        reply.ending = result.type
        raw: Any = msgspec.json.decode(result.json, type=_DataOnly).data
        match decode_data(result.type, raw):
            case MessageDelta(chunk=chunk):
                reply.deltas += 1
                reply.streamed += text_of(chunk.content)
                self._stage.piece(text_of(chunk.content))
            case MessageCompleted(message=message):
                reply.text = text_of(message.content)
            case ArtifactCreated(artifact_id=artifact_id):
                reply.artifact_id = artifact_id
            case AttemptStarted(attempt=attempt, discard_after=discard_after):
                reply.attempts = attempt
                if discard_after + 1 < result.sequence:  # the results after it are produced again
                    reply.streamed = ""
                self._stage.event("↻", f"attempt {attempt} continues after result {discard_after}", "cyan")
            case RunFailed(error=error):
                reply.error = error
            case _:
                pass

    def _lost(self, last: int, why: str) -> None:
        del why
        self._stage.event("…", f"the stream broke after result {last}; resuming from there", "yellow")

    async def _kill_and_restart(self) -> None:
        pid = self._server.pid
        port = int(self._server.address.url.rpartition(":")[2])
        self._stage.event("✂", f"kill -9 {pid}", "bold red")
        await self._server.kill()
        self._server = await start_server(self._folder, port=port, config=self._config)
        self._stage.event("↑", f"started again, process {self._server.pid}", "cyan")


class _DataOnly(msgspec.Struct):
    data: msgspec.Raw


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise NotSeenError(message)
