"""The process that tries a runner: one life after another, each in a forked child. See `trial`."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from hostler.domain.struct_types import learn_struct_types
from hostler.simulation.faults.fault import KINDS, Calls, Fault, Outcome, when
from hostler.simulation.faults.life import MODEL, Case, FaultLife, load_anew, template_of
from hostler.simulation.faults.report import Finding, Report, differences, merged
from hostler.simulation.faults.trial import Lived, Refused, Reported, Said, Trial
from hostler.storage.sql.sqlite import SqliteDriver
from hostler_protocol.errors import HostlerError
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_sdk.loading import PluginLoadError

CPU_SECONDS = 10
"""Time of a processor for one life, which takes less than a second."""
LIFE_SECONDS = 120
"""Real time of one life."""
MAX_HANGS = 3
"""No more lives of a runner that did not end within that time so often."""
MAX_CALLS = 40
"""Calls at which each kind of fault is tried; of more, some are left out evenly."""
JOBS = 2
WARM = ("jsonschema_rs", "yaml", "email.parser", "encodings.ascii", "hostler.models.demo")
"""The host imports these when it needs them."""
MODEL_KINDS = ("model-fallback-selector", "llm-model-selector", "select-llm-model")
HANGS = (
    f"it was not over after {CPU_SECONDS} s of computing or {LIFE_SECONDS} s: in the simulated world a runner"
    " may wait for timers and for the host, and must not block"
)


class Trier:
    """Carries a trial out."""

    def __init__(self, trial: Trial, answers: BinaryIO) -> None:
        self._trial = trial
        self._answers = answers

    def run(self) -> None:
        """Answer with the reports, or why there are none."""
        trial = self._trial
        try:
            for folder in trial.plugins:
                load_anew(Path(folder), trial.plugins)
            plugin = load_anew(Path(trial.plugins[0]), trial.plugins)
        except PluginLoadError as error:
            self._say(Refused(str(error)))
            return
        manifests = {name: offered.manifest for name, offered in plugin.runners.items()}
        names = list(manifests) if trial.runner is None else [trial.runner]
        if missing := [name for name in names if name not in manifests]:
            self._say(Refused(f"the plugin has no runner {missing[0]!r}; it has: {', '.join(manifests)}"))
        elif not names:
            self._say(Refused("the plugin has no runner: name a folder with one"))
        else:
            cases = [(name, text) for name in names for text in trial.inputs]
            self._say(Reported([self._report(manifests[name], name, text) for name, text in cases]))

    def _report(self, manifest: AgentRunnerManifest, runner: str, text: str) -> Report:
        models = {item.name: MODEL for item in manifest.config_schema if item.kind in MODEL_KINDS}
        case = Case(self._trial.plugins, runner, text, {**models, **self._trial.config})
        report = Report(runner, text, manifest.capabilities.resumable)
        (_, baseline), *_ = self._live(case, [None])
        if isinstance(baseline, str):
            return msgspec.structs.replace(report, problem=baseline)
        if baseline.status != "completed":
            reason = f"without a fault, the run ended as {baseline.end}: give it an input that it completes"
            return msgspec.structs.replace(report, problem=reason)
        faults, left_out = self._faults(baseline.calls)
        report = msgspec.structs.replace(report, calls=baseline.calls.asked, left_out=left_out)
        for fault in self._trial.faults:
            count = len(baseline.calls.of(fault.kind))
            if not 1 <= fault.number <= count:
                return msgspec.structs.replace(report, problem=f"{fault}: this run has {count} such calls")
        return self._compare(report, case, baseline, faults)

    def _faults(self, calls: Calls) -> tuple[list[Fault], int]:
        """Return the faults to try, and how many are left out."""
        if self._trial.faults:
            return list(self._trial.faults), 0
        found, left_out = [], 0
        for kind in KINDS:
            count = len(calls.of(kind))
            step = max(1.0, count / MAX_CALLS)
            found += [Fault(kind, int(number * step) + 1) for number in range(min(count, MAX_CALLS))]
            left_out += max(0, count - MAX_CALLS)
        return found, left_out

    def _compare(self, report: Report, case: Case, baseline: Outcome, faults: list[Fault]) -> Report:
        findings: list[Finding] = []
        stories: dict[str, list[str]] = {}
        lives, failed, hangs = 1, 0, 0
        for fault, outcome in self._live(case, faults):
            assert fault is not None
            lives += 1
            self._say(Lived(case.runner, lives, len(faults) + 1))
            place = when(fault, baseline.calls)
            if isinstance(outcome, str):
                findings.append(Finding("waits", outcome, place, str(fault)))
                hangs += 1
                if hangs == MAX_HANGS:
                    break
                continue
            if self._trial.faults:
                stories[str(fault)] = outcome.story
            for kind, text in differences(baseline, outcome) if outcome.happened else ():
                if kind == "ends" and not report.resumable and fault.kind != "late-answer":
                    failed += 1
                else:
                    findings.append(Finding(kind, text, place, str(fault)))
        return msgspec.structs.replace(
            report,
            lives=lives,
            findings=merged(findings),
            failed=failed,
            left_out=report.left_out + len(faults) + 1 - lives,
            stories=stories,
        )

    def _live(
        self, case: Case, faults: Sequence[Fault | None]
    ) -> Iterator[tuple[Fault | None, Outcome | str]]:
        """Live a life for each fault, some at a time; in the order of the faults."""
        todo, running = deque(faults), deque[_Child]()
        while todo or running:
            while todo and len(running) < JOBS:
                running.append(_Child(case, todo.popleft(), Path(self._trial.folder)))
            child = running.popleft()
            yield child.fault, child.wait()

    def _say(self, said: Said) -> None:
        self._answers.write(msgspec.json.encode(said) + b"\n")
        self._answers.flush()


class _Child:
    """A life in a forked process."""

    def __init__(self, case: Case, fault: Fault | None, folder: Path) -> None:
        self.fault = fault
        self._folder = Path(tempfile.mkdtemp(prefix="life-", dir=folder))
        self._pid = os.fork()
        if self._pid == 0:
            _live_and_exit(case, fault, self._folder)

    def wait(self) -> Outcome | str:
        """Return what came of the run, or why nothing did."""
        _, status = os.waitpid(self._pid, 0)
        outcome: Outcome | str
        try:
            outcome = pickle.loads((self._folder / "outcome").read_bytes())  # noqa: S301  of our own child
        except FileNotFoundError:
            hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF)
            outcome = HANGS if hung else f"its process ended with status {os.waitstatus_to_exitcode(status)}"
        shutil.rmtree(self._folder)
        return outcome


def _live_and_exit(case: Case, fault: Fault | None, folder: Path) -> None:
    status = 1
    try:
        signal.alarm(LIFE_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        gc.disable()
        logging.disable(logging.CRITICAL)
        outcome = pickle.dumps(_outcome(case, fault, folder))
        (folder / "outcome").write_bytes(outcome)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _outcome(case: Case, fault: Fault | None, folder: Path) -> Outcome | str:
    try:
        return FaultLife(case, fault, folder).live()
    except HostlerError as error:
        return error.message
    except Exception as error:  # noqa: BLE001  told as why the runner cannot be tried
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Carry out the trial of standard input."""
    trial = msgspec.json.decode(sys.stdin.buffer.read(), type=Trial)
    sys.pycache_prefix = str(Path(trial.folder) / "pycache")  # the plugin's folder stays as it is
    sys.path += trial.packages
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # a plugin that prints does not disturb the answers
        _warm_up(Path(trial.folder))
        Trier(trial, answers).run()


def _warm_up(folder: Path) -> None:
    """Load what every life needs, before it is forked."""
    SqliteDriver(template_of(folder)).close()
    for module in WARM:
        importlib.import_module(module)
    learn_struct_types()
    gc.freeze()


if __name__ == "__main__":
    main()
