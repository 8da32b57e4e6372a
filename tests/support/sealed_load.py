"""Runs that store and read content all the time, while a test changes keys."""

from __future__ import annotations

import asyncio

from support.stepping import Stage

LANES = 8


class Load:
    """Runs in several conversations, one after the other in each, until it is stopped."""

    def __init__(self, host: Stage) -> None:
        self._host = host
        self._stopping = asyncio.Event()
        self.ended: list[str] = []
        self.words = iter(range(10**6))

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._lane(f"c{number}")) for number in range(LANES)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def more(self, runs: int) -> None:
        """Wait until so many more runs have ended."""
        until = len(self.ended) + runs
        while len(self.ended) < until:
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.01)

    async def _lane(self, conversation: str) -> None:
        while not self._stopping.is_set():
            word = f"word{next(self.words)}"
            ended = await self._host.run(
                [
                    ["call", "state.set", {"scope": "conversation", "key": "k", "value": word}],
                    ["call", "history.search", {"query": word}],
                    ["deltas", 5],
                    ["call", "state.get", {"scope": "conversation", "key": "k"}],
                    ["tell"],
                ],
                conversation_id=conversation,
                actor={"actor_id": conversation},
            )
            assert ended.record.status == "completed", ended.last
            assert ended.told[-1]["value"] == word
            self.ended.append(word)
