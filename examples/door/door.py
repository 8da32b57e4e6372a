"""A runner around a program that knows of OpenAI and of nothing else."""

import asyncio
import json
import os
import sys
from pathlib import Path

from hostler_sdk import RunContext, Runner, delta, message

PROGRAM = [sys.executable, str(Path(__file__).with_name("program.py"))]
MAX_LINE_BYTES = 1024 * 1024


class Door(Runner):
    """Door

    Has a program answer, which finds its model by OPENAI_BASE_URL and OPENAI_API_KEY.
    """

    capabilities = {"streaming", "resumable"}
    permissions = {"models": ["invoke", "stream"]}
    config = [{"name": "model", "type": "model-fallback-selector", "required": True}]

    async def run(self, ctx: RunContext):
        """Start the program, and stream what it writes."""
        child = await asyncio.create_subprocess_exec(
            *PROGRAM,
            env={**os.environ, **ctx.models.openai_variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
        )
        try:
            child.stdin.write(ctx.input.text.encode())
            child.stdin.close()
            pieces = []
            async for line in child.stdout:  # one piece of the answer per line, as JSON
                pieces.append(json.loads(line))
                yield delta(pieces[-1])
            if status := await child.wait():
                raise RuntimeError(
                    f"the program ended with status {status}; its errors are in the plugin's log"
                )
            yield message("".join(pieces))
        finally:
            if child.returncode is None:  # the run was cancelled
                child.kill()
                await child.wait()
