"""One run, watched in all dialects at once: whatever breaks, each folds to the same transcript.

The run calls a tool, waits for an approval that is decided in one of the dialects, and loses its host twice,
in the middle of what it says or while it waits. Each watcher disconnects at random. What each client has in
the end is compared with what it has of the same script, run undisturbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command_line import CommandLine, Server
from support.databases import TEST_SECONDS
from support.dialects.players import PLAYER, POLICY, RUNNER, script
from support.dialects.transcripts import ASKED, Shown, Watch, said_in
from support.dialects.watched_decisions import DECIDERS, decide
from support.dialects.watching import KEEPS_WITHDRAWN, TEXT_ALONE, WATCHERS
from support.examples import SOAK

FIRST = "Let me look: 你好 🙂, 一盏台灯 👩‍👩‍👧."
LAST = "Well, 再见: a lamp costs 2 euros. " * 12 + "Done. 完 🏁"
LOST_WORDS = ("A wrong beginning: 你好 🙃,", "Else, 再见:")
"""What attempts said that none repeats."""
MARKS = ("你好", ASKED, "再见")
"""What each watcher has been shown before a host is killed, or what waits is decided."""
CALLS: list[list[Any]] = [
    ["tool", "player.price", {"thing": "台灯"}, "a"],
    ["tool", "player.order", {"thing": "台灯 💡", "count": 2}, "b"],
]


@dataclass(frozen=True)
class Plan:
    """What happens to a run. `differs`: new attempts say something else than what was shown."""

    seed: int
    differs: bool
    second_kill: str
    decided_in: str
    approve: bool

    @classmethod
    def of_seed(cls, seed: int) -> Plan:
        dice = random.Random(seed)
        when = dice.choice(["while it waits", "while it speaks"])
        return cls(seed, dice.random() < 0.5, when, dice.choice(list(DECIDERS)), dice.random() < 0.5)

    @property
    def lost(self) -> tuple[str, ...]:
        """What no attempt repeats. Nothing is complete by then: an attempt that restarts says it again."""
        if not self.differs:
            return ()
        return LOST_WORDS if self.second_kill == "while it speaks" else LOST_WORDS[:1]

    @property
    def story(self) -> list[tuple[str, str]]:
        """What happens once all watchers were shown something, in order."""
        decided = (ASKED, "decided")
        if self.second_kill == "while it waits":
            return [(MARKS[0], "killed"), (ASKED, "killed"), decided]
        later = [decided, (MARKS[2], "killed")]
        return [(MARKS[0], "killed"), *(reversed(later) if self.differs else later)]

    def __str__(self) -> str:
        words = "differs" if self.differs else "repeats"
        decision = "approved" if self.approve else "denied"
        return f"seed {self.seed}, {words}, killed {self.second_kill}, {decision} in {self.decided_in}"


PLANS = [
    Plan(1, False, "while it speaks", "ai-sdk", approve=True),
    Plan(2, True, "while it waits", "a2a", approve=False),
]


def pieces(text: str, size: int) -> list[list[Any]]:
    return [["delta", text[at : at + size]] for at in range(0, len(text), size)]


def steps(folder: Path, plan: Plan) -> str:
    """What the agent does: it stops where it will lose its host, until there is a file."""
    made: list[list[Any]] = []
    for lost, gate in zip(plan.lost, ("one", "two"), strict=False):
        path = str(folder / gate)
        made.append(["unless", path, [*pieces(lost, 2), ["wait", path]]])
    for text, gate in ((FIRST, "one"), (LAST, "two")):
        first, second = pieces(text[: len(text) // 2], 4), pieces(text[len(text) // 2 :], 7)
        made += [*first, ["wait", str(folder / gate)], *second, ["say", text]]
        made += CALLS if text is FIRST else []
    return script(*made)


def line_in(folder: Path, plan: Plan) -> CommandLine:
    agent: dict[str, Any] = {"name": "player", "runner": RUNNER, "resource_policy": POLICY}
    if plan.differs:  # an attempt that resumes has to repeat itself
        agent["recovery"] = {"on_crash": "restart", "max_attempts": 5}
    config = {"plugins": [{"path": str(PLAYER), "level": "trusted"}], "agents": [agent]}
    (folder / "hostler.yaml").write_text(yaml.safe_dump(config))
    return CommandLine(folder / "data", folder)


@dataclass
class Watched:
    """A run with its watchers."""

    run_id: str
    watches: dict[str, Watch]
    tasks: dict[str, asyncio.Task[Shown]] = field(default_factory=dict)

    @property
    def any(self) -> Watch:
        return self.watches["native"]

    async def until_all(self, mark: str) -> None:
        """Wait until all watchers were shown something."""
        for name, watch in self.watches.items():
            seen = asyncio.ensure_future(watch.marks[mark].wait())
            try:
                async with asyncio.timeout(2 * TEST_SECONDS):
                    await asyncio.wait([seen, self.tasks[name]], return_when=asyncio.FIRST_COMPLETED)
                if not seen.done():
                    self.tasks[name].result()
                assert seen.done(), f"{name} has ended without {mark!r}"
            except TimeoutError:
                raise AssertionError(f"{name} was not shown {mark!r}") from None
            finally:
                seen.cancel()

    async def until_status(self, status: str) -> None:
        """Wait until the run has a status."""
        async with asyncio.timeout(2 * TEST_SECONDS), self.any.client() as client:
            while (found := (await client.get(f"/v1/runs/{self.run_id}")).json()["status"]) != status:
                assert found not in ("failed", "cancelled"), found
                await asyncio.sleep(0.05)

    async def shown(self) -> dict[str, Shown]:
        """What each has in the end."""
        async with asyncio.timeout(4 * TEST_SECONDS):
            await self.until_status("completed")
            for watch in self.watches.values():
                watch.over.set()
            return dict(zip(self.tasks, await asyncio.gather(*self.tasks.values()), strict=True))

    async def decide(self, plan: Plan) -> None:
        """Have what it waits for decided."""
        await decide(self.any, plan.decided_in, plan.approve)
        for watch in self.watches.values():
            watch.decided.set()


@contextlib.asynccontextmanager
async def watched(
    server: Server, text: str, conversation_id: str, seed: int | None
) -> AsyncIterator[Watched]:
    """Begin a run, and have it watched. `seed`: when watchers disconnect; None: they do not."""

    def watch(name: str, run_id: str) -> Watch:
        dice = None if seed is None else random.Random(f"{seed} {name}")
        marks = {mark: asyncio.Event() for mark in MARKS}
        events = (asyncio.Event(), asyncio.Event())
        return Watch(server.url, server.key, run_id, conversation_id, dice, marks, *events, last="完 🏁")

    begun = watch("", "")
    async with begun.client() as client:
        body = {
            "event_type": "message.received",
            "agent": "player",
            "conversation_id": conversation_id,
            "input": {"text": text},
        }
        run_id = (await client.post("/v1/events", json=body)).json()["run"]["run_id"]
    found = Watched(run_id, {name: watch(name, run_id) for name in WATCHERS})
    found.tasks = {
        name: asyncio.create_task(WATCHERS[name](one), name=name) for name, one in found.watches.items()
    }
    try:
        yield found
    finally:
        for task in found.tasks.values():
            task.cancel()
        await asyncio.gather(*found.tasks.values(), return_exceptions=True)


class Lives:
    """One host, through all its lives at one address."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._line = line_in(folder, plan)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._arguments = ["--config", str(folder / "hostler.yaml"), "--port", str(port)]
        self._life = contextlib.ExitStack()

    async def begin(self) -> Server:
        """Start it."""
        serving = self._line.serving(*self._arguments)
        self.server = await asyncio.to_thread(self._life.enter_context, serving)
        return self.server

    async def kill(self) -> None:
        """End it by force."""
        self.server.stop(signal.SIGKILL)
        await self.end()

    async def end(self) -> None:
        await asyncio.to_thread(self._life.close)


