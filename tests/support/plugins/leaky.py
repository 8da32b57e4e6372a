"""A runner that puts its secret into everything that is there to find errors, and into nothing else."""

import json
import os
import sys
from pathlib import Path

from hostler_sdk import HostError, Runner, log, message


class Leaky(Runner):
    """Leaks as the message says."""

    permissions = {"models": ["invoke"], "tools": ["call"]}
    config = [
        {"name": "key", "type": "secret"},
        {"name": "more", "type": "secret"},
        {"name": "model", "type": "llm-model-selector"},
        {"name": "assets-enabled", "type": "boolean", "default": False},
    ]

    async def run(self, ctx):
        word, _, rest = ctx.input.text.partition(" ")
        secrets = [ctx.config["key"], ctx.config.get("more", "")]
        assets = ctx.runtime.metadata.get("assets")
        if assets is not None:
            with Path(__file__).with_name("tokens").open("a") as file:
                file.write(assets["token"] + "\n")
            secrets.append(assets["token"])
        leak = f"cannot sign in with {secrets}, or {json.dumps(secrets)}"
        match word:
            case "raise":
                raise RuntimeError(leak)
            case "print":
                print(leak, file=sys.stderr, flush=True)
                yield log("error", leak)
                yield message("printed")
            case "crash":
                print(leak, file=sys.stderr, flush=True)
                os._exit(3)
            case "model":
                yield message(await self._error(ctx.models.invoke(rest, [{"role": "user", "content": "hi"}])))
            case "tool":
                yield message(await self._error(ctx.tools.call(rest, {}, "1")))
            case _:
                yield message("fine")

    async def _error(self, call):
        try:
            return f"no error: {await call}"
        except HostError as error:
            return f"{error.code}: {error.message}"
