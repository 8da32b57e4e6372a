"""Whatever fails while a host ends, the rest still ends, and the database last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import Settings
from hostler.host.host import Host


def _closers(host: Host) -> list[tuple[Any, str]]:
    """All that a host closes, in the order it should."""
    return [
        (host.dispatcher, "stop"),
        (host.mcp, "close"),
        (host.workers, "stop"),
        (host.webhook_sender, "close"),
        (host.supervisor, "close"),
        (host.filters, "close"),
        (host.models, "close"),
        *[(web, "close") for web in host.web],
        (host.folders, "close"),
        (host.blobs, "settle"),
        (host.blobs, "close"),
        (host.sandboxes, "close"),
        (host._lease, "end"),
        (host.audit_heads, "try_note"),
        (host.db, "close"),
    ]


async def test_every_close_of_a_host_may_fail_and_all_others_still_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []
    wanted: list[str] = []

    def failing(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def later(*args: Any, **options: Any) -> None:
            await method(*args, **options)
            closed.append(name)
            raise RuntimeError(f"{name} failed")

        def now(*args: Any, **options: Any) -> None:
            method(*args, **options)
            closed.append(name)
            raise RuntimeError(f"{name} failed")

        return later if asyncio.iscoroutinefunction(method) else now

    opening = Host.open(Settings(data_dir=tmp_path))
    host = await opening.__aenter__()
    for owner, name in _closers(host):
        label = f"{type(owner).__name__}.{name}"
        wanted.append(label)
        setattr(owner, name, failing(getattr(owner, name), label))
    with pytest.raises(RuntimeError) as raised:
        await opening.__aexit__(None, None, None)
    assert closed == wanted
    assert closed[-1].endswith("Database.close"), "what others still write reaches it"
    assert host.state == "stopped"
    assert str(raised.value) == f"{wanted[-1]} failed"
    for label in wanted:
        assert f"RuntimeError: {label} failed" in caplog.text, "no failure hides another"
    async with Host.open(Settings(data_dir=tmp_path)) as again:
        assert again.state == "ready", "the lock on the data directory was let go"