async def disturbed(lives: Lives, folder: Path, plan: Plan) -> dict[str, Shown]:
    """What all watchers have of a run whose host is killed twice; the host lives after that."""
    gates = iter(("one", "two"))
    server = await lives.begin()
    async with watched(server, steps(folder, plan), "disturbed", plan.seed) as run:
        for mark, happens in plan.story:
            await run.until_all(mark)
            if happens == "decided":
                await run.decide(plan)
                continue
            if mark == ASKED and plan.differs:
                await run.until_status("paused")
            await lives.kill()
            (folder / next(gates)).touch()
            await lives.begin()
        found = await run.shown()
        assert sum(watch.cuts for watch in run.watches.values()) >= len(WATCHERS)
        return found


async def undisturbed(server: Server, folder: Path, plan: Plan) -> dict[str, Shown]:
    """What all watchers have of the same script, run without a break: the files are there from the start."""
    async with watched(server, steps(folder, plan), "undisturbed", None) as run:
        await run.until_all(ASKED)
        await run.decide(plan)
        return await run.shown()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plan", [Plan.of_seed(seed) for seed in range(100, 140)] if SOAK else PLANS, ids=str)
async def test_each_dialect_folds_to_the_same_transcript_over_two_kills(tmp_path: Path, plan: Plan) -> None:
    lives = Lives(tmp_path, plan)
    try:
        found = await disturbed(lives, tmp_path, plan)
        reference = await undisturbed(lives.server, tmp_path, plan)
    finally:
        await lives.end()
    for name in WATCHERS:
        assert found[name].entries == reference[name].entries, name
    whole = reference["native"].entries
    assert [entry[0] for entry in whole] == ["said", "called", "said", "called", "said", "said"]
    for name, shown in reference.items():
        assert shown.entries == (said_in(whole) if name in TEXT_ALONE else whole), name
        assert not shown.withdrawn, name
    for name in KEEPS_WITHDRAWN:
        assert found[name].withdrawn == list(plan.lost), name
