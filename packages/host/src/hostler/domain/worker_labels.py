"""Labels of remote workers: what a worker offers, and what an agent asks of the worker of its runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

MAX_LABELS = 32
"""Labels of one worker or agent."""
RESERVED_ID = "connect"
"""No worker has it: it is the last part of the path where workers connect."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9_.=/-]{0,61}[a-z0-9])?")
_WORKER_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def check_labels(labels: Sequence[str]) -> None:
    """Raise ValueError for labels that nobody may offer or ask for."""
    if len(labels) > MAX_LABELS:
        raise ValueError(f"{len(labels)} labels of workers; at most {MAX_LABELS} are allowed")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"{label!r:.80} is no label of workers: at most 63 of a-z, 0-9 and _.=/-, with a letter or "
                "digit at both ends, like gpu or region=eu"
            )


def check_worker_id(worker_id: str) -> None:
    """Raise ValueError for a text that cannot be the id of a worker."""
    if not _WORKER_ID.fullmatch(worker_id) or worker_id == RESERVED_ID:
        raise ValueError(
            f"{worker_id!r:.80} is no id of a worker, or a reserved one: at most 63 letters, digits and _.-, "
            "with a letter or digit at both ends, like gpu-1"
        )


def offers(offered: Collection[str], wanted: Collection[str]) -> bool:
    """Whether a worker with the labels `offered` may take runs that ask for all of `wanted`."""
    return set(wanted) <= set(offered)


def named(labels: Sequence[str]) -> str:
    """Return labels for people: `label gpu`, `labels eu and gpu`."""
    *first, last = sorted(set(labels))
    return f"labels {', '.join(first)} and {last}" if first else f"label {last}"
