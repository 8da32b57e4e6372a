"""How AG-UI refuses: what a stream would say as `RUN_ERROR` is the body of an answer with an HTTP status.

Its clients raise for a status that is no 2xx, with the body in the error. A failure after the stream began is
an event of it.
"""

from __future__ import annotations

import msgspec

from hostler.http.ag_ui.wire import RunError
from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.problems import Problem, problem_of
from hostler_protocol.errors import HostlerError


class AgUi(Dialect):
    """The habits of AG-UI."""

    name = "ag-ui"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as the event that ends a run, with its HTTP status."""
        return Refusal(problem.status, msgspec.to_builtins(error_of(problem), enc_hook=str))


def error_of(problem: Problem) -> RunError:
    """Return an error as the event that ends a run. `code`: the reason, where there is one."""
    code = str(problem.details.get("reason") or problem.code)
    metadata = {"hostler": problem.details} if problem.details else None
    return RunError(message=problem.detail, code=code, metadata=metadata)


def run_error(error: HostlerError) -> RunError:
    """Return an error of the host as the event that ends a run."""
    return error_of(problem_of(error))


AG_UI = AgUi()
