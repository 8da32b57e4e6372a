"""Read untrusted YAML: a plugin's manifest, a skill's front matter."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 64
"""Nesting of lists and mappings. The time to parse grows with the square of the depth."""


def read_foreign_yaml(data: bytes | str) -> Any:
    """Return the value of a YAML text. Aliases are refused, since they could expand beyond any memory.

    ValueError names the mistake, and the line if it is known.
    """
    import yaml  # noqa: PLC0415  not needed by a host without plugins and skills

    # the C loader is ten times faster, but recurses without a bound: the depth is checked before it builds
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(data, Loader=loader):
            depth += isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent))
            depth -= isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent))
            line = 0 if event.start_mark is None else event.start_mark.line + 1
            if depth > MAX_DEPTH:
                raise ValueError(f"line {line}: it is nested over {MAX_DEPTH} levels deep")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"line {line}: it has an alias (*{event.anchor}): write the value out")
        return yaml.load(data, Loader=loader)  # noqa: S506  a safe one
    except yaml.YAMLError as error:
        raise ValueError(_words(error)) from error


def _words(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', error)}"
