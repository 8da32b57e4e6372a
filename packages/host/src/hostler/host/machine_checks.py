"""Checks of this machine and the data directory, as `hostler doctor` and `GET /v1/doctor` report them."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from uv import find_uv_bin

from hostler.sandbox.limit_reports import limit_reports
from hostler.sandbox.probe import check_mechanisms, find_capabilities
from hostler.sandbox.project_quotas import problem_at

Verdict = Literal["ok", "note", "wrong"]
LOW_DISK_BYTES = 1024**3
NO_SANDBOX = (
    "none on this machine: a plugin starts only if its entry says `level: trusted`, and then has the "
    "rights of this user. In a container, allow user namespaces or use a kernel with Landlock"
)
OLDEST_PYTHON = (3, 11)


class Finding(NamedTuple):
    """The result of one check; `text` says what was found and, if it is wrong, what to do."""

    what: str
    verdict: Verdict
    text: str


def check_python() -> Finding:
    """Check the version of Python."""
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "wrong", f"{text}: 3.11 or newer is needed")
    return Finding("python", "ok", text)


def check_sqlite() -> Finding:
    """Check that SQLite has full-text search."""
    text = f"SQLite {sqlite3.sqlite_version}"
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(words)")
    except sqlite3.Error as error:
        return Finding(
            "database", "wrong", f"{text} without full-text search ({error}): use another Python build"
        )
    finally:
        connection.close()
    return Finding("database", "ok", f"{text} with FTS5")


def check_uv() -> Finding:
    """Check that environments of plugins can be built."""
    try:
        return Finding("uv", "ok", f"{find_uv_bin()} builds the environments of plugins")
    except FileNotFoundError as error:
        return Finding(
            "uv", "wrong", f"not found ({error}): plugins with `requires` cannot be installed; pip install uv"
        )


def check_directory(data_dir: Path) -> list[Finding]:
    """Check who may read and write the data directory, and the space on its disk."""
    if not data_dir.exists():
        parent = next(path for path in data_dir.parents if path.exists())
        writable = os.access(parent, os.W_OK)
        found = Finding(
            "data directory",
            "note" if writable else "wrong",
            f"{data_dir} does not exist yet" + ("" if writable else f", and {parent} is not writable"),
        )
        return [found, _disk(parent)]
    findings = []
    mode = data_dir.stat().st_mode & 0o777
    if not os.access(data_dir, os.W_OK | os.X_OK):
        findings.append(Finding("data directory", "wrong", f"{data_dir} is not writable: chown it"))
    elif mode & 0o077:
        text = f"{data_dir} is readable by others (mode {mode:o}): chmod 700 it"
        findings.append(Finding("data directory", "note", text))
    else:
        findings.append(Finding("data directory", "ok", str(data_dir)))
    key = data_dir / "admin.key"
    if key.exists():
        mode = key.stat().st_mode & 0o777
        ok = not mode & 0o077
        text = f"{key} is private" if ok else f"{key} is readable by others (mode {mode:o}): chmod 600 it"
        findings.append(Finding("admin key", "ok" if ok else "wrong", text))
    return [*findings, _disk(data_dir)]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:,.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return Finding(
            "disk", "wrong", f"{text}: a full disk refuses new events; `hostler gc` deletes expired data"
        )
    return Finding("disk", "ok", text)


async def check_sandbox(data_dir: Path) -> list[Finding]:
    """Report what each sandbox mechanism enforces here for this user. The host uses the first that works."""
    ground = await find_capabilities()
    held = await check_mechanisms(ground)
    best = next((one.mechanism for one in held if one.works), None)
    who = "as root" if hasattr(os, "geteuid") and os.geteuid() == 0 else "as an ordinary user"
    findings = [
        Finding(
            one.mechanism, "ok" if one.works else "note", f"{one.text} ({who})" if one.works else one.text
        )
        for one in held
    ]
    if best is None:
        return [*findings, Finding("sandbox", "wrong", NO_SANDBOX)]
    for report in limit_reports(ground, best, await asyncio.to_thread(problem_at, data_dir)):
        verdict: Verdict = "ok" if report.is_exact else "note"
        findings.append(Finding(f"limit: {report.limit}", verdict, report.text))
    if weakness := ground.weakness(best):
        return [*findings, Finding("sandbox", "note", f"plugins are {weakness}")]
    return [
        *findings,
        Finding(
            "sandbox", "ok", f"plugins are sandboxed by {best}, unless their entry says `level: trusted`"
        ),
    ]
