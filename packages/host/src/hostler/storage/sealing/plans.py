"""What a statement writes into sealed columns: found once, from its text.

The statements of this code base are simple: `INSERT INTO t (columns) VALUES (expressions)` and `UPDATE t SET
column = expression`, where the expression of a sealed column is one parameter, perhaps inside CAST or
COALESCE, or has none. Anything else is a ValueError, which a test over all statements would show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest

from hostler.domain.record import Record
from hostler.storage.port import Query
from hostler.storage.sealing.columns import TABLES, Table

_INSERT = re.compile(r"\s*INSERT INTO (\w+) \(([^)]*)\)\s*(VALUES \(|SELECT )", re.IGNORECASE)
_UPDATE = re.compile(r"\s*UPDATE (\w+)(?: AS \w+)? SET ", re.IGNORECASE)
_PARAM = re.compile(r":([a-z_][a-z0-9_]*)")
_ONE = re.compile(
    r"(?:cast\()?:(?P<param>[a-z_][a-z0-9_]*)(?: AS \w+\))?"
    r"|coalesce\((?:cast\()?:(?P<first>[a-z_][a-z0-9_]*)(?: AS \w+\))?, \w+\)"
    r"|coalesce\(\w+, (?:cast\()?:(?P<second>[a-z_][a-z0-9_]*)(?: AS \w+\))?\)",
    re.IGNORECASE,
)
_EQUALS = re.compile(r"\b(?:\w+\.)?(\w+)\s*=\s*:([a-z_][a-z0-9_]*)")


class Plan(Record):
    """The sealed columns that a statement writes."""

    table: Table
    sealed: Mapping[str, str]
    """By parameter: the column that it becomes."""
    columns: Mapping[str, str]
    """By column of the row: the parameter with its value, as far as the statement names it."""


def plan_of(query: Query) -> Plan | None:
    """Return what a statement writes into sealed columns, or None. ValueError for an unknown form."""
    text = _named_text(query)
    insert, update = _INSERT.match(text), _UPDATE.match(text)
    found = insert or update
    if found is None or found[1] not in TABLES:
        return None
    table = TABLES[found[1]]
    if insert is not None:
        columns, written = _inserted(query, table, insert, text)
    else:
        columns, written = _updated(text[found.end() :])
    sealed: dict[str, str] = {}
    for column, expression in written.items():
        if column in table.columns and (param := _param_of(query, column, expression)) is not None:
            sealed[param] = column
    if not sealed:
        return None
    uses = [name for name in _PARAM.findall(text) if name in sealed]
    if len(uses) != len(sealed):
        raise ValueError(f"{query.name}: a parameter of a sealed column is used twice")
    return Plan(table, sealed, columns)


def _named_text(query: Query) -> str:
    """Return the SQLite version with parameters written `:name`."""
    parts = query.sqlite.split("?") if query.sqlite else [query.postgres]
    text = "".join(f"{part}:{name}" if name else part for part, name in zip_longest(parts, query.names))
    return " ".join(text.split())


def _inserted(
    query: Query, table: Table, insert: re.Match[str], text: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of plain columns, and the expressions of all, of an INSERT."""
    names = [name.strip() for name in insert[2].split(",")]
    if not insert[3].upper().startswith("VALUES"):
        if table.columns.keys() & set(names):
            raise ValueError(f"{query.name}: a sealed column is copied by INSERT ... SELECT")
        return {}, {}
    expressions = _split(text[insert.end() :])
    written = dict(zip(names, expressions, strict=True))
    columns = {name: expression[1:] for name, expression in written.items() if _PARAM.fullmatch(expression)}
    return columns, written


def _updated(rest: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters that WHERE compares columns with, and the expressions of SET."""
    assignments, _, where = _at_depth_zero(rest, " WHERE ")
    written: dict[str, str] = {}
    for assignment in _split(assignments + ")"):
        name, _, expression = assignment.partition("=")
        written[name.strip()] = expression.strip()
    return dict(_EQUALS.findall(where)), written


def _param_of(query: Query, column: str, expression: str) -> str | None:
    """Return the parameter that becomes a sealed column's value; None if the expression has none."""
    found = _ONE.fullmatch(expression)
    if found is not None:
        return found["param"] or found["first"] or found["second"]
    if _PARAM.search(expression):
        raise ValueError(f"{query.name}: {column} = {expression} computes with a sealed value")
    return None


def _split(text: str) -> list[str]:
    """Split at commas up to the closing parenthesis, outside of nested ones."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return [*parts, text[start:position].strip()]
        elif char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    raise ValueError(f"unbalanced parentheses: {text}")


def _at_depth_zero(text: str, word: str) -> tuple[str, str, str]:
    """Partition at a word outside of parentheses."""
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and text[position : position + len(word)].upper() == word:
            return text[:position], word, text[position + len(word) :]
    return text, "", ""
