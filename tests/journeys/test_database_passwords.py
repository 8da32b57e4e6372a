"""The password in the address of a database is in no output and no file, however the address is mistaken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hostler.cli import main as entry_point
from support.command_line import CommandLine

pytestmark = pytest.mark.gate("resolved-secrets")

PASSWORD = "canary-of-the-database"
ADDRESSES = [
    f"postgresql://bob:{PASSWORD}@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?user=bob&password={PASSWORD}",
    f"postgresql://bob:{PASSWORD}@[bad/db",
    f"postgresql://bob:{PASSWORD}/x@127.0.0.1:1/db",
    f"postgresql://bob:{PASSWORD}%zz@127.0.0.1:1/db",
    f"postgresql://bob:{PASSWORD}@127.0.0.1:1/db?no_such_word={PASSWORD}",
    f"postgresql://bob:x@127.0.0.1:port{PASSWORD}/db",
    f"host=127.0.0.1 port=1 user=bob password={PASSWORD}",
    f"mysql://bob:{PASSWORD}@127.0.0.1/db",
    f"sqlite://bob:{PASSWORD}@127.0.0.1/db",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_mistaken_address_is_not_repeated(tmp_path: Path, address: str) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path)
    for words in (["serve", "--port", "0"], ["gc"], ["audit", "verify"]):
        ran = hostler(*words, "--database", address)
        assert ran.status in {1, 2}, (words, ran.out, ran.err)
        assert ran.err.startswith("error: ")
        assert PASSWORD not in ran.out + ran.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes() or PASSWORD in path.name]


def test_the_report_of_a_bug_holds_no_secret_of_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["hostler", "runs", "list", "--key", PASSWORD, f"--key={PASSWORD}"])
    monkeypatch.setattr("hostler.cli.commands.app", lambda: 1 / 0)
    with pytest.raises(SystemExit):
        entry_point.main()
    monkeypatch.setattr(sys, "argv", ["hostler", "serve", "--database", ADDRESSES[0]])
    with pytest.raises(SystemExit):
        entry_point.main()
    said = capsys.readouterr().err
    assert "this is a bug in hostler" in said
    reports = [Path(name).read_text() for name in re.findall(r"report it with (\S+),", said)]
    assert len(reports) == 2
    assert all("ZeroDivisionError" in report and PASSWORD not in report for report in reports)
