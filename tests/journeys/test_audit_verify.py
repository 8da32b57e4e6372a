"""`hostler audit verify` against somebody who can write to the database, on both databases."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hostler_protocol.ids import canonical_json
from support.command_line import ECHO, CommandLine, Ran
from support.postgres import PostgresServer

pytestmark = [pytest.mark.gate("chain-ends"), pytest.mark.timeout(600)]
SAID = ("one", "two", "three", "four")
NOTES = "audit-heads.json"
EMPTY = (
    "UPDATE events SET body = NULL, input_summary = '', conversation_id = NULL, thread_id = NULL,"
    " routing = '{}', requester = NULL, actor_type = NULL, actor_id = NULL, actor_name = NULL,"
    " subject_type = NULL, subject_id = NULL"
)


class Tampered:
    """An installation with some facts, and a way into its database behind its back."""

    def __init__(self, data: Path, cwd: Path, url: str | None) -> None:
        self._url = url
        variables = {} if url is None else {"HOSTLER_DATABASE": url}
        self.hostler = CommandLine(data, cwd, **variables)

    def fill(self) -> None:
        """Some runs of one agent, each in a conversation of its own."""
        config = self.hostler.cwd / "hostler.yaml"
        agent = {"name": "echo", "runner": "plugin:acme/echo/default"}
        plugin = {"path": str(ECHO), "level": "trusted"}
        config.write_text(json.dumps({"plugins": [plugin], "agents": [agent]}))
        assert self.hostler("apply", config).status == 0
        for text in SAID:
            assert self.hostler("run", "echo", text, "--conversation", f"c-{text}").status == 0

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._url is not None:
            with psycopg.connect(self._url) as connection:
                yield connection
        else:
            with contextlib.closing(sqlite3.connect(self.hostler.data / "hostler.db")) as connection:
                yield connection
                connection.commit()

    def change(self, *statements: str) -> None:
        with self._connection() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return found

    def forge(self, *, upto: int) -> None:
        """Keep the first rows of the event log only, as if there had never been others."""
        self.change(f"DELETE FROM events WHERE seq > {upto}")
        ((linked,),) = self.rows(f"SELECT digest FROM events WHERE seq = {upto}")
        self.change(f"UPDATE heads SET seq = {upto}, digest = '{linked}' WHERE chain = 'events'")

    def verify(self, *options: str | Path) -> Ran:
        return self.hostler("audit", "verify", *options)

    def chains(self, *options: str | Path) -> dict[str, dict[str, Any]]:
        """The report of each chain."""
        return {one["chain"]: one for one in self.verify("--json", *options).json}


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | None], Path]:
    """The folder of an installation with facts, made once for each kind of database."""
    made: dict[bool, Path] = {}

    def fill(url: str | None) -> Path:
        if (url is None) not in made:
            folder = made[url is None] = tmp_path_factory.mktemp("filled")
            (folder / "work").mkdir()
            Tampered(folder / "data", folder / "work", url).fill()
        return made[url is None]

    return fill


@pytest.fixture
def tampered(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str, filled: Callable[[str | None], Path]
) -> Iterator[Tampered]:
    """An installation of its own for each test."""
    if not database_url.startswith("postgres"):
        shutil.copytree(filled(None), tmp_path / "copy")
        yield Tampered(tmp_path / "copy" / "data", tmp_path / "copy" / "work", None)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    template = request.getfixturevalue("filled_template")
    url = server.create(template)
    shutil.copytree(filled(server.url(template)), tmp_path / "copy")
    yield Tampered(tmp_path / "copy" / "data", tmp_path / "copy" / "work", url)
    server.drop(url)


@pytest.fixture(scope="session")
def filled_template(
    postgres_server: PostgresServer, postgres_template: str, filled: Callable[[str | None], Path]
) -> str:
    """The name of a database with facts."""
    url = postgres_server.create(postgres_template)
    filled(url)
    return url.removeprefix("postgresql:///").partition("?")[0]


def test_what_nobody_touched_verifies(tampered: Tampered) -> None:
    sound = tampered.verify()
    assert sound.status == 0, sound.err
    assert tampered.chains()["events"]["checked"] == len(SAID)
    assert tampered.chains()["audit"]["checked"] > 0


def test_deleted_heads_are_found(tampered: Tampered) -> None:
    tampered.change("DELETE FROM heads WHERE chain IN ('events', 'audit')")
    assert tampered.verify().status == 1
    broken = {name: chain["broken"] for name, chain in tampered.chains().items()}
    assert "head" in broken["events"]
    assert "head" in broken["audit"]


@pytest.mark.parametrize("noted", [True, False])
def test_a_log_that_is_gone_with_its_head_is_found(tampered: Tampered, noted: bool) -> None:
    if not noted:
        (tampered.hostler.data / NOTES).unlink()
    tampered.change("DELETE FROM heads WHERE chain = 'events'", "DELETE FROM events")
    assert tampered.verify().status == 1
    assert tampered.chains()["events"]["broken"]


@pytest.mark.parametrize(("chain", "seq"), [("events", 2), ("audit", 1)])
def test_a_row_removed_before_others_is_found(tampered: Tampered, chain: str, seq: int) -> None:
    tampered.change(f"DELETE FROM {chain} WHERE seq = {seq}")
    assert tampered.verify().status == 1
    expected = f"row {seq}: sequence {seq} is missing; {seq + 1} follows"
    assert tampered.chains()[chain]["broken"] == expected


def test_both_logs_gone_with_their_heads_are_found(tampered: Tampered) -> None:
    tampered.change("DELETE FROM heads", "DELETE FROM events", "DELETE FROM audit")
    found = tampered.chains()
    assert (bool(found["events"]["broken"]), bool(found["audit"]["broken"])) == (True, True)
    tampered.change("DELETE FROM runs", "DELETE FROM transcripts", "DELETE FROM steering")
    assert tampered.verify().status == 1, "by what was noted alone"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_older_copy_that_is_put_back_is_found(tampered: Tampered) -> None:
    data = tampered.hostler.data
    assert tampered.hostler("backup", "older").status == 0
    assert tampered.hostler("run", "echo", "five").status == 0
    for file in data.glob("hostler.db*"):
        file.unlink()
    shutil.copy(tampered.hostler.cwd / "older" / "hostler.db", data / "hostler.db")
    assert tampered.verify().status == 1
    assert "was noted" in tampered.chains()["events"]["broken"]
    assert tampered.hostler("run", "echo", "six").status == 0, "it starts all the same"
    assert tampered.verify().status == 1, "and does not note the older heads as right"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_is_restored_in_order_verifies(tampered: Tampered, tmp_path: Path) -> None:
    assert tampered.hostler("backup", "copy").status == 0
    assert tampered.hostler("restore", "copy", "--data", tmp_path / "restored").status == 0
    assert tampered.hostler("audit", "verify", "--data", tmp_path / "restored").status == 0


@pytest.mark.parametrize("noted", [True, False])
def test_rows_cut_off_at_the_end_are_found(tampered: Tampered, noted: bool) -> None:
    if not noted:  # then by what names them
        (tampered.hostler.data / NOTES).unlink()
    tampered.forge(upto=2)
    assert tampered.verify().status == 1
    assert tampered.chains()["events"]["broken"]


@pytest.mark.parametrize("chain", ["events", "audit"])
def test_a_head_that_was_noted_elsewhere_shows_what_was_rewritten(
    tampered: Tampered, chain: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "noted.json"
    elsewhere.write_text(tampered.verify("--json").out)
    assert tampered.verify("--anchor", elsewhere).status == 0
    (tampered.hostler.data / NOTES).unlink()
    if chain == "events":
        tampered.change("DELETE FROM runs", "DELETE FROM steering")  # nothing names the events any more
        tampered.forge(upto=2)
    else:
        ((last, digest_before),) = tampered.rows(
            "SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1 OFFSET 1"
        )
        tampered.change(
            f"DELETE FROM audit WHERE seq > {last}",
            f"UPDATE heads SET seq = {last}, digest = '{digest_before}' WHERE chain = 'audit'",
        )
    assert tampered.chains()[chain]["broken"] is None, "by itself it looks right"
    found = tampered.chains("--anchor", elsewhere)[chain]
    assert "noted" in found["broken"]


def test_an_anchor_that_cannot_be_read_is_refused(tampered: Tampered, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text('[{"workspace": 1}]')
    for name in ("no.json", "gone.json"):
        refused = tampered.verify("--anchor", tmp_path / name)
        assert refused.status == 2
        assert name in refused.error


def test_a_cut_while_the_host_was_down_is_not_noted_as_right(tampered: Tampered) -> None:
    tampered.change("DELETE FROM runs")
    tampered.forge(upto=2)
    with tampered.hostler.serving() as server:
        server.wait_log("audit verify")
        assert server.stop() == 0
    assert tampered.hostler("run", "echo", "five").status == 0
    assert "noted" in tampered.chains()["events"]["broken"]


def test_an_emptied_event_that_no_deletion_accounts_for_is_found(tampered: Tampered) -> None:
    tampered.change(f"{EMPTY} WHERE seq = 2")
    broken = tampered.verify()
    assert broken.status == 1
    assert "row 2" in broken.error
    assert "no deletion" in broken.error


def test_what_was_deleted_in_order_is_told_from_it(tampered: Tampered) -> None:
    with tampered.hostler.serving() as server, server.client() as client:
        assert client.delete("/v1/conversations/c-two").status_code == 200
    assert tampered.verify().status == 0
    assert tampered.chains()["events"]["deleted"] == 1
    tampered.change(f"{EMPTY} WHERE seq = 3")
    assert "row 3" in tampered.verify().error
    assert tampered.hostler("gc", "--events", "0").status == 0
    assert "row 3" in tampered.verify().error, "what was emptied by others is not adopted"
    assert tampered.chains()["events"]["deleted"] == len(SAID)


def test_an_emptied_event_that_says_something_is_found(tampered: Tampered) -> None:
    assert tampered.hostler("gc", "--events", "0").status == 0
    assert tampered.verify().status == 0
    tampered.change("UPDATE events SET actor_name = 'Mallory' WHERE seq = 2")
    assert "row 2" in tampered.verify().error


def test_an_event_that_a_run_names_and_the_log_does_not_hold_is_found(tampered: Tampered) -> None:
    (tampered.hostler.data / NOTES).unlink()
    tampered.forge(upto=3)
    assert "refers to event" in tampered.verify().error


def test_events_that_an_older_version_emptied_are_taken_over_once(tampered: Tampered) -> None:
    tampered.change(f"{EMPTY} WHERE seq <= 2")
    value = "x'01'" if tampered._url is None else "'\\x01'::bytea"
    tampered.change(f"INSERT INTO installation (name, value) VALUES ('unaccounted', {value})")
    assert "start" in tampered.verify().error, "the host takes them over"
    assert tampered.hostler("run", "echo", "more").status == 0
    assert tampered.verify().status == 0
    assert tampered.chains()["events"]["deleted"] == 2
    assert tampered.rows("SELECT count(*) FROM installation WHERE name = 'unaccounted'") == [(0,)]


def test_an_audit_fact_without_its_content_is_no_deletion(tampered: Tampered) -> None:
    body = canonical_json({}).decode()
    tampered.change(f"UPDATE audit SET body = '{body}', actor = '' WHERE seq = 1")
    assert tampered.chains()["audit"]["broken"] == "row 1: the content does not match its digest"
