"""What JSON cannot carry, in a whole host: the run ends with the place of the value, nothing is stored."""

from __future__ import annotations

from pathlib import Path

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.stepping import stage

PLUGIN = '''
import math

from hostler_sdk import Runner, completed, message, paused, state_updated


class Odd(Runner):
    """Gives values that JSON cannot carry."""

    capabilities = {"continuation"}

    async def run(self, ctx):
        prices = {"rooms": [{"price": math.nan}]}
        match ctx.input.text:
            case "result":
                yield state_updated("actor", "prices", prices)
            case "call":
                await ctx.states.set("actor", "prices", prices)
            case "pause":
                call = {"tool_name": "t", "arguments": {}, "kind": "approval", "title": "Go?"}
                yield paused([call], state={"seats": {1, 2}})
            case "text":
                yield message("half \\ud83d")
        yield completed()
'''
PLACES = [
    ("result", "TypeError: state.updated: value['rooms'][0]['price'] is nan"),
    ("call", "InvalidArgument: state.set: value['rooms'][0]['price'] is nan"),
    ("pause", "TypeError: run.paused: state['seats'] is a set: use a list"),
    ("text", "TypeError: message.completed: message.content holds half a surrogate pair"),
]


async def test_a_run_ends_with_the_place_of_what_json_cannot_carry(tmp_path: Path) -> None:
    plugin = tmp_path / "odd"
    plugin.mkdir()
    (plugin / "odd.py").write_text(PLUGIN)
    (plugin / "hostler.yaml").write_text(
        'plugin: {author: test, name: odd, version: 1.0.0}\nrunners: [{name: default, entry: "odd:Odd"}]\n'
    )
    async with stage(tmp_path / "data", plugin=plugin, agent=False) as host:
        spec = convert({"name": "main", "runner": "plugin:test/odd/default"}, AgentSpec, "main")
        await host.host.apply(ConfigFile(agents=[spec]), actor="test")
        for text, says in PLACES:
            ended = await host.run([], input={"text": text})
            assert (ended.record.status, ended.record.status_code) == ("failed", "runner.error")
            assert ended.last["error"].startswith(says), ended.last
            assert ended.types == ["log", "run.failed"]
            (trace,) = [result["data"]["text"] for result in ended.results if result["type"] == "log"]
            assert "odd.py" in trace  # the line of the author's own code
            assert ended.entries("call") == []
