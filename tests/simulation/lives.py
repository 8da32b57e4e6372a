"""Lives in processes of their own: each in a forked child, over several worker processes.

The first worker imports what lives need and lives one itself; the others are forked from it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import logging
import os
import pickle
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NoReturn

import certifi

from hostler.domain.struct_types import learn_struct_types
from hostler.egress.transport import tls_context
from hostler.host.bundled import bundled
from hostler.storage.sql.sqlite import SqliteDriver
from hostler_sdk.loading import load_folder
from simulation.catalog import ATTEND, HANDLERS, JUDGES, plan_of
from simulation.folders import own_folder
from simulation.life import PLUGINS, Ended, live
from simulation.occurrences import occurrences
from simulation.plan import Plan

LIFE_SECONDS = 180.0
"""Real time after which a life hangs. One takes less than a second, more on a machine with much to do."""
TESTS = Path(__file__).resolve().parents[1]
WARM = (
    "cel",
    "jsonschema_rs",
    "yaml",
    "email.parser",
    "encodings.ascii",
    "hostler.models.openai",
    "anyio._backends._asyncio",
    "hostler.tools.mcp.sessions",
    "httpcore",
    "httpcore2",
    "truststore",
    "hostler_sdk.types",
)
"""The host imports these when it needs them: imported before the fork, they halve the cost of a life."""
FIRST = "3"
"""The seed of the life that a worker lives before all others, for what is learned once in a process."""
HANG = "the life hangs"

Prepare = Callable[[], None]
"""Called in the child before the life, for example to put a defect into the host."""


def make_template(path: Path) -> None:
    """Make an empty database, and load what every life needs."""
    SqliteDriver(path).close()
    for module in WARM:
        importlib.import_module(module)
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
    modules.setdefault("sniffio", None)  # httpcore looks for it at each request
    for folder in (
        *(PLUGINS / name for name in ("plugin", "rogue", "talker")),
        bundled("runners", "local-agent"),
    ):
        load_folder(folder)
    tls_context()
    learn_struct_types()


def in_child(
    plan: Plan, template: Path, prepare: Prepare | None = None, *, seconds: float = LIFE_SECONDS
) -> Ended:
    """Live a life in a forked process: each begins with the same interpreter.

    Its files are in a folder beside the template, which is removed however the life ends. A life that
    hangs or ends its process is a finding, with the stacks of the child.
    """
    folder = Path(tempfile.mkdtemp(prefix="life-", dir=template.parent))
    try:
        return _forked(plan, template, folder, prepare, seconds)
    finally:
        shutil.rmtree(folder)


def _forked(plan: Plan, template: Path, folder: Path, prepare: Prepare | None, seconds: float) -> Ended:
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stacks:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _live_and_exit(plan, template, folder, prepare, seconds, writing, stacks.fileno())
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status == 0 and data:
            ended: Ended = pickle.loads(data)
            return ended
        stacks.seek(0)
        where = stacks.read().decode(errors="replace")
    what = (
        f"{HANG}: not over after {seconds:g} s" if "Timeout" in where else f"the life ended: status {status}"
    )
    return Ended(plan, [f"{what}\n{where}".rstrip()], "", 0.0, 0)


def _live_and_exit(
    plan: Plan,
    template: Path,
    folder: Path,
    prepare: Prepare | None,
    seconds: float,
    writing: int,
    stacks: int,
) -> None:
    status = 1
    try:
        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(seconds, exit=True, file=stacks)
        gc.disable()  # when it runs differs between versions of Python
        sys.tracebacklimit = 0  # with stacks, frames would differ in size by checkout and version of Python
        if prepare is not None:
            prepare()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(live(plan, folder, template, HANDLERS, ATTEND, JUDGES, occurrences), pipe)
        status = 0
    except BaseException:
        sys.tracebacklimit = 1000  # the default
        os.write(stacks, traceback.format_exc().encode())
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


# -- workers --------------------------------------------------------------------------------------


class Workers:
    """Worker processes that live lives, one at a time each; strings are hashed alike in all of them.

    `prepare` is a function of a module that the workers can import. `packages`: folders from which they
    import before all others.
    """

    def __init__(
        self,
        jobs: int = 2,
        prepare: Prepare | None = None,
        python: str = sys.executable,
        packages: Sequence[Path] = (),
    ) -> None:
        self._jobs, self._prepare, self._python, self._packages = jobs, prepare, python, packages
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(own_folder()) / "workers"
            folder.mkdir()
            started = _started(self._jobs, self._python, self._packages, folder)
            self._process, self._workers = opened.enter_context(started)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def process(self) -> int:
        """Return the id of the process of the first worker."""
        return self._process.pid

    def live(self, plan: Plan) -> Ended:
        """Live one life."""
        return self._workers[0].live(plan, self._prepare)

    def live_all(self, plans: Iterable[Plan]) -> Iterator[Ended]:
        """Live lives, and return what is left of each as it ends.

        Plans are taken one by one, so `plans` may go on for ever. Closing it waits for the lives under way.
        """
        ended: queue.SimpleQueue[Ended | BaseException | None] = queue.SimpleQueue()
        source, taking, stopped = iter(plans), threading.Lock(), threading.Event()

        def next_plan() -> Plan | None:
            with taking:
                return None if stopped.is_set() else next(source, None)

        def feed(worker: _Worker) -> None:
            try:
                while (plan := next_plan()) is not None:
                    ended.put(worker.live(plan, self._prepare))
            except BaseException as error:  # noqa: BLE001  raised at whoever waits for the lives
                ended.put(error)
            ended.put(None)

        threads = [threading.Thread(target=feed, args=(worker,), name="lives") for worker in self._workers]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                one = ended.get()
                if isinstance(one, BaseException):
                    raise one
                if one is None:
                    left -= 1
                else:
                    yield one
        finally:
            stopped.set()
            for thread in threads:
                thread.join()


def live_all(
    plans: Iterable[Plan], *, jobs: int = 2, prepare: Prepare | None = None, python: str = sys.executable
) -> Iterator[Ended]:
    """Live lives in worker processes of their own. See `Workers`."""
    with Workers(jobs, prepare, python) as workers:
        yield from workers.live_all(plans)


def findings_of(plan: Plan) -> list[str]:
    """Live one life in a worker of its own, and return what it showed."""
    with Workers(1) as workers:
        return workers.live(plan).findings


@dataclass(frozen=True)
class _Worker:
    """The pipes of a worker: requests to live, and what is left of the lives."""

    requests: BinaryIO
    answers: BinaryIO

    def live(self, plan: Plan, prepare: Prepare | None) -> Ended:
        """Have a life lived."""
        try:
            pickle.dump((plan, prepare), self.requests)
            self.requests.flush()
            ended: Ended = pickle.load(self.answers)
        except (EOFError, BrokenPipeError):
            raise RuntimeError(f"a worker ended before it had lived the life of seed {plan.seed}") from None
        return ended

    def close(self) -> None:
        """Let the worker end."""
        with contextlib.suppress(BrokenPipeError):
            self.requests.close()
        self.answers.close()


@contextlib.contextmanager
def _started(
    jobs: int, python: str, packages: Sequence[Path], folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], list[_Worker]]]:
    """Start workers; return the process of the first one, and the pipes of each."""
    # where this process found its modules, the worker finds them, too: tests may run from anywhere
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([*map(str, packages), str(TESTS), *known])
    workers: list[_Worker] = []
    ends: list[tuple[int, int]] = []
    with contextlib.ExitStack() as own:
        with contextlib.ExitStack() as theirs:
            for _ in range(jobs):
                (asked, asking), (answered, answering) = os.pipe(), os.pipe()
                workers.append(_Worker(os.fdopen(asking, "wb"), os.fdopen(answered, "rb")))
                own.callback(workers[-1].close)
                ends.append((asked, answering))
                for number in ends[-1]:
                    theirs.callback(os.close, number)
            process = subprocess.Popen(
                [
                    python,
                    "-m",
                    "simulation.worker",
                    *(f"{asked}:{answering}" for asked, answering in ends),
                    str(folder),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[number for pair in ends for number in pair],
                env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path.rstrip(os.pathsep)},
                start_new_session=True,  # Ctrl-C is for the one that reports
            )
        try:
            yield process, workers
        finally:
            own.close()  # a worker ends with its requests
            process.wait()


def _one_certificate(folder: Path) -> Path:
    """Make a file with one authority: to load those of the web costs each client 30 ms, and none is asked."""
    first, mark, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----")
    file = folder / "authority.pem"
    file.write_text(first + mark + "\n", "utf-8")
    return file


def _live_first(template: Path, folder: Path) -> None:
    """Live a life in this process: types, patterns and statements that it met are known in all children."""
    root = logging.getLogger("hostler")
    before = root.handlers[:]
    folder.mkdir()
    live(plan_of(FIRST), folder, template, HANDLERS, ATTEND, JUDGES, occurrences)
    shutil.rmtree(folder)
    root.handlers = before


def serve(ends: Sequence[tuple[BinaryIO, BinaryIO]], folder: Path) -> None:
    """Live the lives that are asked for, until the requests end, with a process for each pair of ends.

    The files of all lives are in a folder.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # what simulated plugins log is no news
    template = folder / "template.db"
    make_template(template)
    os.environ["SSL_CERT_FILE"] = str(_one_certificate(folder))
    _live_first(template, folder / "first")
    gc.collect()
    gc.freeze()
    others = []
    for number, own in enumerate(ends[1:], start=1):
        if (pid := os.fork()) == 0:
            for end in (*ends[:number], *ends[number + 1 :]):
                for file in end:  # whoever waits for an answer of one that is gone hears of it
                    file.close()
            _serve_and_exit(*own, template)
        others.append(pid)
    for end in ends[1:]:
        for file in end:
            file.close()
    _serve(*ends[0], template)
    for pid in others:
        os.waitpid(pid, 0)


def _serve_and_exit(requests: BinaryIO, answers: BinaryIO, template: Path) -> NoReturn:
    status = 1
    try:
        _serve(requests, answers, template)
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


def _serve(requests: BinaryIO, answers: BinaryIO, template: Path) -> None:
    while True:
        try:
            plan, prepare = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(in_child(plan, template, prepare), answers)
        answers.flush()
