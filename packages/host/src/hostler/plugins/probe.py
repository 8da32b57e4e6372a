"""Find out how this machine contains plugin processes, for `hostler doctor`."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

from hostler.domain.record import Record
from hostler.plugins.logs import PluginLog
from hostler.plugins.process import start_process
from hostler.sandbox.process import Command


class Containment(Record):
    """`mode` is `namespace`, `subreaper` or `group`; `text` describes it."""

    mode: str
    text: str


async def probe_containment(folder: Path, wanted: str = "auto") -> Containment:
    """Start a process that does nothing and return how it is contained. Its log goes to `folder`.

    Raises PluginStartError if no process can be started.
    """
    log = PluginLog(folder / "probe.log")
    command = Command([sys.executable, "-I", "-S", "-c", ""], Path("/"), {}, wanted)
    try:
        process = await start_process(command, log, marker=secrets.token_hex(16))
        await process.wait_gone()
    finally:
        log.close()
    return Containment(process.mode, process.containment)
