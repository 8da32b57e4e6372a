"""The order of the tests: slow ones first, and each worker with its share of them."""

from __future__ import annotations

import math
import os
from itertools import islice

import psutil
import pytest

SLOW_FOLDERS = ("tests/faults/", "tests/journeys/")
SLOWEST = (
    "tests/simulation/test_seeds.py",
    "tests/journeys/test_http_fuzzed.py",
    "tests/journeys/test_docs.py",
    "tests/journeys/test_conversation_order.py",
    "tests/faults/test_own_pauses_killed.py",
    "tests/faults/test_effects_killed.py",
    "tests/journeys/test_widget.py",
    "tests/host/http/test_route_walk.py",
    "tests/host/simulation/test_faults.py",
    "tests/journeys/test_cli_run.py",
    "tests/journeys/test_cli_authors.py",
    "tests/faults/test_two_hosts_pauses.py",
    "tests/journeys/test_bench.py",
    "tests/faults/test_thawed_hosts.py",
    "tests/journeys/test_entries_table.py",
    "tests/journeys/test_cli_operations.py",
    "tests/faults/test_deferred_killed.py",
    "tests/faults/test_host_killed.py",
    "tests/journeys/test_explicit_pauses_lost.py",
    "tests/journeys/test_audit_verify.py",
    "tests/faults/test_two_hosts.py",
)
"""Files that take the most of the processor, with all that they start, as measured; the most first."""

LEAST_WORKERS = 6
"""Workers wait for processes and disks: with four of them, two cores were idle for a sixth of the time."""
MOST_WORKERS = 16
WORKER_BYTES = 1_200_000_000
"""What a worker may have in memory, with the processes that it starts: its browser, Node and PostgreSQL."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Answer how many workers `-n auto` is, unless the variable of xdist says it."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # xdist reads it
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return workers(usable, psutil.virtual_memory().available)


def workers(processors: int, available_bytes: int) -> int:
    """How many run: one for each processor and at least six, but only as many as memory has room for."""
    wanted = min(MOST_WORKERS, max(LEAST_WORKERS, processors))
    return max(1, min(wanted, available_bytes // WORKER_BYTES))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal the slow files to the workers and fill up with the others.

    A worker begins with an equal, contiguous part of all tests and takes from others when none are left: all
    begin with slow ones, and what is left for the end is quick.
    """
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    slow = sorted((name for name in files if _rank(name) < math.inf), key=_rank)
    quick = iter([item for name in files if _rank(name) == math.inf for item in files[name]])
    hands = [[item for name in slow[number::count] for item in files[name]] for number in range(count)]
    left = len(items)
    for number, hand in enumerate(hands):
        size = left // (count - number)
        hand.extend(islice(quick, max(0, size - len(hand))))
        left -= len(hand)
    items[:] = [item for hand in hands for item in hand] + list(quick)


def _rank(name: str) -> float:
    if name in SLOWEST:
        return SLOWEST.index(name)
    return len(SLOWEST) if name.startswith(SLOW_FOLDERS) else math.inf
