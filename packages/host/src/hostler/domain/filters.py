"""Filters: CEL expressions over one name, `event`, that select the events an agent receives.

`check_filter` checks a filter when an agent is saved. `Evaluator.evaluate` runs one; it holds the
interpreter's lock while the expression runs, so the host calls it in a separate process
(`hostler.runs.filters`) that can be killed.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

import msgspec

from hostler.domain.bindings import FilterOutcome
from hostler.domain.config_mistakes import nearest
from hostler.domain.record import Record
from hostler.domain.struct_fields import struct_fields
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.limits import KIB

MAX_FILTER_BYTES = 4 * KIB
MAX_FILTERS_PER_AGENT = 32
MAX_ERROR_CHARS = 300
"""The error text of each failed filter is stored with the event."""
NAME = "event"

MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
"""Macros that iterate a list. Nesting would multiply the lengths, so it is refused."""
FUNCTIONS = frozenset(
    {
        *("bytes", "contains", "double", "duration", "dyn", "endsWith", "has", "int", "matches", "size"),
        *("startsWith", "string", "timestamp", "type", "uint"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours"),
        *("getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
    }
)
TYPES = frozenset(
    {"bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string", "timestamp", "uint"}
)
"""Names of types, as in `type(x) == int`."""
_KEYWORDS = frozenset({"true", "false", "null", "in"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<text>[bB]?[rR][bB]?(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")
          | [bB]?(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
      | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
      | (?P<number>\.?[0-9](?:[eE][+-]|[0-9a-zA-Z.])*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


class ValueOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of an expression: its value as JSON has it, or why there is none.

    `unknown`: it could not be evaluated (timeout, its process died).
    """

    value: Any = None
    error: str | None = None
    unknown: bool = False

    @classmethod
    def not_evaluated(cls, why: str) -> ValueOutcome:
        """The outcome of an expression that could not be evaluated; `why` is the reason."""
        return cls(None, why, unknown=True)


class _Token(Record):
    kind: str
    text: str


@dataclass(slots=True)
class _Span:
    """An open bracket. `binds`: the name bound by the macro whose arguments it opens."""

    binds: str | None = None


def check_filter(text: str) -> None:
    """Check a filter: it must be valid and its cost bounded.

    InvalidArgumentError: not CEL, over 4 KiB, a name other than `event`, an unknown function, nested macros.
    """
    check_expression(text, (NAME,), "filter", f"with the fields of an event, such as {NAME}.event_type")


