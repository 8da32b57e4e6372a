"""Open the run of a test of a model or a tool.

It is a run as any other: the same gate, journal, budgets of the workspace and approvals of the tool.
"""

from __future__ import annotations

import msgspec

from hostler.domain.events import Caller
from hostler.domain.record import Record
from hostler.domain.trials import Trial
from hostler.runs.admission import Opened
from hostler.runs.orchestrator import Orchestrator
from hostler.storage.port import Tx
from hostler.storage.stores import agents, audit
from hostler_protocol.errors import ConflictError


class Trials(Record):
    """Opens the runs of tests."""

    orchestrator: Orchestrator

    async def open(self, trial: Trial, caller: Caller) -> str:
        """Open the run of a test, which is audited with it. Return its id.

        Raises what `Orchestrator.accept` raises.
        """
        pending = await self.orchestrator.prepare(trial.envelope, caller, binding=trial.binding)
        admit = pending.work

        def work(tx: Tx) -> Opened:
            agents.keep_version(tx, trial.agent)
            opened: Opened = admit(tx)
            if opened.run is not None:
                body = {"run_id": opened.run.run_id}
                audit.record(tx, caller.workspace_id, caller.subject, trial.action, trial.target, body)
            return opened

        opened = await self.orchestrator.store(msgspec.structs.replace(pending, work=work))
        accepted = await pending.answer(opened)
        if accepted.run is None:
            raise ConflictError(f"the test was not begun: {accepted.outcome}")
        return accepted.run.run_id
