"""Tamperings with stored secrets and with what their runners had."""

from __future__ import annotations

from typing import Any

from simulation.life import Life
from simulation.tampering import Tampering, change_note
from simulation.workloads.secrets import WRITTEN_OUT, value


def _had(**data: Any) -> Any:
    """Let the attempt that had the secret last have had something else."""

    def change(life: Life) -> None:
        notes = life.outside.notes
        number = max(n for n, (_, what, _) in enumerate(notes) if what == "has secret")
        at, what, before = notes[number]
        notes[number] = (at, what, {**before, **data})

    return change


def _written_down(life: Life) -> None:
    """Let a file of a host have a value that was set."""
    (life.folder / "h0" / "written").write_bytes(b"... " + WRITTEN_OUT.encode() + b" ...")


def _removed(life: Life) -> None:
    """Let the operator have removed the secret, before the last message was sent."""
    notes = life.outside.notes
    at = max(n for n, (_, what, _) in enumerate(notes) if what == "asks for secret")
    moment = notes[at][0]
    gone: list[tuple[float, str, dict[str, Any]]] = [
        (moment - 0.001, what, {"number": None}) for what in ("changes secret", "changed secret")
    ]
    notes[at:at] = gone


def _replayed(life: Life) -> None:
    """Let the attempt that had the secret last have been a replay."""
    notes = life.outside.notes
    number = max(n for n, (_, what, _) in enumerate(notes) if what == "has secret")
    at, _, data = notes[number]
    notes.insert(number, (at, "replays", {"run": data["run"]}))


SECRETS = [
    Tampering(
        "secrets._current", "has value 1 of its secret, which was changed", _had(secret=value(1)), "HELD"
    ),
    Tampering("secrets._current", "which was changed before it began", _removed, "HELD"),
    Tampering("secrets._current", "nobody set", change_note("has secret", secret="else"), "HELD"),
    Tampering("secrets._current", "nobody set", _had(secret=value(9)), "HELD"),
    Tampering("secrets._current", "has a secret while it is replayed", _replayed, "HELD"),
    Tampering(
        "secrets._audited",
        "uses are audited",
        "DELETE FROM main.audit WHERE action = 'secret.used'",
        "HELD",
    ),
    Tampering(
        "secrets._versions",
        "version 2 is used, and 1 is there",
        "UPDATE main.audit SET seq = seq + 1000000 WHERE action = 'secret.changed'",
        "HELD",
    ),
    Tampering(
        "secrets._versions",
        "is next",
        "DELETE FROM main.audit WHERE action = 'secret.added'",
        "HELD",
    ),
    Tampering("secrets._bytes", "written holds", _written_down, "HELD"),
]
