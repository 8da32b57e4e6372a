"""AG-UI's client over a host that is killed: in the middle of its answer, and while its run waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dialects.ag_ui import ag_ui_client, texts_of, user
from support.dialects.players import PLAYER, POLICY, RUNNER, script
from support.server_process import KEY, HostProcess, config_file, serving

pytestmark = pytest.mark.timeout(300)
ORDER = ["tool", "player.order", {"thing": "茶"}, "o"]


@pytest.mark.shows("ag-ui", "long-run")
async def test_a_stream_and_a_pause_outlive_the_host(tmp_path: Path) -> None:
    agent = {"name": "player", "runner": RUNNER, "resource_policy": POLICY}
    config = config_file(tmp_path / "config.yaml", plugins=[PLAYER], agents=[agent])
    gate = tmp_path / "gate"
    steps = script(["delta", "一, "], ["wait", str(gate)], ["say", "一, 二."], ORDER, ["say", "Bye."])
    async with serving(HostProcess(tmp_path / "host", config)) as host:
        port = host.url.rpartition(":")[2]
        host.options = ["--port", port]  # clients find it again where it was
        async with ag_ui_client(host.url, KEY, resuming=True) as client:
            client.send(say=[user(steps)], run={"runId": "r1"})
            await client.until_event("TEXT_MESSAGE_CONTENT")
            host.kill()
            gate.touch()
            await host.start()
            done = await client.outcome()
            assert texts_of(done["messages"]) == ["一, 二."]
            (interrupt,) = done["interrupts"]
            host.kill()
            await host.start()
            resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
            done = await client.command(run={"resume": resume})
            texts = texts_of(done["messages"])
            assert texts[0] == "一, 二."
            assert texts[-1] == "Bye."
            assert sum("ordered 1 茶" in text for text in texts) == 1
            assert client.warnings == []
        host.kill()
        await host.start()
        async with ag_ui_client(host.url, KEY) as page:  # long after its end
            seen = await page.command(connect=True)
            assert texts_of(seen["messages"]) == texts
