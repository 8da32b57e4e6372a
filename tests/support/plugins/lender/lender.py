"""A runner that hands its run token to whoever listens at the Unix socket its input names.

It sends one line of JSON: what it found in its context. Then each line is a command: `call TOOL {parameters}`
makes it call a tool itself, `end` ends the run.
"""

from __future__ import annotations

import asyncio
import json

from hostler_sdk import RunContext, Runner, artifact, message


class Lender(Runner):
    """Hands its run token out."""

    permissions = {
        "tools": ["detail", "call"],
        "history": ["page", "search"],
        "artifacts": ["metadata", "read"],
        "knowledge_bases": ["retrieve"],
    }
    config = [{"name": "assets-enabled", "type": "boolean", "default": False}]

    async def run(self, ctx: RunContext):
        yield artifact("file", "kept by the run", "kept.txt", "text/plain")
        reader, writer = await asyncio.open_unix_connection(ctx.input.text)
        told = {"run_id": ctx.run_id, "attempt": ctx.attempt, "assets": ctx.runtime.metadata.get("assets")}
        writer.write(json.dumps(told).encode() + b"\n")
        while (line := (await reader.readline()).decode().strip()) not in ("end", ""):
            _, name, parameters = line.split(" ", 2)
            result = await ctx.tools.call(name, json.loads(parameters))
            writer.write(json.dumps(result).encode() + b"\n")
        writer.close()
        yield message("done")


class Resumable(Lender):
    """The same, and goes on from its journal."""

    capabilities = {"resumable"}
