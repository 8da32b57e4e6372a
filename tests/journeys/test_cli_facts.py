"""Commands that work on the facts themselves: which database they take, and which they refuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import ECHO, CommandLine
from support.postgres import PostgresServer

pytestmark = [pytest.mark.gate("meant-database"), pytest.mark.timeout(600)]
ELSEWHERE = "http://127.0.0.1:9"
"""Nobody listens there."""
ON_FACTS = [("audit", "verify"), ("gc",), ("backup", "copy"), ("restore", "copy")]


@pytest.fixture
def postgres(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The address of a database."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


def events_checked(hostler: CommandLine, *options: str | Path, **env: str) -> int:
    """How many events `audit verify` finds in order."""
    done = hostler("audit", "verify", "--json", *options, env=env)
    assert done.status == 0, done.err
    return sum(chain["checked"] for chain in done.json if chain["chain"] == "events")


@pytest.mark.parametrize("command", ON_FACTS, ids=" ".join)
def test_a_command_on_the_facts_refuses_the_url_of_a_server(
    hostler: CommandLine, command: tuple[str, ...]
) -> None:
    hostler("run", ECHO, "x")
    by_option = hostler(*command, "--url", ELSEWHERE, "--key", "k")
    by_variable = hostler(*command, env={"HOSTLER_URL": ELSEWHERE, "HOSTLER_KEY": "k"})
    for refused in (by_option, by_variable):
        assert refused.status == 2
        assert ELSEWHERE in refused.error
        assert "--data" in refused.error
    assert "HOSTLER_URL" in by_variable.error
    assert not (hostler.cwd / "copy").exists()


def test_a_directory_named_on_the_command_line_goes_before_the_variable(hostler: CommandLine) -> None:
    hostler("run", ECHO, "x")
    elsewhere = {"HOSTLER_URL": ELSEWHERE, "HOSTLER_KEY": "k"}
    assert events_checked(hostler, "--data", hostler.data, **elsewhere) == 1
    assert hostler("gc", "--data", hostler.data, env=elsewhere).status == 0
    both = hostler("gc", "--data", hostler.data, "--url", ELSEWHERE)
    assert both.status == 2


def test_doctor_looks_at_the_server_that_is_named(hostler: CommandLine) -> None:
    named = hostler("doctor", "--json", env={"HOSTLER_URL": ELSEWHERE, "HOSTLER_KEY": "k"})
    assert named.status == 1
    (server,) = [finding for finding in named.json if finding["what"] == "server"]
    assert server["verdict"] == "wrong"
    assert ELSEWHERE in server["text"]
    with hostler.serving() as running:
        key = running.key
        other = CommandLine(hostler.cwd / "other", hostler.cwd)
        found = other("doctor", "--json", "--url", running.url, "--key", key)
        (server,) = [finding for finding in found.json if finding["what"] == "server"]
        assert (server["verdict"], running.url in server["text"]) == ("ok", True)


@pytest.mark.postgres
def test_facts_in_postgres_are_verified_and_collected_there(hostler: CommandLine, postgres: str) -> None:
    for text in ("one", "two"):
        assert hostler("run", ECHO, text, env={"HOSTLER_DATABASE": postgres}).status == 0
    assert events_checked(hostler, "--database", postgres) == 2
    assert events_checked(hostler, HOSTLER_DATABASE=postgres) == 2
    collected = hostler("gc", "--deltas", "0", "--json", "--database", postgres)
    assert (collected.status, collected.json["deltas"] > 0) == (0, True)
    findings = hostler("doctor", "--json", "--database", postgres).json
    (facts,) = [finding for finding in findings if finding["what"] == "facts"]
    assert (facts["verdict"], "postgresql://" in facts["text"]) == ("ok", True)
    for command in (("backup", "copy"), ("restore", "copy")):
        refused = hostler(*command, "--database", postgres)
        assert refused.status == 2
        assert "pg_" in refused.error
    assert not (hostler.cwd / "copy").exists()


@pytest.mark.postgres
@pytest.mark.parametrize("running", [False, True])
def test_a_directory_whose_facts_are_elsewhere_is_not_read_as_if_they_were_in_it(
    hostler: CommandLine, postgres: str, running: bool
) -> None:
    commands = [("audit", "verify"), ("gc",), ("backup", "copy")]
    if not running:
        commands += [("runs", "list"), ("run", str(ECHO), "x")]
    if running:
        with hostler.serving("--database", postgres):
            refusals = [hostler(*command) for command in commands]
    else:
        hostler("run", ECHO, "x", env={"HOSTLER_DATABASE": postgres})
        refusals = [hostler(*command) for command in commands]
    for refused in refusals:
        assert refused.status == 2, refused.err
        assert "postgresql://" in refused.error
        assert "--database" in refused.error
    assert not (hostler.data / "hostler.db").exists()


@pytest.mark.postgres
def test_files_are_not_collected_by_the_word_of_another_database(
    hostler: CommandLine, postgres_server: PostgresServer, postgres: str, postgres_template: str
) -> None:
    hostler("run", ECHO, "x", env={"HOSTLER_DATABASE": postgres})
    digest = hashlib.sha256(b"of the first database").hexdigest()
    blob = hostler.data / "blobs" / digest[:2] / digest[2:4] / digest
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(b"of the first database")
    other = postgres_server.create(postgres_template)
    try:
        for command in (("gc",), ("audit", "verify"), ("run", str(ECHO), "x"), ("runs", "list")):
            refused = hostler(*command, env={"HOSTLER_DATABASE": other})
            assert refused.status == 2, refused.err
            assert "another database" in refused.error
    finally:
        postgres_server.drop(other)
    assert blob.exists()
    assert json.loads((hostler.data / "database.json").read_text())["address"].startswith("postgresql://")
