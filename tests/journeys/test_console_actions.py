"""The platform actions of a run at its page: what was asked, where, the risk, the decision, the outcome."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.platform_actions import ACTION_OF_TOOL, PLATFORM_ACTIONS
from support.axe import serious_mistakes
from support.channel_host import Chatting, chatting
from support.chat_platform import platform
from support.chromium import NEEDS_CHROMIUM, browsing
from support.console import FITS, LOOKS, say, sign_in
from support.console_words import in_languages

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
HOSTILE = '<img src=x onerror="window.broken=1"> \u202egnp.exe ' + "W" * 100
ASKED: list[dict[str, Any]] = [
    {"action": "message.react", "payload": {"emoji": "+"}},
    {"action": "message.edit", "target": "7", "payload": {"text": "x"}},
    {"action": "group.info", "target": {"chat_id": HOSTILE}},
    {"action": "member.mute", "target": "eve", "payload": {"reason": "refuse"}},
    {"tool": "platform.message_pin", "message_id": "1"},
    {"later": True, "action": "message.react", "payload": {"emoji": "-"}},
    {"later": True, "action": "message.unreact"},
    {"later": True, "action": "member.kick", "target": "eve"},
    {"action": "member.kick", "target": "bob", "payload": {"reason": "lose"}},
]
ROWS = (
    "[...document.querySelectorAll('.step.of-action')].map((one) => [one.querySelector('strong').innerText,"
    " [...one.querySelectorAll('.mark:is(.risk, .became)')].map((mark) => mark.innerText).join(' ')]"
    ".join(': '))"
)


def became(action: str, risk: str, outcome: str) -> str:
    """A row of the page."""
    return f"{action}: {say(f'action_risk.{risk}')} {say(f'action_outcome.{outcome}')}"


def is_told(rows: list[str]) -> str:
    """An expression: the actions of the page, with their risks and outcomes, are these."""
    wanted = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    return f"JSON.stringify({ROWS}) === {json.dumps(wanted)}"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Chatting]:
    policy = ResourcePolicy(
        allowed_actions=["*"],
        allowed_tool_names=["platform.*"],
        actions_without_approval=["member.mute"],
    )
    more = {"acts": str(tmp_path / "acts")}
    async with (
        platform() as chat,
        chatting(tmp_path, chat, agent={"resource_policy": policy}, config_more=more) as made,
    ):
        await made.connected()
        yield made


async def waiting(host: Chatting, status: str) -> dict[str, Any]:
    """The pause with this status."""
    client = host.served.client

    async def look() -> dict[str, Any] | None:
        for one in (await client.get("/v1/pauses")).json()["items"]:
            if one["status"] == status:
                pause: dict[str, Any] = (await client.get(f"/v1/pauses/{one['id']}")).json()
                return pause
        return None

    found: dict[str, Any] = await host.until(look)
    return found


@in_languages("en", "zh")
async def test_what_became_of_each_action_is_told_apart(host: Chatting, tmp_path: Path) -> None:
    client = host.served.client
    host.platform.say(json.dumps(ASKED))
    pause = await waiting(host, "open")
    (call,) = pause["calls"]
    approve = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
    body = {"revision": pause["revision"], "actions": [approve]}
    assert (await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)).is_success
    pause = await waiting(host, "needs_review")
    (run,) = (await client.get("/v1/runs")).json()["items"]
    told = [
        became("message.react", "write", "done"),
        became("message.edit", "write", "unsupported"),
        became("group.info", "read", "refused"),
        became("member.mute", "dangerous", "failed"),
        became("message.pin", "write", "done"),
        became("message.react", "write", "done"),
        became("message.unreact", "write", "unsupported"),
        became("member.kick", "dangerous", "refused"),
        became("member.kick", "dangerous", "in_doubt"),
    ]
    async with browsing() as page:
        await sign_in(host.served, page, f"/runs/{run['run_id']}?kind=action")
        await page.resize(1440, 900)
        await page.until("document.querySelectorAll('.step').length > 0")
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        await page.until(is_told(told))
        # what a person says of it, and who approved it
        said = {"outcome": "happened", "result": {"by": "me"}}
        path = f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve"
        assert (await client.post(path, json=said)).is_success
        told[-1] = became("member.kick", "dangerous", "done")
        await page.until(is_told(told))
        for width, theme, language in LOOKS:
            await page.resize(width, 900)
            await page.wish(theme)
            await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
            await page.open(f"{host.served.url}/runs/{run['run_id']}?kind=action")
            await page.until("document.querySelectorAll('.step').length > 0")
            await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            await page.until("document.querySelectorAll('.step.of-action .mark.became.good').length === 4")
            await page.evaluate(
                "document.querySelectorAll('.step.of-action .row').forEach((one) => one.click())"
            )
            await page.until("document.querySelectorAll('.details .facts').length > 2")
            assert await serious_mistakes(page) == [], (width, theme)
            assert await page.evaluate(FITS), width
        assert await page.evaluate("window.broken") is None
        # the page has the names and risks of the actions as the host has them
        names, tools = json.dumps(list(PLATFORM_ACTIONS)), json.dumps(list(ACTION_OF_TOOL))
        lib = "document.querySelector('script[src$=\"console.js\"]').src.replace('console.js', 'lib/')"
        both = f"[{names}.map(lib.riskOf), {tools}.map(lib.actionOfTool)]"
        known = f"import({lib} + 'platform_actions.js').then((lib) => {both})"
        risks = [action.risk for action in PLATFORM_ACTIONS.values()]
        assert await page.evaluate(known) == [risks, list(ACTION_OF_TOOL.values())]
        assert page.complaints == []
