"""docs/webhooks.md: its configuration, its check of a signature, its events and its numbers are right."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from hostler.domain.webhooks import EVENTS, MAX_ATTEMPTS, signature
from hostler.host.config_file import parse_config
from hostler.host.webhooks import TRY_SECONDS
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import notices, run_endings, runs
from hostler.storage.stores import settings as stored
from support.databases import write
from support.http_host import serving
from support.run_rows import H1, new

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "webhooks.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_the_configuration_is_taken_and_says_what_the_page_says() -> None:
    (text,) = blocks("yaml")
    oncall, failures = parse_config(text, name="c.yaml").webhooks
    assert [event for event in EVENTS if oncall.wants(event)] == [
        "pause.opened",
        "pause.extended",
        "pause.needs_review",
    ]
    assert [event for event in EVENTS if failures.wants(event)] == ["run.failed", "run.timeout"]


def test_the_check_of_a_signature_is_right() -> None:
    (source,) = blocks("python")
    names: dict[str, Any] = {}
    exec(source, names)
    now, body = int(time.time()), b'{"event": "pause.opened"}'
    headers = {"hostler-timestamp": str(now), "hostler-signature": signature("s", now, body)}
    assert names["is_genuine"]("s", headers, body)
    assert not names["is_genuine"]("another", headers, body)
    assert not names["is_genuine"]("s", headers, body + b" ")
    old = now - 301
    replayed = {"hostler-timestamp": str(old), "hostler-signature": signature("s", old, body)}
    assert not names["is_genuine"]("s", replayed, body)


def test_events_and_numbers_are_those_of_the_code() -> None:
    for event in EVENTS:
        assert re.search(rf"^\| .*`{event}`.* \|", TEXT, re.MULTILINE), event
    assert f"{MAX_ATTEMPTS} times in all" in TEXT
    assert f"within {TRY_SECONDS:.0f} seconds" in TEXT


def test_the_body_of_an_end_is_as_the_page_shows_it(database: SqlDatabase) -> None:
    def ended(tx: Tx) -> dict[str, Any]:
        hook = {"name": "h", "url": "https://a.example", "secret": "env:S", "events": ["run.failed"]}
        stored.put(tx, "w1", "webhook", "h", hook)
        runs.open(tx, new("r1"), H1)
        run_endings.finish(tx, "r1", None, "failed", cause="c", actor="t")
        claimed = notices.claim(tx, notices.DueWebhook("w1", "h"), 1_000)
        assert claimed is not None
        return claimed.body

    _, shown = map(json.loads, blocks("json"))
    body = write(database, ended)
    assert list(body) == list(shown)
    assert list(body["run"]) == list(shown["run"])


async def test_what_was_given_up_is_listed_as_the_page_says(tmp_path: Path) -> None:
    (command,) = blocks("sh")
    found = re.search(r"\$HOSTLER_URL(/[^\"]*)", command)
    assert found is not None
    async with serving(tmp_path / "data") as served:
        answer = await served.client.get(found[1])
        assert (answer.status_code, answer.json()["items"]) == (200, [])
