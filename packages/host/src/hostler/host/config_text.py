"""Parse the text of a configuration file, and find the lines of its values.

No message shows a value: a secret without quotes may be parsed as something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hostler.domain.config_mistakes import MAX_MISTAKES, Mistake, key_place
from hostler.domain.record import Record
from hostler_protocol.errors import InvalidArgumentError

_NO_ALIAS = "what begins with * is an alias, and there is none of this name; put a text in quotes"
_NO_TAG = "what begins with ! is a tag, and there is none of this name; put a text in quotes"
_UNQUOTED: Mapping[str, str] = {
    "found undefined alias": _NO_ALIAS,
    "found undefined tag handle": _NO_TAG,
    "could not determine a constructor": _NO_TAG,
}
"""Start of a parser message that quotes the text -> the message shown instead."""


def load_text(text: str, name: str) -> Any:
    """Parse a text: TOML if `name` ends in `.toml`, else YAML. InvalidArgumentError if it is invalid.

    Each parser is imported at its first use.
    """
    if name.endswith(".toml"):
        import tomllib  # noqa: PLC0415

        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"{name}: {error}") from error
    import yaml  # noqa: PLC0415

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidArgumentError(f"{name}: {_syntax(error)}") from error
    except ValueError:
        at = next(_unreadable_values(text), "")
        text = "this is not a valid value of the type that it looks like: put it in quotes if it is a text"
        raise InvalidArgumentError(f"{name}: {at}{text}") from None


def _syntax(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return str(error)
    text = str(problem)
    if "python/" not in text:
        text = next((plain for start, plain in _UNQUOTED.items() if text.startswith(start)), text)
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}"


def _unreadable_values(text: str) -> Iterator[str]:
    """Yield the positions of scalars that cannot be converted."""
    import yaml  # noqa: PLC0415

    waiting, seen = [yaml.compose(text, Loader=yaml.SafeLoader)], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting += [one for pair in node.value for one in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.ScalarNode):
            try:
                yaml.SafeLoader("").construct_object(node)
            except (ValueError, yaml.YAMLError):
                yield f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}: "


class YamlMarks(Record):
    """Positions in a YAML text. `lines`: place -> line, from 1; `twice`: keys that a mapping has twice."""

    lines: Mapping[str, int]
    twice: Sequence[Mistake]


def yaml_marks(text: str) -> YamlMarks:
    """Find the lines and duplicate keys of a YAML text. The parser accepts duplicates silently."""
    import yaml  # noqa: PLC0415  only where a file is read

    lines: dict[str, int] = {}
    twice: list[Mistake] = []
    seen: set[int] = set()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    waiting: list[tuple[str, Any]] = [] if root is None else [("", root)]
    while waiting:
        place, node = waiting.pop()
        if id(node) in seen:  # an alias: the place of its anchor counts
            continue
        seen.add(id(node))
        inner: list[tuple[str, Any, Any]] = []
        if isinstance(node, yaml.MappingNode):
            inner = [(key_place(place, key.value), key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inner = [(f"{place}[{number}]", one, one) for number, one in enumerate(node.value)]
        own: dict[str, int] = {}
        for below, start, value in inner:
            line = start.start_mark.line + 1
            if below in own:
                twice.append(
                    Mistake(below, f"this key is used twice: in line {own[below]} and in line {line}")
                )
            lines[below] = own[below] = line
            waiting.append((below, value))
    return YamlMarks(lines, twice[:MAX_MISTAKES])
