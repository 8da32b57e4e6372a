"""Named SQL: one `.sql` file per store, the same text for both databases.

A file is a list of statements, each headed by a line `-- name: <name>`, with its comments below. Parameters
are written `:name`. Marks stand for SQL that differs between the databases:

- `[texts :name]`, `[numbers :name]`: a subquery with the items of a JSON array, in the column `value`
- `[is column :name]`: the column equals the parameter, or both are NULL
- `[field column.name]`: a field of a JSON object
- `[postgres ...]`: on PostgreSQL only

What several statements of a file have in common is a part, headed by `-- part: <name>` and written `[part
<name>]` in them.

Statements that differ as a whole have a second version under `-- name: <name> (postgres)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from hostler.storage.port import Query

_HEAD = re.compile(
    r"^-- (?:part: (?P<part>[a-z][a-z0-9_]*)"
    r"|name: (?P<name>[a-z][a-z0-9_]*)(?: \((?P<dialect>sqlite|postgres)\))?)\s*$",
    re.MULTILINE,
)
_PART = re.compile(r"\[part (\w+)\]")
_MARKS = {
    r"\[texts (:\w+)\]": (
        r"(SELECT value FROM json_each(\1))",
        r"(SELECT value FROM jsonb_array_elements_text(CAST(\1 AS jsonb)) AS value)",
    ),
    r"\[numbers (:\w+)\]": (
        r"(SELECT value FROM json_each(\1))",
        r"(SELECT CAST(value AS bigint) AS value FROM jsonb_array_elements_text(CAST(\1 AS jsonb)) AS value)",
    ),
    r"\[is ([\w.]+) (:\w+)\]": (r"\1 IS \2", r"(\1 = \2 OR (\1 IS NULL AND CAST(\2 AS text) IS NULL))"),
    r"\[field (\w+)\.(\w+)\]": (r"json_extract(\1, '$.\2')", r"(CAST(\1 AS jsonb) ->> '\2')"),
    r"\s*\[postgres ([^\]]*)\]": ("", r" \1"),
}
"""Each mark as a pattern, with its SQL for SQLite and for PostgreSQL."""
_SKIP_OR_PARAM = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::[a-z]+|(?<![:\w]):(?P<name>[a-z_][a-z0-9_]*)")


class Queries:
    """The statements of one file, as attributes. Each is translated for the databases at its first use."""

    def __init__(self, texts: Mapping[str, tuple[str, str]], prefix: str) -> None:
        self._texts = texts
        """Name -> text for SQLite and for PostgreSQL."""
        self._prefix = prefix

    def __getattr__(self, name: str) -> Query:
        """Translate a statement, and keep it where it is found without this call: a run uses twenty."""
        try:
            sqlite, postgres = self._texts[name]
        except KeyError:
            raise AttributeError(f"no statement {name!r}; there are {', '.join(self._texts)}") from None
        made: Query = vars(self).setdefault(name, query_of(f"{self._prefix}.{name}", sqlite, postgres))
        return made

    def __iter__(self) -> Iterator[Query]:
        return (getattr(self, name) for name in self._texts)


def load(path: str | Path) -> Queries:
    """Read the `.sql` file at `path`, or the one next to the `.py` file at `path`."""
    file = Path(path).with_suffix(".sql")
    return parse(file.read_text("utf-8"), file.stem)


def parse(text: str, prefix: str) -> Queries:
    """Parse the text of a statement file. ValueError if a name occurs twice, or a part is missing."""
    found: dict[tuple[str, str], str] = {}
    parts: dict[str, str] = {}
    heads = list(_HEAD.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)].strip()
        sql = _without_comments(body).rstrip(";")
        if (part := head["part"]) is not None:
            if part in parts:
                raise ValueError(f"{prefix}.sql: two parts are named {part!r}")
            parts[part] = sql
            continue
        key = (head["name"], head["dialect"] or "both")
        if key in found:
            raise ValueError(f"{prefix}.sql: two statements are named {key[0]!r}")
        found[key] = sql
    if missing := {name for sql in found.values() for name in _PART.findall(sql)} - parts.keys():
        raise ValueError(f"{prefix}.sql: there is no part {min(missing)!r}")
    found = {key: _PART.sub(lambda mark: parts[mark[1]], sql) for key, sql in found.items()}
    names = dict.fromkeys(name for name, _ in found)
    return Queries(
        {
            name: (
                found.get((name, "sqlite"), found.get((name, "both"), "")),
                found.get((name, "postgres"), found.get((name, "both"), "")),
            )
            for name in names
        },
        prefix,
    )


def query_of(name: str, sqlite: str, postgres: str) -> Query:
    """Build a statement from SQL with parameters written `:name` and with marks."""
    if "[" in sqlite + postgres:
        for mark, (for_sqlite, for_postgres) in _MARKS.items():
            sqlite = re.sub(mark, for_sqlite, sqlite)
            postgres = re.sub(mark, for_postgres, postgres)
    positional, names = _for_sqlite(sqlite)
    return Query(name, positional, _for_psycopg(postgres), names=names, values=_in_order(names))


def _in_order(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return a function that takes the values of `names` out of named parameters."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: [params[name] for name in names]


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()


def _for_sqlite(sql: str) -> tuple[str, tuple[str, ...]]:
    """Replace each `:name` by `?`; return the SQL and the names in their order."""
    names: list[str] = []

    def swap(match: re.Match[str]) -> str:
        if match["name"]:
            names.append(match["name"])
            return "?"
        return match.group()

    return _SKIP_OR_PARAM.sub(swap, sql), tuple(names)


def _for_psycopg(sql: str) -> str:
    """Replace each `:name` outside strings, comments and casts by `%(name)s`; double each `%`."""

    def swap(match: re.Match[str]) -> str:
        name = match["name"]
        return f"%({name})s" if name else match.group()

    return _SKIP_OR_PARAM.sub(swap, sql.replace("%", "%%"))