def check_expression(text: str, names: Sequence[str], what: str, example: str) -> None:
    """Check an expression over these names as `check_filter` does a filter. InvalidArgumentError.

    `what` and `example` are words of the error.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_FILTER_BYTES:
        raise InvalidArgumentError(f"{what} has {size:,} bytes; at most {MAX_FILTER_BYTES:,} are allowed")
    _compile(text, what)
    _Names(text, frozenset(names), what, example).check()


@functools.cache
def _engine() -> Any:
    """Import the expression engine when it is first used; many hosts have no filters.

    Its package imports its command line, which is three quarters of what importing it takes: leave that out,
    unless a version of it needs more of that than its name.
    """
    left_out = types.ModuleType("cel.cli")
    try:
        sys.modules.setdefault(left_out.__name__, left_out)
        return importlib.import_module("cel")
    except ImportError:
        sys.modules.pop(left_out.__name__, None)
        return importlib.import_module("cel")
    finally:
        if sys.modules.get(left_out.__name__) is left_out:
            del sys.modules[left_out.__name__]


def _compile(text: str, what: str = "filter") -> Any:
    try:
        program = _engine().compile(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} {_quoted(text)} is not CEL: {_brief(error)}") from None
    for name in program.functions():
        if name.isidentifier() and name not in FUNCTIONS and not name.startswith("_"):
            raise InvalidArgumentError(
                f"{what} {_quoted(text)} uses {name}(): {did_you_mean(name, FUNCTIONS)}"
            )
    return program


def _tokens(text: str) -> list[_Token]:
    found = (_Token(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(text))
    return [token for token in found if token.kind != "space"]


class _Names(Record):
    """The names that an expression may use, and how an error calls it."""

    text: str
    known: frozenset[str]
    what: str
    example: str

    def check(self) -> None:
        """Check names by their enclosing brackets: each free name must be bound, macros must not nest."""
        open_: list[_Span] = []
        padded = [_Token("", ""), *_tokens(self.text), _Token("", ""), _Token("", "")]
        for before, token, after, second in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
            if token.kind == "sign":
                if token.text in "([{":
                    open_.append(_Span())
                elif token.text in ")]}" and open_:
                    open_.pop()
            is_macro = before.text == "." and token.text in MACROS and after.text == "("
            if is_macro and any(span.binds for span in open_):
                raise InvalidArgumentError(
                    f"{self.what} {_quoted(self.text)} nests macros: {token.text} inside another"
                )
            # the bracket after a macro's name opens the scope of the macro's first argument
            if token.text == "(" and before.text in MACROS and after.kind == "name" and second.text == ",":
                open_[-1].binds = after.text
            if token.kind == "name" and before.text != "." and after.text != "(":
                self._check_free(token.text, {span.binds for span in open_ if span.binds})

    def _check_free(self, name: str, bound: set[str]) -> None:
        if name in _KEYWORDS or name in TYPES or name in self.known or name in bound:
            return
        known = ", ".join(repr(one) for one in sorted(self.known))
        are = "is" if len(self.known) == 1 else "are"
        raise InvalidArgumentError(
            f"{self.what} {_quoted(self.text)} uses the name {name!r}; "
            f"only {known} {are} known, {self.example}"
        )


def field_paths(text: str) -> list[tuple[str, ...]]:
    """Return the event's fields that a filter uses, as paths; none if a macro rebinds `event`."""
    tokens = _tokens(text)
    found: list[tuple[str, ...]] = []
    for number, token in enumerate(tokens):
        before = tokens[number - 1].text if number else ""
        if token.kind != "name" or token.text != NAME or before == ".":
            continue
        following = tokens[number + 1 :]
        if before == "(" and following[:1] and following[0].text == ",":
            return []
        path: list[str] = []
        while len(following) > 1 and following[0].text == "." and following[1].kind == "name":
            if len(following) > 2 and following[2].text == "(":
                break
            path.append(following[1].text)
            following = following[2:]
        found.append(tuple(path))
    return found


def unknown_fields(text: str) -> Iterator[str]:
    """Yield the mistake for each field that no event has: such a filter never matches.

    The filter must have passed `check_filter`.
    """
    for path in dict.fromkeys(field_paths(text)):
        kind: type[msgspec.Struct] = EventEnvelope
        at = NAME
        for name in path:
            fields = struct_fields(kind)
            if name not in fields:
                yield f"{at} has no field {name!r}{nearest(name, fields)}"
                break
            inner = _struct(fields[name].type)
            if inner is None:
                break
            kind, at = inner, f"{at}.{name}"


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    """Return the struct type of a field; None if its keys are free or it has no fields."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    found = [one for one in members if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    rest = [one for one in members if one not in found and one is not type(None)]
    return found[0] if len(found) == 1 and not rest else None


class Evaluator:
    """Evaluate filters, with a bounded cache of compiled ones."""

    def __init__(self, keep: int = 256) -> None:
        self._keep = keep
        self._programs: dict[str, Callable[[dict[str, Any]], Any]] = {}

    def value(self, text: str, names: Mapping[str, Any]) -> ValueOutcome:
        """Evaluate an expression over these names. Any error is an outcome, with its text."""
        try:
            return ValueOutcome(self._program(text)(dict(names)))
        except InvalidArgumentError as error:
            return ValueOutcome(None, _brief(error))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            return ValueOutcome(None, _brief(error))

    def evaluate(self, text: str, event: dict[str, Any]) -> FilterOutcome:
        """Evaluate one filter. Any error is no match, with its text."""
        try:
            return _outcome(self._program(text)({NAME: event}))
        except InvalidArgumentError as error:
            return FilterOutcome(False, _brief(error))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            return FilterOutcome(False, _brief(error))

    def _program(self, text: str) -> Callable[[dict[str, Any]], Any]:
        program = self._programs.get(text)
        if program is None:
            if len(self._programs) >= self._keep:
                self._programs.pop(next(iter(self._programs)))
            program = self._programs[text] = _compile(text).execute
        return program


def _outcome(value: Any) -> FilterOutcome:
    if isinstance(value, bool):
        return FilterOutcome(value)
    return FilterOutcome(False, f"the filter gave {type(value).__name__}, not true or false")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _brief(error: Exception) -> str:
    text = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())
    if isinstance(error, KeyError):
        text = f"no such field: {text}"
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 3] + "..."
