"""The process that filters run in: one line of JSON in, one line out per filter.

In: `{"event": {...}, "filters": [text, ...]}`. Out: `ready`, once everything is imported; then, for each job,
`{"matched": bool, "error": text or null, "unknown": bool}` per filter, in order. It ends when its input does.

A filter that uses more processor time than it may is ended by the timer that is running, and the process with
it: nothing else stops code that never comes back to the interpreter. Only evaluations run under that timer:
what a first start imports, and compiles where no bytecode is kept, is no filter's doing.
"""

from __future__ import annotations

import resource
import signal
import sys

import msgspec

from hostler.domain.bindings import FilterOutcome
from hostler.domain.filters import Evaluator

CPU_SECONDS = 0.5
"""Processor time of one filter for one event; a plain filter takes 0.1 ms."""
READY = b"ready\n"
_WARM_UP = "event.a.startsWith('x') && event.a.matches('^x') && [1, 2].exists(n, n > 1)"
"""A filter that loads what most filters use, so that the first real one does not wait for it."""
MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space of the process, code and libraries included."""


class FilterJob(msgspec.Struct):
    """One event and its filters."""

    event: dict[str, object]
    filters: list[str]


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which then closes our input
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    evaluator = Evaluator()
    evaluator.evaluate(_WARM_UP, {"a": "x"})
    decoder = msgspec.json.Decoder(FilterJob)
    encoder = msgspec.json.Encoder()
    out = sys.stdout.buffer
    out.write(READY)
    out.flush()
    for line in sys.stdin.buffer:
        job = decoder.decode(line)
        for text in job.filters:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                outcome = evaluator.evaluate(text, job.event)
            except MemoryError:
                outcome = FilterOutcome.not_evaluated("the filter needs too much memory")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            out.write(encoder.encode(outcome) + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
