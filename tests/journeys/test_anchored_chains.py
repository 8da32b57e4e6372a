"""Anchors of the hash chains, against somebody who can write to the database and the data directory."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import ECHO, CommandLine

pytestmark = [pytest.mark.gate("anchors"), pytest.mark.timeout(600)]
KEY = "the key of the anchors in this test, long enough"


class Anchored:
    """An installation with facts whose chains are anchored in a file."""

    def __init__(self, hostler: CommandLine) -> None:
        self.hostler = hostler
        self.file = hostler.cwd / "anchors.jsonl"
        hostler.variables["ANCHOR_KEY"] = KEY
        config = hostler.cwd / "hostler.yaml"
        agent = {"name": "echo", "runner": "plugin:acme/echo/default"}
        plugin = {"path": str(ECHO), "level": "trusted"}
        settings = {"key": "env:ANCHOR_KEY", "file": str(self.file)}
        given = {"plugins": [plugin], "agents": [agent], "audit_anchors": settings}
        config.write_text(json.dumps(given))
        applied = hostler("apply", config)
        assert applied.status == 0, applied.err
        self.say("one", "two", "three")

    def say(self, *texts: str) -> None:
        for text in texts:
            assert self.hostler("run", "echo", text, "--conversation", text).status == 0

    @contextlib.contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.hostler.data / "hostler.db")) as connection:
            yield connection
            connection.commit()

    def cut_off(self, *, upto: int) -> None:
        """Cut off the end of the event log, and all that the data directory knows of it."""
        with self.database() as connection:
            for table in ("runs", "steering", "transcripts"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute(f"DELETE FROM events WHERE seq > {upto}")
            ((linked,),) = connection.execute(f"SELECT digest FROM events WHERE seq = {upto}")
            connection.execute(f"UPDATE heads SET seq = {upto}, digest = '{linked}' WHERE chain = 'events'")
        (self.hostler.data / "audit-heads.json").unlink()

    def broken(self, *options: str | Path) -> str | None:
        """What is wrong with the event log."""
        verified = self.hostler("audit", "verify", "--json", *options)
        chains: dict[str, Any] = {one["chain"]: one for one in verified.json}
        assert verified.status == (0 if chains["events"]["broken"] is None else 1)
        broken: str | None = chains["events"]["broken"]
        return broken

    def refused(self, *options: str | Path) -> tuple[int, str]:
        """The status and the error of a verification that cannot be done."""
        verified = self.hostler("audit", "verify", *options)
        return verified.status, verified.error


@pytest.fixture
def anchored(hostler: CommandLine) -> Anchored:
    made = Anchored(hostler)
    assert made.broken() is None
    return made


def test_a_log_that_was_cut_off_is_found(anchored: Anchored) -> None:
    anchored.cut_off(upto=2)
    found = anchored.broken()
    assert found is not None
    assert found.startswith(f"row 3: it is missing, and was noted in {anchored.file}, line ")


def test_a_log_that_was_cut_off_and_has_grown_again_is_found(anchored: Anchored) -> None:
    anchored.cut_off(upto=2)
    anchored.say("another three", "four")
    found = anchored.broken()
    assert found is not None
    assert found.startswith(f"row 3: its digest differs from the one noted in {anchored.file}, line ")


def test_anchors_in_another_place_do_when_the_file_is_gone_and_the_settings_too(
    anchored: Anchored, tmp_path: Path
) -> None:
    kept = tmp_path / "syslog"
    kept.write_text("".join(f"<109>1 - h - - - {line}\n" for line in anchored.file.read_text().splitlines()))
    anchored.cut_off(upto=1)
    anchored.file.unlink()
    status, error = anchored.refused()
    assert (status, "it was removed" in error) == (1, True)
    with anchored.database() as connection:
        connection.execute("DELETE FROM settings WHERE kind = 'audit_anchors'")
    assert anchored.broken() is None, "nothing here says so any more"
    assert anchored.refused("--anchor", kept) == (
        2,
        f"{kept} holds signed anchors: name their key with --anchor-key",
    )
    assert "row 2: it is missing" in str(anchored.broken("--anchor", kept, "--anchor-key", "env:ANCHOR_KEY"))


def test_the_last_line_counts_without_its_end_and_one_that_is_being_written_does_not(
    anchored: Anchored, tmp_path: Path
) -> None:
    lines = anchored.file.read_text().splitlines()
    at = max(number for number, line in enumerate(lines) if '"seq":3' in line)
    kept = tmp_path / "kept"
    kept.write_text("\n".join(lines[: at + 1]))  # without the end of the line
    anchored.file.write_text("\n".join(lines[:1]) + "\n" + lines[at][:40])
    assert anchored.broken() is None, "a host may be writing it now"
    anchored.cut_off(upto=2)
    assert "row 3: it is missing" in str(anchored.broken("--anchor", kept))


def test_a_file_of_anchors_that_cannot_be_read_is_no_file_without_anchors(anchored: Anchored) -> None:
    anchored.file.unlink()
    anchored.file.mkdir()
    assert anchored.refused() == (1, f"{anchored.file} cannot be read: Is a directory")


def test_a_line_that_was_altered_is_found(anchored: Anchored) -> None:
    lines = anchored.file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if '"seq":3' in line)
    lines[at] = lines[at].replace('"seq":3', '"seq":2')
    anchored.file.write_text("\n".join(lines) + "\n")
    status, error = anchored.refused()
    assert status == 1
    assert error.startswith(f"{anchored.file}, line {at + 1}: its signature does not match")


def test_keys_are_replaced(anchored: Anchored) -> None:
    anchored.hostler.variables["NEW_KEY"] = f"new: {KEY}"
    changed = anchored.hostler("config", "set", "audit_anchors", "key=env:NEW_KEY")
    assert changed.status == 0, changed.err
    anchored.say("four")
    status, error = anchored.refused()
    assert (status, "line 1: its signature does not match" in error) == (1, True)
    changed = anchored.hostler("config", "set", "audit_anchors", 'earlier_keys=["env:ANCHOR_KEY"]')
    assert changed.status == 0, changed.err
    assert anchored.broken() is None
    anchored.cut_off(upto=3)
    assert "row 4: it is missing" in str(anchored.broken())
    del anchored.hostler.variables["NEW_KEY"]
    assert anchored.refused() == (2, "env:NEW_KEY: the environment variable NEW_KEY is not set")


def test_anchors_of_another_database_are_told_from_its_own(anchored: Anchored, tmp_path: Path) -> None:
    (tmp_path / "work2").mkdir()
    other = Anchored(CommandLine(tmp_path / "data2", tmp_path / "work2"))
    status, error = anchored.refused("--anchor", other.file)
    assert (status, "line 1: the anchor is of another database" in error) == (2, True)


def test_mistakes_of_the_settings_are_told_at_once(hostler: CommandLine) -> None:
    file = hostler.cwd / "hostler.yaml"
    wrong = {
        "key": KEY,
        "earlier_keys": ["x"],
        "file": "here",
        "syslog": "log.example:514",
        "webhook": "siem",
    }
    file.write_text(json.dumps({"audit_anchors": wrong, "webhooks": []}))
    refused = hostler("apply", file)
    assert refused.status == 2
    assert KEY not in refused.err
    for told in (
        "audit_anchors.key: expected a reference",
        "audit_anchors.earlier_keys[0]: expected a reference",
        "audit_anchors.file: expected an absolute path",
        "audit_anchors.syslog: expected udp://HOST:PORT, tcp://HOST:PORT or unix:PATH",
        "audit_anchors.webhook: there is no webhook 'siem': there are none",
    ):
        assert told in refused.err, refused.err
    file.write_text(json.dumps({"audit_anchors": {"key": "env:K"}}))
    assert "expected at least one of file, syslog and webhook" in hostler("apply", file).error


def test_what_cannot_be_written_is_a_problem(hostler: CommandLine) -> None:
    hostler.variables["ANCHOR_KEY"] = KEY
    with hostler.serving() as server, server.client() as client:
        entry = {"key": "env:ANCHOR_KEY", "file": "/nowhere/at/all", "every_minutes": 0.01}
        assert client.put("/v1/config/audit_anchors/policy", json=entry).status_code == 200
        while not (problems := client.get("/v1/problems").json()["items"]):
            pass
        assert (problems[0]["kind"], problems[0]["problem"]) == (
            "audit_anchors",
            "file /nowhere/at/all: No such file or directory",
        )
        assert client.delete("/v1/config/audit_anchors/policy").status_code == 200
        assert client.get("/v1/problems").json()["items"] == []
