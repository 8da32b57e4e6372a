"""A runner that uses what a host keeps: files, state of all scopes, storage, history, other runs.

Besides the steps of `actor`:

    file NAME SIZE        upload a file, and read it back in ranges
    scopes KEY TEXT       write and read a value in each scope, and write it again at a version that is gone
    store KEY TEXT        write, list, read and delete in the storage of the plugin
    recall                read the conversation's history, and search it
    look                  read the run's own record, its journal and the runs of its conversation
    begin_and_stop STEPS  create a child run, and cancel it
    flow COUNT            many deltas, faster than they are committed
    calls COUNT TEXT      many calls of a tool without effect, one after the other
"""

import asyncio
import base64
import hashlib
import json
from typing import Any

from hostler_sdk import HostError, Result, RunContext
from simulation.plugin.actor import ANSWERED, Plain, Work, steps_of

MORE = frozenset({"file", "scopes", "store", "recall", "look", "begin_and_stop", "calls"})
SCOPES = ("conversation", "actor", "runner")
PART_BYTES = 1000


class Maker(Plain):
    """Takes the steps, and after a crash goes on where it was."""

    capabilities = {"streaming", "tool_calling", "steering", "resumable"}
    permissions = {
        **Plain.permissions,
        "history": ["page", "search"],
        "artifacts": ["metadata", "read"],
        "storage": ["plugin"],
    }

    async def run(self, ctx: RunContext) -> str | Result:
        """Take the steps."""
        work = MakersWork(ctx)
        await work.take(steps_of(ctx))
        return json.dumps(work.answers, sort_keys=True)


class MakersWork(Work):
    """One attempt of one run."""

    kinds = ANSWERED | MORE

    async def file(self, name: str, size: int) -> Any:
        content = (hashlib.sha256(name.encode()).digest() * (size // 32 + 1))[:size]
        files = self.ctx.artifacts
        artifact = await files.upload(content, name=name, mime_type="text/plain", metadata={"of": name})
        try:
            known = await files.metadata(artifact)
            read, at = b"", 0
            while at < size:
                part = await files.read(artifact, at, PART_BYTES)
                read += base64.b64decode(part.content_base64)
                at += PART_BYTES
        except HostError as error:  # the host that has it is another one, or retention was quicker
            return {"artifact": artifact, "error": error.code}
        if read != content or known.size_bytes != size:
            self.wrong(f"a file of {size} bytes was read back as another one of {len(read)}")
        return {"artifact": artifact, "size": known.size_bytes}

    async def scopes(self, key: str, text: str) -> Any:
        answers: dict[str, Any] = {}
        for scope in SCOPES:
            try:
                version = await self.ctx.states.set(scope, key, text)
                value = await self.ctx.states.get(scope, key)
                answers[scope] = {"version": version, "value": value}
            except HostError as error:
                answers[scope] = error.code
                continue
            try:
                await self.ctx.states.set(scope, key, "lost", if_version=version + 1000)
                self.wrong(f"state {scope} was written at a version that it does not have")
            except HostError as error:
                answers[scope]["refused"] = error.code
            if key not in await self.ctx.states.keys(scope, key):
                answers[scope]["gone"] = True
        await self.ctx.states.delete("actor", key)
        return answers

    async def store(self, key: str, text: str) -> Any:
        room = self.ctx.storage.plugin
        name = f"{self.ctx.run_id}/{key}"
        await room.set(name, text)
        keys = await room.keys(f"{self.ctx.run_id}/")
        value = await room.get(name)
        if value != text.encode() or name not in keys:
            self.wrong(f"storage holds {value!r} for what was written as {text!r}; keys: {keys}")
        return {"deleted": await room.delete(name), "after": str(await room.get(name))}

    async def recall(self) -> Any:
        page = await self.ctx.history.page(limit=3)
        found = await self.ctx.history.search("said", top_k=3)
        return {"page": len(page.items), "found": len(found.items)}

    async def look(self) -> Any:
        record = await self.ctx.runs.get()
        entries = await self.ctx.runs.events(limit=5)
        runs = await self.ctx.runs.list(limit=5)
        return {"status": record.status, "entries": len(entries.items) > 0, "runs": len(runs.items)}

    async def begin_and_stop(self, steps: list[Any]) -> Any:
        child = await self.ctx.runs.create("child", json.dumps(steps))
        await self.ctx.runs.cancel(child.run_id, "not any more")
        return {"child": child.run_id}

    async def flow(self, count: int) -> None:
        for number in range(count):
            await self.deltas(1, f"{number} ")
            if number % 100 == 0:
                await asyncio.sleep(0.002)

    async def calls(self, count: int, text: str) -> Any:
        answers: list[Any] = []
        for number in range(count):
            try:
                answers.append((await self.tool("price", f"{text}.{number}"))["serial"])
            except HostError as error:
                answers.append(error.code)
        return answers
