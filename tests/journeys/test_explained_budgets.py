"""`explain` of calls for which a budget had too little left: who was asked, and who said what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.explanations import Explanation
from hostler.domain.members import subject_of
from hostler.domain.sign_in import Person
from hostler.journal.explained_calls import explain_call
from hostler.storage.stores import journal, members
from hostler_protocol.errors import NotFoundError
from support.budgeted import PLACE, READ, SET, codes
from support.shop import decide, decision, waiting
from support.stepping import WORKSPACE, Stage, stage, within

pytestmark = pytest.mark.gate("explanations", "subjects")
ISSUER = "https://id.example.com"
ADA = subject_of(ISSUER, "ada-1")
BUDGET: dict[str, Any] = {"on_exceeded": "ask", "max_calls_per_run": 1, "approvers": [f"user:{ADA}"]}


async def ada(host: Stage) -> Caller:
    """A member who has signed in."""
    person = Person(ISSUER, ADA, "Ada Lovelace", "ada@example.com", frozenset())
    admitted = await host.host.db.write(lambda tx: members.admit(tx, person, {WORKSPACE: "approver"}))
    return admitted.members[0].caller(credential="session:s")


async def explained(host: Stage, run_id: str, wanted: str) -> Explanation:
    return await explain_call(host.host.db, host.host.blobs, WORKSPACE, run_id, wanted)


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_a_call_beyond_its_budget_names_who_decided(tmp_path: Path, answer: str) -> None:
    async with within(), stage(tmp_path, hold_seconds=0.05) as host:
        await host.agent(runner="resumable", resource_policy={"budget": BUDGET})
        person = await ada(host)
        run_id = await host.start([SET, READ, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        question = pause.calls[0].call_id
        before = await explained(host, run_id, question)
        assert (before.outcome, before.decided_by) == ("waiting", "budget")
        assert before.text == "a call for which too little of a budget is left waits for people"

        await decide(host, pause, decision(pause.calls[0], answer), by=person)

        denied = answer == "deny"
        assert codes(await host.ended(run_id)) == ["ok", "denied" if denied else "ok"]
        entries = await host.host.db.read(lambda tx: journal.calls_and_decisions(tx, run_id, 0, 100))
        read = next(one for one in entries if "state.get" in one.data)
        votes = [one for one in entries if one.type == "pause.vote"]
        for wanted in (question, str(read.position), str(votes[0].position)):
            found = await explained(host, run_id, wanted)
            assert (found.method, found.decided_by) == ("state.get", "budget")
            assert found.outcome == ("refused" if denied else "allowed")
            assert {(one.actor, one.name) for one in found.decisions if one.action != "pause.open"} == {
                (ADA, "Ada Lovelace")
            }
            (check,) = [one for one in found.checks if one.check == "budget"]
            said = " / ".join(rule.text for rule in check.rules if rule.source == "people")
            assert f"Ada Lovelace ({ADA}) voted: {answer}" in said
            assert check.result == ("refused" if denied else "passed")
            (approval,) = [one for one in found.checks if one.check == "approval"]
            assert approval.result == ("not reached" if denied else "not needed")
        others = [one for one in entries if one.type in {"pause.ready", "pause.resuming", "pause.resumed"}]
        assert others
        for one in others:  # these are about a pause and about no call
            with pytest.raises(NotFoundError, match="has no call"):
                await explained(host, run_id, str(one.position))
