"""What each role is offered in the console: what it may not do is absent or says why, all else works."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.domain.budgets import Account, AccountLimits
from hostler.domain.members import ROLE_RIGHTS, MemberRole
from hostler.domain.reservations import Need
from hostler.storage.port import Tx
from hostler.storage.stores import budgets
from hostler.storage.stores.budgets import Charge
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import shown
from support.console_scene import Scene, scene
from support.console_walk import answers, remember_answers, sign_in, sign_out
from support.console_walk import shown as complete
from support.http_host import WORKSPACE
from support.pauses import call, open_pause, open_run, rule

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
READS = {"/v1/audit/verification"}
"""What is only read, and yet a right of its own."""
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
ROLES: tuple[MemberRole, ...] = ("reader", "approver", "operator", "owner")
READS_CHAT = "Your key can read here, but not write."
READS_AGENTS = "Your key may look at agents and not change them"
TESTS = "Tests need the right “agents:write”."
WAITS = "It needs the right pauses:read."
NOTHING = "Your key does not have the right to see this"
"""Of a page that is not for the role at all."""


@dataclass(frozen=True)
class Control:
    """What acts on a page: a button by its name, or a field by its selector."""

    page: str
    name: str
    right: str
    to: str = ""
    """How the address of what it asks the host begins."""
    steps: tuple[str | tuple[str, str], ...] = ()
    """What is pressed after it, or typed into which field; without any, it acts at once."""
    why: str = ""
    """What the page says in its place."""


CONTROLS = (
    Control("/chat/echo-1", ".composer textarea", "events:write", "/v1/events",
            ((".composer textarea", "hello from {role}"), "Send"), READS_CHAT),
    Control("/chat/echo-1", "Rename", "conversations:write", "/v1/conversations/echo-1/title",
            ((".title-form input", "title of {role}"), "Save")),
    Control("/chat/echo-1", "Delete", "conversations:write"),
    Control("/runs/{run}", "Replay", "runs:write", "/v1/runs/{run}/replay"),
    Control("/runs/{run}", "Run again", "runs:write", "/v1/runs/{run}/retry"),
    Control("/runs/{run}", "Fork", "runs:write"),
    Control("/agents", "New agent", "agents:write"),
    Control("/agents/echo", "Disable", "agents:write", "/v1/agents/echo", ("Enable",), READS_AGENTS),
    Control("/agents/echo", "Delete", "agents:write"),
    Control("/agents/echo", ".try textarea", "events:write", "/v1/events",
            ((".try textarea", "a try of {role}"), "Send")),
    Control("/models/main", "Send", "agents:write", "/v1/models/main/test",
            (("form textarea", "a test"), "Send"), TESTS),
    Control("/tools/shop.prices", "Call it", "agents:write", "/v1/tools/shop.prices/test", (), TESTS),
    Control("/knowledge", "New knowledge base", "knowledge:write", "/v1/knowledge",
            ((".form input[name=kb_id]", "of-{role}"), "Store")),
    Control("/knowledge/house-rules", "Upload", "knowledge:write"),
    Control("/knowledge/house-rules", "Find", "knowledge:read", "/v1/knowledge/house-rules/search",
            (("input[name=q]", "dogs"), "Find")),
    Control("/approvals/of-{role}", "Stop the run", "pauses:write", why=WAITS),
    Control("/approvals/of-{role}", "Approve", "pauses:write", "/v1/pauses/of-{role}/actions", (), WAITS),
    Control("/usage/budgets?span=day", "Add", "budgets:write", "/v1/budgets/",
            ((".budget input[name=calls]", "6"), ".budget .form .primary")),
    Control("/usage/budgets?span=workspace", "Add", "installation"),
    Control("/workers", "Cordon: gpu-1", "workers:write", "/v1/workers/gpu-1/uncordon", ("Uncordon: gpu-1",)),
    Control("/workers/cpu-2", "Remove", "workers:write"),
    Control("/plugins/acme%2Fecho", "Restart", "installation", why="Logs need the right “installation”"),
    Control("/audit/verify", "Verify now", "admin", "/v1/audit/verification", why="verify the chains"),
    Control("/settings/secrets", "New secret", "secrets:write", "/v1/secrets/of-{role}",
            ((".form input[name=name]", "of-{role}"), (".form input[name=value]", "hush"), "Store")),
    Control("/settings/keys", "New key", "admin", "/v1/keys", ((".form input[name=name]", "k"), "Create")),
    Control("/settings/members", "Invite", "admin", "/v1/members",
            (("input[name=email]", "{role}@example.com"), "Invite")),
    Control("/settings/webhooks", "New receiver", "installation", why="Receivers belong to the installation"),
    Control("/settings/retention", ".form", "installation", why="It needs the right installation."),
)  # fmt: skip


def found(name: str) -> str:
    """An expression: the control, or undefined."""
    if name.startswith("."):
        return f"(document.querySelector({json.dumps(name)}) ?? undefined)"
    named = f"[one.ariaLabel, one.innerText.trim()].includes({json.dumps(name)})"
    return f"[...document.querySelectorAll('main :is(button, a.button)')].filter((one) => {named}).at(-1)"


async def test_each_control_is_there_for_those_who_may_use_it_and_works(tmp_path: Path) -> None:
    async with scene(tmp_path / "data") as made, browsing() as page:
        await something_of_each(made, tmp_path)
        await page.resize(1440, 900)
        await remember_answers(page)
        for role in ROLES:
            rights = ROLE_RIGHTS[role]
            key = await made.served.key(WORKSPACE, *rights, subject=role)
            await sign_in(page, made.served.url, key)
            for control in CONTROLS:
                values = {"role": role, "run": made.run_id}
                await page.open(made.served.url + control.page.format(**values))
                await complete(page)
                if control.right in rights or ("admin" in rights and control.right != "installation"):
                    await works(page, control, values)
                else:
                    if control.why:
                        await page.until(f"{shown(control.why)} || {shown(NOTHING)}")
                    await calm(page)
                    assert not await page.evaluate(f"{found(control.name)} !== undefined"), (role, control)
            if role == "owner":
                await page.open(f"{made.served.url}/usage/budgets?span=workspace")
                await page.until(shown("Only an administrator of the installation adds to it."))
            await sign_out(page)
        decided = {role: await decision_of(made, role) for role in ROLES}
        assert decided == {
            "reader": "undecided",
            "approver": "approved",
            "operator": "approved",
            "owner": "approved",
        }


async def calm(page: Page) -> None:
    """All that the page has asked for is there, and nothing has changed for a moment."""
    await page.evaluate(
        "new Promise((done) => { let timer; const rest = () => { clearTimeout(timer);"
        " timer = setTimeout(done, 150); }; new MutationObserver(rest).observe(document.body,"
        " {subtree: true, childList: true}); rest(); setTimeout(done, 3000); })"
    )


async def works(page: Page, control: Control, values: dict[str, str]) -> None:
    """Use it as a person does, and see that the host did what it asked for."""
    await page.until(f"{found(control.name)} !== undefined")
    if not control.to:
        return
    steps = control.steps
    if not control.name.startswith(".") and not (steps and steps[-1] == control.name):
        steps = (control.name, *steps)
    for step in steps:
        if isinstance(step, tuple):
            await page.type_into(step[0], step[1].format(**values))
        else:
            await page.until(f"{found(step)}?.disabled === false")
            await page.evaluate(f"({found(step)}.click(), true)")
    to = control.to.format(**values)
    reads = "true" if control.to in READS else "method !== 'GET'"
    asked = f"window.answers.some(([method, to]) => {reads} && to.startsWith({json.dumps(to)}))"
    await page.until(asked)
    refused = [one for one in await answers(page) if one[0] in WRITES and one[2] >= 400]
    assert refused == [], (values["role"], control)


async def decision_of(made: Scene, role: str) -> str:
    answer = await made.served.client.get(f"/v1/pauses/of-{role}")
    decision: str = answer.json()["calls"][0]["decision"]
    return decision


async def something_of_each(made: Scene, folder: Path) -> None:
    """What the controls are about: approvals for everybody, budgets, and a master key for secrets."""
    master = folder / "master"
    master.write_text(base64.b64encode(os.urandom(32)).decode(), "utf-8")
    master.chmod(0o600)
    answer = await made.served.client.post("/v1/config", json={"master_key": [f"file:{master}"]})
    assert answer.is_success, answer.text
    limits = AccountLimits(calls=4)
    accounts = (Account("day", "a", limits), Account("workspace", WORKSPACE, limits))

    def write(tx: Tx) -> None:
        for role in ROLES:
            open_run(tx, f"r-{role}", WORKSPACE, conversation_id=role)
            open_pause(tx, call(rule=rule("*")), run_id=f"r-{role}", pause_id=f"of-{role}")
        budgets.charge(tx, Charge(WORKSPACE, accounts, Need()))

    await made.served.host.db.write(write)
