"""The process that filters run in: one line of JSON in, one line out per filter.

In: `{"event": {...}, "filters": [text, ...]}`, or `{"names": {...}, "expressions": [text, ...]}`. Out:
`ready`, once everything is imported; then, for each job, `{"matched": bool, "error": text or null, "unknown":
bool}` per filter, or `[value, error, unknown]` per expression, in order. It ends when its input does.

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
from hostler.domain.filters import Evaluator, ValueOutcome
from hostler_protocol.limits import MIB

CPU_SECONDS = 0.5
"""Processor time of one filter for one event; a plain filter takes 0.1 ms."""
READY = b"ready\n"
_WARM_UP = "event.a.startsWith('x') && event.a.matches('^x') && [1, 2].exists(n, n > 1)"
"""A filter that loads what most filters use, so that the first real one does not wait for it."""
MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space of the process, code and libraries included."""


MAX_VALUE_BYTES = MIB
"""The value of one expression as JSON: more than an event may hold."""


class FilterJob(msgspec.Struct):
    """One event and its filters, or names and the expressions over them."""

    event: dict[str, object] = {}
    filters: list[str] = []
    names: dict[str, object] = {}
    expressions: list[str] = []


_encoder = msgspec.json.Encoder()


def _value(evaluator: Evaluator, text: str, names: dict[str, object]) -> bytes:
    """Return the outcome of an expression as JSON."""
    try:
        found = _encoder.encode(evaluator.value(text, names))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return _encoder.encode(ValueOutcome(None, f"the value is not JSON: {error}"))
    if len(found) > MAX_VALUE_BYTES:
        why = f"the value has {len(found):,} bytes; at most {MAX_VALUE_BYTES:,} are possible"
        return _encoder.encode(ValueOutcome(None, why))
    return found


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which then closes our input
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    evaluator = Evaluator()
    evaluator.evaluate(_WARM_UP, {"a": "x"})
    decoder = msgspec.json.Decoder(FilterJob)
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
            out.write(_encoder.encode(outcome) + b"\n")
            out.flush()
        for text in job.expressions:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                value = _value(evaluator, text, job.names)
            except MemoryError:
                value = _encoder.encode(ValueOutcome.not_evaluated("the expression needs too much memory"))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            out.write(value + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
