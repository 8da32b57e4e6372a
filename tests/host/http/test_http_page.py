"""docs/http.md says of rights, errors and bounds what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from hostler.http.app import ENDPOINTS
from hostler.http.auth import RIGHTS
from hostler.http.limits import (
    HEADER_SECONDS,
    MAX_BODY_BYTES,
    MAX_CONNECTIONS,
    MAX_HEADER_BYTES,
    MAX_IDEMPOTENCY_KEY_CHARS,
    MAX_UPLOAD_BODY_BYTES,
    MAX_WAIT_SECONDS,
)
from hostler.http.problems import STATUS_OF_CLASS, STATUS_OF_CODE
from hostler_protocol.limits import KIB, MAX_PAGE_ITEMS, MIB

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text("utf-8")
PLUGINS_OWN = {"plugins:connect"}
"""Rights that keys of plugins have by being such."""


def table(head: str) -> list[list[str]]:
    """The rows below a head, cell by cell."""
    lines = PAGE.partition(f"\n| {head} |\n")[2].splitlines()[1:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def test_every_right_is_in_the_table_and_every_one_of_the_table_is_one() -> None:
    named = {right for row in table("right | allows") for right in re.findall(r"`([a-z:_]+)`", row[0])}
    assert named == RIGHTS - PLUGINS_OWN


def test_the_table_of_errors_is_that_of_the_code() -> None:
    statuses: dict[str, set[int]] = {code: {status} for code, status in STATUS_OF_CODE.items()}
    for error, status in STATUS_OF_CLASS.items():
        statuses[error.code].add(status)
    told: dict[str, set[int]] = {}
    for numbers, code in table("status | code"):
        told.setdefault(code.strip("`"), set()).update(map(int, numbers.split(", ")))
    assert told == statuses


def test_only_what_the_page_names_is_open_to_everybody() -> None:
    opened = re.search(r"Open to everybody are only (.*?)\.\n", PAGE, re.DOTALL)
    assert opened is not None
    assert set(re.findall(r"`([^`]+)`", opened[1])) == {
        endpoint.path for endpoint in ENDPOINTS if endpoint.right is None and not endpoint.signed_in
    }


def test_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert (
        f"{MAX_BODY_BYTES // MIB} MiB of JSON body, {MAX_UPLOAD_BODY_BYTES // (1024 * MIB)} GiB of upload, "
        f"{MAX_HEADER_BYTES // KIB} KiB of path and headers, {HEADER_SECONDS:g} s for headers to arrive, "
        f"{MAX_CONNECTIONS:,} connections"
    ) in text
    assert f"`Idempotency-Key` (1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters)" in text
    assert f"`wait` (seconds, at most {MAX_WAIT_SECONDS:g})" in text
    assert f"`limit` is at most {MAX_PAGE_ITEMS}" in text
