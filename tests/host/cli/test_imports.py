"""The file of an import is replaced only as it was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.cli.imports import _replace
from hostler_protocol.errors import ConflictError


@pytest.mark.parametrize(("before", "now"), [(None, "mine\n"), ("mine\n", "other\n"), ("mine\n", None)])
def test_a_file_that_was_changed_meanwhile_stays(tmp_path: Path, before: str | None, now: str | None) -> None:
    target = tmp_path / "hostler.yaml"
    if now is not None:
        target.write_text(now)
    with pytest.raises(ConflictError, match="was changed meanwhile, and was left as it is: import again"):
        _replace(target, "new\n", before)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == (
        {} if now is None else {"hostler.yaml": now}
    )


def test_an_unchanged_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "hostler.yaml"
    target.write_bytes(b"mine\r\n")
    target.chmod(0o640)
    _replace(target, "new\n", "mine\r\n")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new\n", 0o640)
