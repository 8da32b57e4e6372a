"""Pauses in any order of decisions, attempts, crashes and time."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import hash_chain as chain
from support import pauses_attempts, pauses_people
from support.databases import read
from support.pauses import WORKSPACE
from support.pauses_machine import PausesMachine

pytestmark = pytest.mark.gate("approved-arguments")

SOAK = bool(os.environ.get("HOSTLER_SOAK"))


def test_pauses_keep_their_invariants_in_any_order(database: SqlDatabase) -> None:
    usual = 4 if database.dialect == "postgres" else 12
    with asyncio.Runner() as runner:
        steps = [*pauses_people.STEPS, *pauses_attempts.STEPS]
        machine = type("Machine", (PausesMachine,), {"database": database, "runner": runner, "steps": steps})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=400 if SOAK else usual,
                stateful_step_count=60 if SOAK else 30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    verified = read(database, lambda tx: chain.verify(tx, WORKSPACE, "audit", limit=500))
    assert verified.broken is None, "25"
