"""What a workspace has besides agents, runs and workers, for the pages of the console that show it."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from hostler.domain.events import Caller
from hostler.domain.tool_pins import approved_tool
from hostler.storage.port import Tx
from hostler.storage.stores import approval_rules, outbox, runs, settings
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from support.console_scene import Scene
from support.http_host import WORKSPACE
from support.pauses import PIN, call, open_pause, open_run, rule

SKILL = "---\nname: brewing\ndescription: How tea is made in this house.\n---\nWarm the pot first.\n"


async def something_of_each(made: Scene, folder: Path) -> None:
    """Make a key, a member, a secret, a receiver, a prompt, skills, approvals that wait and one ahead, and a
    hook that this version cannot read.
    """
    client = made.served.client
    master = folder / "master"
    master.write_text(base64.b64encode(os.urandom(32)).decode(), "utf-8")
    master.chmod(0o600)
    (folder / "skills" / "brewing").mkdir(parents=True)
    (folder / "skills" / "brewing" / "SKILL.md").write_text(SKILL, "utf-8")
    receiver = {"name": "ops", "url": "https://hooks.example.com/x", "secret": "env:HOOK"}
    asks = {"name": "week", "title": "The week", "text": "Of {team}", "arguments": [{"name": "team"}]}
    echo = {"name": "echo", "runner": "plugin:acme/echo/default", "event_types": [], "prompts": [asks]}
    chat = {"name": "chat", "channel": "plugin:acme/chat/chat", "enabled": False}
    for method, path, body in (
        ("POST", "/v1/config", {"master_key": [f"file:{master}"]}),
        ("PUT", "/v1/secrets/api-key", {"value": "hush"}),
        ("POST", "/v1/keys", {"name": "wall", "rights": ["runs:read"]}),
        ("POST", "/v1/members", {"email": "ada@example.com", "role": "reader"}),
        ("POST", "/v1/config/webhooks", receiver),
        ("PUT", "/v1/agents/echo", echo),
        ("POST", "/v1/config/channels", chat),
        ("POST", "/v1/config/skills", {"path": str(folder / "skills")}),
        ("POST", "/v1/schedules", {"name": "morning", "cron": "0 8 * * *", "agent": "echo"}),
    ):
        answer = await client.request(method, path, json=body)
        assert answer.is_success, (path, answer.text)

    def wait(tx: Tx) -> None:
        for name in ("one", "two"):
            open_run(tx, f"r-{name}", WORKSPACE, conversation_id=name)
            open_pause(tx, call(rule=rule("*")), run_id=f"r-{name}", pause_id=name)
        approval_rules.create(
            tx,
            runs.get(tx, WORKSPACE, "r-one"),
            Caller(workspace_id=WORKSPACE, subject="ada", key_id="k"),
            tool_name="shop.send",
            tool=approved_tool(PIN, None),
            effective={},
            arguments=None,
            rule=rule(),
            pause_id="one",
            call_id="k1",
            uses=5,
            minutes=60,
        )
        said = Outbound(ChannelTarget(chat_id="c"), ChannelMessage(text="on its way"))
        outbox.add(tx, WORKSPACE, NewDelivery(delivery_id="d", channel="chat", outbound=said))
        settings.put(tx, WORKSPACE, "hook", "old-hook", {"of_a_later_version": True})

    await made.served.host.db.write(wait)
