"""Channels whose own code fails do not pass the conformance suite; those without their platform do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler_sdk.conformance import CheckResult, check_plugin
from support.child_plugins import SERVE, environment

PIGEON = """
from hostler_sdk.channels import Channel, Person


class Pigeon(Channel):
    async def open(self):
        {open}
        return Person(person_id="me")

    async def send(self, target, message, *, key, attempt):
        {send}
"""
MANIFEST = """
plugin: {author: acme, name: pigeon, version: 1.0.0}
channels:
  - {name: pigeon, entry: "pigeon:Pigeon"}
"""


async def check(folder: Path, name: str, opening: str, sending: str) -> CheckResult:
    (folder / "hostler.yaml").write_text(MANIFEST)
    (folder / "pigeon.py").write_text(PIGEON.format(open=opening, send=sending))
    (result,) = await check_plugin(SERVE, folder, environment(), only={name})
    return result


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("self.setings", "AttributeError: 'Pigeon' object has no attribute 'setings'"),
        ("nowhere()", "NameError: name 'nowhere' is not defined"),
        ("len(7)", "TypeError: object of type 'int' has no len()"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("compile('(', 'x', 'exec')", "SyntaxError: "),
    ],
)
async def test_a_mistake_of_the_code_fails_the_check_and_is_named(
    tmp_path: Path, statement: str, told: str
) -> None:
    opened = await check(tmp_path, "channel_open", statement, "return '1'")
    assert not opened.ok
    assert f"pigeon cannot be opened: {told}" in opened.detail
    sent = await check(tmp_path, "channel_send", "pass", statement)
    assert not sent.ok
    assert f"pigeon cannot send: {told}" in sent.detail


async def test_a_platform_that_is_not_there_is_no_mistake_and_is_named(tmp_path: Path) -> None:
    gone = "raise OSError('no route to the loft')"
    opened = await check(tmp_path, "channel_open", gone, "return '1'")
    assert (opened.ok, opened.detail) == (True, "pigeon: failed (OSError: no route to the loft)")
    sent = await check(tmp_path, "channel_send", "pass", gone)
    assert (sent.ok, sent.detail) == (True, "pigeon: in doubt: OSError: no route to the loft")
