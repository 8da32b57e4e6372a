"""The stepper with answers ahead: the step `taken METHOD PARAMS` makes any call without an id.

The stepper's file is put beside it.
"""

import asyncio
import os

os.environ["STEPPER_IDENTITY"] = "test/cheat"

import stepper


class Cheat(stepper.Plugin):
    """Takes answers ahead."""

    def answer(self, method, params):
        return {**super().answer(method, params), **({"ahead": True} if method == "initialize" else {})}


class Run(stepper.Run):
    """One attempt of one run."""

    async def taken(self, method, params):
        params = {"run_id": self.run_id, **self.filled(params)}
        self.plugin.send({"method": f"host/{method}", "params": params})


stepper.Plugin, stepper.Run = Cheat, Run
asyncio.run(stepper.over_stdio())
