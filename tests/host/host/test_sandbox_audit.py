"""What sandboxes do not let happen stands in the audit chain, within a bound for each of them."""

from __future__ import annotations

import asyncio

import pytest

from hostler.host import sandbox_audit
from hostler.host.sandbox_audit import HOUR_SECONDS, MAX_PER_HOUR, AuditedSandboxes
from hostler.sandbox.port import Violation
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit
from support.shaky_database import Shaky

pytestmark = pytest.mark.gate("sandbox-violations")

WORKSPACE = "default"


def refusal(number: int) -> Violation:
    return Violation("refused", f"reading /etc/{number}", f"reading /etc/{number}: not among what it may see")


async def test_refusals_and_limits_are_facts_of_the_chain(database: SqlDatabase) -> None:
    sandboxes = AuditedSandboxes(database, WORKSPACE)
    sandboxes.record("plugin acme/echo", refusal(1))
    sandboxes.record("exec 12", Violation("limit", "memory", "300.0 MiB of memory; 256.0 MiB are allowed"))
    await sandboxes.close()
    facts = await database.read(lambda tx: audit.page(tx, WORKSPACE))
    assert [(fact.actor, fact.action, fact.target, fact.body["text"]) for fact in reversed(facts)] == [
        ("sandbox", "sandbox.refused", "plugin acme/echo", refusal(1).text),
        ("sandbox", "sandbox.limit", "exec 12", "300.0 MiB of memory; 256.0 MiB are allowed"),
    ]


async def test_one_that_is_refused_much_fills_the_chain_no_further_than_its_bound(
    database: SqlDatabase,
) -> None:
    now = [0.0]
    sandboxes = AuditedSandboxes(database, WORKSPACE, clock=lambda: now[0])
    for number in range(MAX_PER_HOUR * 3):
        sandboxes.record("plugin acme/echo", refusal(number))
    sandboxes.record("plugin acme/other", refusal(0))
    sandboxes.record("plugin acme/echo", Violation("refused", "ptrace", "the system call ptrace"))
    sandboxes.record("plugin acme/echo", Violation("limit", "memory", "too much"))
    now[0] = HOUR_SECONDS
    sandboxes.record("plugin acme/echo", refusal(7))
    await sandboxes.close()
    facts = await database.read(lambda tx: audit.page(tx, WORKSPACE, limit=1000))
    texts = [fact.body["text"] for fact in facts if fact.target == "plugin acme/echo"]
    assert texts[:3] == [refusal(7).text, "too much", "the system call ptrace"], "of other groups"
    assert texts[3].startswith("reading: more than")
    assert len(texts) == MAX_PER_HOUR + 4
    assert len(facts) == MAX_PER_HOUR + 5


async def test_refusals_that_cannot_be_written_wait_for_the_database(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_audit, "RETRY_SECONDS", 0.001)
    sandboxes = AuditedSandboxes(Shaky(database, refusals=2), WORKSPACE)
    written = asyncio.Event()
    worker = asyncio.create_task(sandboxes.work(written.set))
    for number in range(2):
        sandboxes.record("plugin acme/echo", refusal(number))
    async with asyncio.timeout(60):
        await written.wait()
    worker.cancel()
    facts = await database.read(lambda tx: audit.page(tx, WORKSPACE))
    assert [fact.body["text"] for fact in reversed(facts)] == [refusal(0).text, refusal(1).text]


async def test_refusals_that_can_never_be_written_are_counted_in_the_log(
    database: SqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    sandboxes = AuditedSandboxes(Shaky(database, refusals=1), WORKSPACE)
    sandboxes.record("plugin acme/echo", refusal(1))
    await sandboxes.close()
    assert "1 refusals of sandboxes are not audited: the disk is full" in caplog.text
