"""A runner around programs that know of OpenAI, some also of MCP, and of nothing else."""

import asyncio
import json
import os
import sys
from pathlib import Path

from hostler_sdk import RunContext, Runner, delta, message

HERE = Path(__file__).parent
PROGRAMS = {
    "python": [sys.executable, str(HERE / "program.py")],
    "node": ["node", str(HERE / "node" / "agent.mjs")],
    "rust": [str(HERE / "rust" / "target" / "release" / "agent")],
}
MAX_LINE_BYTES = 1024 * 1024


class Door(Runner):
    """Door

    Has a program answer, which finds its model by OPENAI_BASE_URL and OPENAI_API_KEY.
    """

    capabilities = {"streaming", "resumable"}
    permissions = {"models": ["invoke", "stream"], "tools": ["detail", "call"]}
    config = [
        {"name": "model", "type": "model-fallback-selector", "required": True},
        {"name": "program", "type": "select", "options": [*PROGRAMS], "default": "python"},
    ]

    async def run(self, ctx: RunContext):
        """Start the program, and stream what it writes."""
        command = PROGRAMS[ctx.config.get("program", "python")]
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **ctx.models.openai_variables, "AGENT_MCP_URL": ctx.tools.mcp_url},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
            )
        except FileNotFoundError as error:
            raise RuntimeError(f"there is no {command[0]}: README.md says how to build it") from error
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
