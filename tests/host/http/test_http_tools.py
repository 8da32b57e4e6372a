"""Tools over HTTP: what there is, and what a run's grant holds of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.grants import Grant, decode_grant
from hostler.host.config import ConfigFile
from hostler.plugins.source import Folder
from hostler.storage.stores import agents, runs
from support.http_host import PUPPET, WORKSPACE, Served, serving
from support.invocations import pin_of
from support.trust import plugin_entry

ROOT = Path(__file__).resolve().parents[3]
TOOLBOX = ROOT / "tests" / "support" / "plugins" / "toolbox"
CLERK = "plugin:acme/shop/default"


async def with_shop(served: Served, tmp_path: Path, **policy: Any) -> None:
    """Add a copy of the shop, and an agent `clerk` that runs its runner under a policy."""
    folder = tmp_path / "shop"
    shutil.copytree(ROOT / "examples" / "shop", folder, ignore=shutil.ignore_patterns("*.sqlite3*"))
    await served.host.apply(ConfigFile(plugins=[plugin_entry(PUPPET), str(folder)]), actor="test")
    spec = AgentSpec(name="clerk", runner=CLERK, resource_policy=ResourcePolicy(**policy))
    await served.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, spec))
    served.host.event_router.changed(WORKSPACE)


async def grant_of(served: Served, run_id: str) -> Grant:
    found = await served.host.db.read(lambda tx: runs.get(tx, WORKSPACE, run_id))
    assert found.grant_json is not None
    return decode_grant(found.grant_json)


async def test_tools_are_listed_with_schema_effect_owner_and_approval(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        own = (await served.client.get("/v1/tools")).json()["items"]
        assert {one["name"]: one["effect"] for one in own} == {
            "schedule.create": "idempotent",
            "schedule.delete": "idempotent",
            "schedule.list": "pure",
        }
        await with_shop(served, tmp_path)
        await served.host.supervisor.connection("acme/shop")
        items = {one["name"]: one for one in (await served.client.get("/v1/tools")).json()["items"]}
        others = {name: one for name, one in items.items() if one not in own}
        assert {name: (one["effect"], one["client"], one["approval"]) for name, one in others.items()} == {
            "shop.prices": ("pure", False, "never"),
            "shop.book": ("idempotent", False, "never"),
            "shop.pay": ("reconcilable", False, "never"),
            "shop.send": ("default", False, "never"),
            "shop.refund": ("default", False, "required"),
            "shop.choose_seat": ("default", True, "never"),
        }
        one = (await served.client.get("/v1/tools/shop.book")).json()
        assert one == items["shop.book"]
        assert (one["owner"], one["tool_id"]) == ("acme/shop", "plugin:acme/shop#book")
        assert one["parameters"]["properties"]["nights"]["maximum"] == 30
        gone = await served.client.get("/v1/tools/shop.sell")
        assert gone.status_code == 404
        async with served.as_key(await served.key(WORKSPACE, "runs:read")) as stranger:
            assert (await stranger.get("/v1/tools")).status_code == 403

    await serve(tmp_path, scenario)


async def test_a_name_that_two_plugins_offer_is_shown_with_the_reason(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for author in ("acme", "evil"):
            folder = tmp_path / author
            shutil.copytree(TOOLBOX, folder)
            manifest = folder / "hostler.yaml"
            manifest.write_text(manifest.read_text().replace("author: acme", f"author: {author}"))
            await served.host.supervisor.connection(
                served.host.supervisor.add(Folder(folder, level="trusted"))
            )
        items = (await served.client.get("/v1/tools")).json()["items"]
        echoes = [one for one in items if one["name"] == "toolbox.echo"]
        assert [one["owner"] for one in echoes] == ["acme/toolbox", "evil/toolbox"]
        assert {one["problem"] for one in echoes} == {
            "nobody gets it: it is offered by acme/toolbox and evil/toolbox; remove all but one"
        }

    await serve(tmp_path, scenario)


async def test_a_runs_grant_pins_its_tools_and_takes_the_stricter_approval(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await with_shop(
            served,
            tmp_path,
            allowed_tool_names=["shop.*"],
            tool_approval={
                "shop.*": "never",
                "shop.pay": "required",
                "shop.book": ToolApprovalPolicy(subjects=["role:admin"]),
            },
        )
        said = await served.say("help", agent="clerk")
        assert "shop.prices: Tells what a night costs" in said["output"]["text"]
        grant = await grant_of(served, said["run_id"])
        assert {name: tool.approval for name, tool in grant.tools.items()} == {
            "shop.prices": "never",
            "shop.book": "policy",
            "shop.pay": "required",
            "shop.send": "never",
            "shop.refund": "required",
            "shop.choose_seat": "never",
        }
        assert set(grant.tool_approvals) == {"shop.book", "shop.pay", "shop.refund"}
        assert set(grant.tool_pins) == set(grant.tools)
        assert grant.tool_pins["shop.choose_seat"].client
        assert grant.tool_pins["shop.pay"] == pin_of(served.host.tools, WORKSPACE, "shop.pay")

    await serve(tmp_path, scenario)


async def test_a_run_calls_tools_and_is_told_what_is_wrong(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await with_shop(served, tmp_path, allowed_tool_names=["shop.prices", "shop.book", "shop.send"])
        said = await served.say(
            'shop.prices {"kind": "suite"}\n'
            'shop.book {"kind": "single", "nights": 2}\n'
            'shop.book {"kind": "single", "nights": 99}\n'
            'shop.send {"to": " ", "text": "x"}\n'
            'shop.pay {"booking": "B1", "amount": 1}',
            agent="clerk",
        )
        told = said["output"]["text"].splitlines()
        assert told[0] == 'shop.prices: {"suite": 300}'
        assert '"total": 160' in told[1]
        assert "invalid_argument" in told[2]
        assert "at /nights: 99 is greater than the maximum of 30" in told[2]
        assert "invalid_argument: send: to must name somebody" in told[3]
        assert "not_found" in told[4]

    await serve(tmp_path, scenario)


async def serve(tmp_path: Path, scenario: Any) -> None:
    async with serving(tmp_path / "data") as served:
        await scenario(served)
