"""The scripted conversation of `hostler demo`: each step says what was seen, or the demo fails."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from hostler.cli.child_server import ChildServer, start_server
from hostler.cli.client import Api
from hostler.cli.demo import greet
from hostler.cli.output import FAILED, out
from hostler.cli.routes import route
from hostler.cli.talk import Talk
from hostler.journal.feed import StoredResult
from hostler_protocol.content import text_of
from hostler_protocol.results import (
    ArtifactCreated,
    AttemptStarted,
    MessageCompleted,
    MessageDelta,
    RunFailed,
    decode_data,
)

STEP_SECONDS = 120.0
"""One step; a small model on a busy machine takes a while."""
KILL_AFTER_RESULTS = 30
COUNT_TO = 120
GUIDE = "guide"
INDENT = "     "
WIDTH = 76
"""Columns of an answer, after which it goes on in the next line."""


class NotSeenError(Exception):
    """A step did not show what it should; the text says what was expected and what came."""


@dataclass
class Reply:
    """What came of one message, as it was seen."""

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


class Stage:
    """Where the steps are shown."""

    def __init__(self) -> None:
        self._console = out()
        self._number = 0
        self._column = 0
        self._spaced = False

    def step(self, title: str) -> None:
        """Begin a step."""
        self._number += 1
        self._console.print(Text.assemble((f"  {self._number}  ", "bold cyan"), (title, "bold")))

    def said(self, who: str, text: str, style: str = "") -> None:
        """A line of the conversation."""
        self._console.print(Text.assemble(INDENT, (f"{who:<6} ", "dim"), (text, style)))

    def piece(self, text: str) -> None:
        """A piece of an answer, as it streams in."""
        for line in text.splitlines(keepends=True):
            rest = line
            if self._column > WIDTH and (self._spaced or line[:1].isspace()):
                self.end_of_answer()
                rest = line.lstrip(" ")
            if self._column == 0 and rest.strip():
                self._write(f"{INDENT}{'':7}")
            self._write(rest)
            self._column = 0 if rest.endswith("\n") else self._column + len(rest)
            self._spaced = line[-1:].isspace()

    def answer_of(self, who: str) -> None:
        """An answer begins."""
        self._console.print(Text.assemble(INDENT, (f"{who:<6} ", "dim")), end="")
        self._column = 1

    def end_of_answer(self) -> None:
        """Finish a line that is not finished."""
        if self._column:
            self._write("\n")
        self._column = 0

    def event(self, mark: str, text: str, style: str) -> None:
        """Something that happened to the server."""
        self.end_of_answer()
        self._console.print(Text.assemble(INDENT, (f"{mark} {text}", style)))

    def seen(self, text: str) -> None:
        """What a step has shown."""
        self.end_of_answer()
        self._console.print(Text.assemble(INDENT, ("✓ ", "bold green"), (text, "green")))
        self._console.print()

    def not_seen(self, text: str) -> None:
        """What it has not."""
        self.end_of_answer()
        self._console.print(Text.assemble(INDENT, ("✗ ", "bold red"), (text, "red")))

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


async def play(folder: Path, config: Path, port: int, talker: str | None) -> int:
    """Play it all; the exit status."""
    stage = Stage()
    began = time.perf_counter()
    server = await start_server(folder, port=port, config=config)
    script = Script(stage, server, folder, config)
    try:
        greet(server, folder, model=talker is not None)
        stage.step("A server")
        stage.seen(f"ready after {time.perf_counter() - began:.1f} s, process {server.pid}")
        steps = [script.streams, script.remembers, script.makes_an_artifact, script.survives_a_kill]
        for step in steps:
            async with asyncio.timeout(STEP_SECONDS):
                await step()
        if talker is not None:
            async with asyncio.timeout(STEP_SECONDS):
                await script.speaks_with_a_model(talker)
    except NotSeenError as error:
        stage.not_seen(str(error))
        return FAILED
    except TimeoutError:
        stage.not_seen(f"nothing more came within {STEP_SECONDS:.0f} s")
        return FAILED
    finally:
        await script.close()
    out().print(
        Text.assemble(("  All of it was seen.  ", "bold green"), ("Talk with it: ", "dim"), "hostler demo")
    )
    return 0


class Script:
    """The steps, over one conversation."""

    def __init__(self, stage: Stage, server: ChildServer, folder: Path, config: Path) -> None:
        self._stage = stage
        self._server = server
        self._folder = folder
        self._config = config
        self._api = Api.at(server.address.url, server.address.key)
        self._talk = Talk(self._api, GUIDE)
        self._said: list[str] = []
        self._restart: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the server, whichever it is by now."""
        if self._restart is not None:
            await asyncio.gather(self._restart, return_exceptions=True)
        await self._api.close()
        await self._server.stop()

    async def streams(self) -> None:
        """A reply comes piece by piece."""
        self._stage.step("A reply, streamed")
        reply = await self._exchange("hello")
        _expect(reply.deltas >= 5, f"expected a reply in many pieces, saw {reply.deltas}")
        _expect(
            reply.streamed.strip() == reply.text.strip(), "the pieces do not make up the completed message"
        )
        self._stage.seen(
            f"{reply.deltas} pieces over {reply.seconds:.1f} s, the first after {reply.first_ms:.0f} ms; "
            "together they are the completed message"
        )

    async def remembers(self) -> None:
        """State outlives the turn."""
        self._stage.step("Something remembered from one turn to the next")
        await self._exchange("my name is Ada")
        reply = await self._exchange("who am I?")
        _expect("Ada" in reply.text, f"expected to be called Ada, saw {reply.text!r}")
        self._stage.seen("the second run read from the state what the first one kept there")

    async def makes_an_artifact(self) -> None:
        """A file comes out."""
        self._stage.step("An artifact")
        reply = await self._exchange("note: buy bread")
        _expect(reply.artifact_id is not None, "expected an artifact.created result, saw none")
        content = await self._api.text(route("artifacts", reply.artifact_id or "", "content"))
        _expect(content == "buy bread\n", f"expected its content to be 'buy bread', saw {content!r}")
        self._stage.seen(f"note.txt read back over HTTP: {content.strip()!r}, {len(content)} bytes")

    async def survives_a_kill(self) -> None:
        """The server is killed while it streams, and nothing is lost."""
        self._stage.step("kill -9 in the middle of an answer")
        reply = await self._exchange(f"count to {COUNT_TO}", kill_after=KILL_AFTER_RESULTS)
        expected = " ".join(str(number) for number in range(1, COUNT_TO + 1))
        _expect(self._restart is not None, "the run was over before the server could be killed")
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
        self._stage.seen(
            f"results 1 to {count}, each once, over two connections; attempt {reply.attempts} ended completed"
        )
        self._stage.step("Nothing lost")
        again = await self._exchange("who am I?")
        _expect("Ada" in again.text, f"expected the new process to know Ada, saw {again.text!r}")
        history = await self._talk.history(100)
        asked = [item["content"] for item in history if item["role"] == "user"]
        _expect(asked == self._said, f"expected the history to hold {self._said}, saw {asked}")
        answered = len(history) - len(asked)
        _expect(answered == len(asked), f"expected an answer to each message, saw {answered} of {len(asked)}")
        self._stage.seen(f"the new process knows Ada, and all {len(history)} messages are in the history")

    async def speaks_with_a_model(self, agent: str) -> None:
        """A real model, offline."""
        self._stage.step("A real model, offline")
        self._talk = Talk(self._api, agent)
        reply = await self._exchange("In one short sentence: what is bread?")
        _expect(
            bool(reply.text.strip()) and reply.deltas > 1, f"expected an answer, saw {reply.error or 'none'}"
        )
        self._stage.seen(f"{reply.deltas} pieces from a model on this machine, {reply.seconds:.1f} s")

    async def _exchange(self, text: str, *, kill_after: int | None = None) -> Reply:
        """Say something and watch the answer, over a restart of the server if need be."""
        self._said.append(text)
        self._stage.said("you", text, "bold")
        self._stage.answer_of(self._talk.agent if self._talk.agent == GUIDE else "model")
        reply, began = Reply(), time.perf_counter()
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
        self._stage.end_of_answer()
        if reply.ending != "run.completed":
            raise NotSeenError(f"expected the run to complete, saw {reply.ending}: {reply.error}")
        return reply

    def _note(self, reply: Reply, result: StoredResult) -> None:
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
                if discard_after + 1 < result.sequence:  # what came after it is said again
                    reply.streamed = ""
                self._stage.event("↻", f"attempt {attempt} goes on after result {discard_after}", "cyan")
            case RunFailed(error=error):
                reply.error = error
            case _:
                pass

    def _lost(self, last: int, why: str) -> None:
        del why
        self._stage.event("…", f"the stream broke after result {last}; asking again from there", "yellow")

    async def _kill_and_restart(self) -> None:
        pid = self._server.pid
        port = int(self._server.address.url.rpartition(":")[2])
        self._stage.event("✂", f"kill -9 {pid}", "bold red")
        await self._server.kill()
        self._server = await start_server(self._folder, port=port, config=self._config)
        self._stage.event("↑", f"started again, process {self._server.pid}", "cyan")


class _DataOnly(msgspec.Struct):
    data: msgspec.Raw


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotSeenError(otherwise)
