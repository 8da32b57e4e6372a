"""Tamperings with runs whose plugin process is gone."""

from __future__ import annotations

from simulation.life import Life
from simulation.tampering import Tampering

RUN = "(SELECT run_id FROM runs WHERE event_id = 'queue1' AND workspace_id = 'default')"


def gone_process(life: Life) -> None:
    """Let the process of a run have ended, and the run have gone on for a minute."""
    [(run,)] = life.rows(f"SELECT {RUN}")
    notes = life.outside.notes
    number, at, process = next(
        (number, at, data["process"])
        for number, (at, kind, data) in enumerate(notes)
        if kind == "works" and data["run"] == run
    )
    notes.insert(number + 1, (at, "plugin gone", {"process": process, "host": "h0.1"}))
    life.rows(f"UPDATE journal SET at = at + 60000 WHERE run_id = {RUN} AND type = 'completed'")


def queued(then: str) -> str:
    """Let a run have been queued again when its plugin was gone, long before the next entry."""
    return (
        "UPDATE journal SET at = at - 200000, type = CASE type WHEN 'running' THEN '{}' ELSE 'queued' END,"
        " data = json_set(data, '$.cause', 'the plugin process ended during the run; x')"
        f" WHERE run_id = {RUN} AND kind = 'lifecycle' AND type IN ('claimed', 'running')"
    ).format(then)


LOST = [
    Tampering("lost._given_up", "was given up only 6", gone_process),
    Tampering("lost._again", "was claimed only", queued("queued")),
    Tampering("lost._again", "was begun again only", queued("claimed")),
]
