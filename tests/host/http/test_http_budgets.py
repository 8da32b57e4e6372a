"""Budgets over HTTP: listed, shown, added to, and by whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.budgets import Account, AccountLimits, Names
from hostler.domain.reservations import Need
from hostler.storage.port import Tx
from hostler.storage.stores import budgets
from hostler.storage.stores.budgets import Charge
from support.http_host import OTHER, WORKSPACE, serving

pytestmark = pytest.mark.gate("budgets")


def charged(workspace: str, *accounts: Account, calls: int = 1) -> Any:
    def charge(tx: Tx) -> None:
        for _ in range(calls):
            budgets.charge(tx, Charge(workspace, accounts, Need()))

    return charge


def account(span: Any, owner: str, names: Names = Names("desk"), **limits: Any) -> Account:  # noqa: B008
    return Account(span, owner, AccountLimits(**limits), names=names)


async def test_budgets_are_listed_page_by_page_and_filtered(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        inside = Names("desk", conversation_id="c1")
        for number in range(5):
            await served.host.db.write(
                charged(WORKSPACE, account("run", f"r{number}", calls=9), calls=number + 1)
            )
        await served.host.db.write(charged(WORKSPACE, account("conversation", "c", inside, cost=2.5)))
        await served.host.db.write(charged(WORKSPACE, account("day", "a", Names("other"), calls=3), calls=4))
        found: list[Any] = []
        cursor: str | None = None
        while cursor is not None or not found:
            params: dict[str, Any] = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await served.client.get("/v1/budgets", params=params)).json()
            found, cursor = found + page["items"], page["next_cursor"]
        assert len({one["id"] for one in found}) == len(found) == 7
        by_id = {one["id"]: one for one in found}
        assert (by_id["run.0.r3"]["used"], by_id["run.0.r3"]["limits"]) == ({"calls": 4}, {"calls": 9})
        assert (by_id["run.0.r3"]["run_id"], by_id["run.0.r3"]["day"]) == ("r3", None)
        day = next(one for one in found if one["span"] == "day")
        assert (day["used"], day["agent"], len(day["day"])) == ({"calls": 3}, "other", 10)

        async def ids(**params: str) -> list[str]:
            answer = await served.client.get("/v1/budgets", params=params)
            return [one["id"] for one in answer.json()["items"]]

        assert await ids(span="conversation") == ["conversation.0.c"]
        assert await ids(conversation_id="c1") == ["conversation.0.c"]
        assert await ids(agent="other") == [day["id"]]
        assert (await served.client.get("/v1/budgets", params={"span": "moon"})).status_code == 400


async def test_a_budget_is_added_to_once_and_says_by_whom(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.host.db.write(charged(WORKSPACE, account("run", "r", calls=1, cost=0.5)))
        path = "/v1/budgets/run.0.r"
        body = {"calls": 2, "cost": 1.25, "comment": "go on"}
        for _ in range(2):
            answer = await served.client.post(f"{path}/top-up", json=body, headers={"Idempotency-Key": "k"})
            assert answer.status_code == 200, answer.text
        shown = (await served.client.get(path)).json()
        assert shown["added"] == {"calls": 2, "cost": 1.25}
        (added,) = shown["top_ups"]
        assert (added["subject"], added["comment"], added["added"]) == ("admin", "go on", shown["added"])
        for wrong, status in (
            ({}, 400),
            ({"comment": "nothing"}, 400),
            ({"calls": 0}, 400),
            ({"calls": -1}, 400),
            ({"calls": 1.5}, 400),
            ({"cost": 10**12}, 400),
            ({"cost": "1"}, 400),
            ({"tokens": 5}, 400),
        ):
            refused = await served.client.post(f"{path}/top-up", json=wrong)
            assert refused.status_code == status, (wrong, refused.text)
        for missing in ("run.0.none", "moon.0.r", "r", "day.20000.r"):
            assert (await served.client.get(f"/v1/budgets/{missing}")).status_code == 404
            unknown = await served.client.post(f"/v1/budgets/{missing}/top-up", json={"calls": 1})
            assert unknown.status_code == 404
        past = account("day", "a", calls=1)
        await served.host.db.write(charged(WORKSPACE, past))
        (day,) = (await served.client.get("/v1/budgets", params={"span": "day"})).json()["items"]

        def yesterday(tx: Tx) -> None:
            from hostler.storage.port import Query

            text = "UPDATE budget_use SET day = day - 1 WHERE span = 'day'"
            tx.run(Query("test.sql", text, text))

        await served.host.db.write(yesterday)
        number = int(day["id"].split(".")[1]) - 1
        over = await served.client.post(f"/v1/budgets/day.{number}.a/top-up", json={"calls": 1})
        assert over.status_code == 409


async def test_who_may_look_and_add(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for workspace in (WORKSPACE, OTHER):
            await served.host.db.write(charged(workspace, account("run", "r", calls=1)))
            of_workspace = account("workspace", workspace, Names(), calls=1)
            await served.host.db.write(charged(workspace, of_workspace))
        looks, adds = await served.key(OTHER, "budgets:read"), await served.key(OTHER, "admin")
        async with served.as_key(looks) as client:
            assert len((await client.get("/v1/budgets")).json()["items"]) == 2
            assert (await client.post("/v1/budgets/run.0.r/top-up", json={"calls": 1})).status_code == 403
            elsewhere = await client.get("/v1/budgets", params={"workspace_id": WORKSPACE})
            assert elsewhere.status_code == 403
        async with served.as_key(adds) as client:
            assert (await client.post("/v1/budgets/run.0.r/top-up", json={"calls": 1})).status_code == 200
            own = await client.post(f"/v1/budgets/workspace.0.{OTHER}/top-up", json={"calls": 1})
            assert own.status_code == 403, "an administrator of a workspace does not widen its budget"
            there = {"workspace_id": WORKSPACE}
            foreign = await client.post("/v1/budgets/run.0.r/top-up", params=there, json={"calls": 1})
            assert foreign.status_code == 403
        operator = served.client
        path = f"/v1/budgets/workspace.0.{OTHER}"
        raised = await operator.post(f"{path}/top-up", params={"workspace_id": OTHER}, json={"calls": 4})
        assert (raised.status_code, raised.json()["added"]) == (200, {"calls": 4})
        assert (await operator.get(path)).status_code == 404
        assert (await operator.get(path, params={"workspace_id": OTHER})).json()["added"] == {"calls": 4}
