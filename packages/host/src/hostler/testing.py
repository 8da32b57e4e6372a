"""Recorded runs as tests: export runs once, replay them against the current runner.

    hostler runs export RUN > recordings/greeting.json

    @pytest.mark.parametrize("recording", recordings("recordings"))
    def test_behaves_as_recorded(hostler_replay, recording):
        hostler_replay(recording, runner="./my-agent")

The fixture `hostler_replay` comes with this package. A replay needs no host, no model and no network: the
runner works in its own process, and every call gets its recorded response.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from hostler.cli.fault_page import DEFAULT_INPUT, plain_page
from hostler.cli.targets import local_target, plugin_folder
from hostler.domain.divergence import Divergence
from hostler.domain.tapes import decode_tape, read_tape
from hostler.host.bundled import shipped_plugin
from hostler.journal.replay_session import REPLAY_SECONDS, Replayed
from hostler.journal.replayer import Cast, Changes, Replayer
from hostler.plugins.source import Folder
from hostler.simulation.faults.report import Report as FaultReport
from hostler.simulation.faults.report import is_clean
from hostler.simulation.faults.trial import try_faults
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import split_runner_id

__all__ = ["Divergence", "FaultReport", "Replayed", "Replays", "check_faults", "recordings"]

T = TypeVar("T")
STOP_SECONDS = 30.0
"""Time for the event loop's thread to end; it normally needs none."""


def recordings(folder: str | Path) -> list[Path]:
    """Return the exported runs of a folder, by name. InvalidArgumentError if there is none."""
    found = sorted(Path(folder).glob("*.json"))
    if not found:
        raise InvalidArgumentError(
            f"there is no exported run in {folder}: make one with `hostler runs export RUN > NAME.json` there"
        )
    return found


class Replays:
    """Replays exported runs, with one plugin process for all of them. Close it at the end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replays", daemon=True)
        self._thread.start()
        self._open = AsyncExitStack()
        self._replayer: Replayer | None = None

    def __call__(
        self,
        recording: str | Path | bytes,
        *,
        runner: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        seconds: float = REPLAY_SECONDS,
    ) -> Replayed:
        """Replay a run. AssertionError with the first difference. Arguments as for `run`."""
        replayed = self.run(recording, runner=runner, config=config, seconds=seconds)
        if replayed.divergence is not None:
            raise AssertionError("\n".join([replayed.divergence.title, *replayed.divergence.lines]))
        return replayed

    def run(
        self,
        recording: str | Path | bytes,
        *,
        runner: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        seconds: float = REPLAY_SECONDS,
    ) -> Replayed:
        """Replay a run and return its outcome, which may have a divergence.

        `recording`: a file that `hostler runs export` wrote, or its content. `runner`: a plugin
        folder[:runner] or file.py:Class; None: a runner that comes with the host. `config` overrides the
        recorded configuration. InvalidArgumentError, NotFoundError, PluginStartError.
        """
        text = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
        tape = read_tape(decode_tape(text))
        cast = _cast(tape.run.runner_id, None if runner is None else str(runner))

        async def replay() -> Replayed:
            if self._replayer is None:
                self._replayer = await self._open.enter_async_context(Replayer.open())
            return await self._replayer.replay(tape, cast, Changes(values=config or {}), seconds=seconds)

        return self._run(replay())

    def close(self) -> None:
        """End all processes."""
        self._run(self._open.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def check_faults(
    plugin: str | Path,
    *inputs: str,
    config: Mapping[str, Any] | None = None,
    others: Sequence[str | Path] = (),
    faults: Sequence[str] = (),
) -> list[FaultReport]:
    """Crash the host and the plugin at every host call of runs with these inputs, and answer each call late.

    `plugin`: a plugin folder[:runner]. `others`: folders of plugins whose tools it may use. `faults`: only
    these, like `late-answer:1`. AssertionError with a page on what a run did twice, lost or did differently.
    InvalidArgumentError, PluginStartError.
    """
    folder, runner = plugin_folder(str(plugin))
    reports = try_faults(
        folder,
        runner=runner,
        inputs=inputs or (DEFAULT_INPUT,),
        config=config,
        others=[plugin_folder(str(other))[0] for other in others],
        faults=faults,
    )
    if not is_clean(reports):
        raise AssertionError(plain_page(str(plugin), reports))
    return reports


def _cast(runner_id: str, target: str | None) -> Cast:
    if target is None:
        plugin_key, name = split_runner_id(runner_id)
        folder = shipped_plugin(plugin_key)
        if folder is None:
            raise NotFoundError(
                f"the place of plugin {plugin_key} is not known here: name it with runner=..."
            )
        return Cast(Folder(folder), name)
    local = local_target(target)
    if local is None:
        raise NotFoundError(f"runner={target!r}: name a plugin folder, like ./folder, or file.py:Class")
    return Cast(local.source, local.runner)
