"""Add entries to the text of a configuration file. What is written there stays, with its comments."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.host.config_text import load_text
from hostler_protocol.errors import InvalidArgumentError

if TYPE_CHECKING:
    import yaml

Added = Mapping[str, Sequence[Mapping[str, Any]]]
"""Section -> the entries to add to its end."""
_WIDTH = 100
_BY_HAND = "add them to another file (--output), and copy them by hand"


def with_entries(text: str, added: Added, *, name: str) -> str:
    """Return a configuration in YAML with further entries. `name` appears in errors.

    InvalidArgumentError if the text cannot be extended without writing the rest of it anew.
    """
    import yaml  # noqa: PLC0415  only where a file is written

    if not any(added.values()):
        return text
    if name.endswith(".toml"):
        raise InvalidArgumentError(f"{name}: entries are added to YAML only; {_BY_HAND}")
    before = load_text(text, name)
    if before is None:
        before = {}
    if not isinstance(before, dict):
        raise InvalidArgumentError(f"{name} is no configuration: expected a mapping")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    pieces, new = _pieces(root, whole, added)
    found = whole + new
    for at, until, piece in sorted(pieces, reverse=True):
        found = found[:at] + piece + found[until:]
    expected = dict(before)
    for section, entries in added.items():
        expected[section] = [*(before.get(section) or []), *entries]
    if _loaded(found, name) != expected:
        raise InvalidArgumentError(f"{name}: its style does not allow to add entries; {_BY_HAND}")
    return found


def _loaded(text: str, name: str) -> Any:
    try:
        return load_text(text, name)
    except InvalidArgumentError:
        return None


def _pieces(root: yaml.Node | None, text: str, added: Added) -> tuple[list[tuple[int, int, str]], str]:
    """Return (begin, end, text in its place) for each section that there is, and the text of new ones."""
    import yaml  # noqa: PLC0415  as above

    nodes = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    pieces: list[tuple[int, int, str]] = []
    new: list[str] = []
    for section, entries in added.items():
        node = nodes.get(section)
        if node is None:
            new.append(f"{section}:\n{_dumped(entries, 2)}")
        elif isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
            at = _end_of_line(text, _last(node).end_mark.index)
            pieces.append((at, at, _dumped(entries, node.start_mark.column)))
        else:  # empty, or in brackets: written as a block
            inner = [*_values(node, text), *entries]
            begin, end = node.start_mark.index, node.end_mark.index
            pieces.append((begin, end, "\n" + _dumped(inner, 2).rstrip("\n")))
    between = "\n" if new and text.strip() else ""
    return pieces, between + "\n".join(new)


def _last(node: yaml.Node) -> yaml.Node:
    """Return the last leaf of a node. The end of a block is only known by it."""
    import yaml  # noqa: PLC0415  as above

    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node


def _end_of_line(text: str, at: int) -> int:
    """Return where the next line begins, or `at` if a line begins there."""
    if at == 0 or text[at - 1] == "\n":
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _values(node: yaml.Node, text: str) -> list[Any]:
    found = load_text(text[node.start_mark.index : node.end_mark.index], "the section")
    return found if isinstance(found, list) else []


def _dumped(entries: Sequence[Any], indent: int) -> str:
    import yaml  # noqa: PLC0415  as above

    class Plain(yaml.SafeDumper):
        """Writes every value out."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    found = ""
    for unescaped in (True, False):  # some line ends of Unicode are only read back if they are escaped
        written = yaml.dump(
            list(entries), Dumper=Plain, sort_keys=False, allow_unicode=unescaped, width=_WIDTH
        )
        found = textwrap.indent(written, " " * indent)
        if _loaded(found, "") == list(entries):
            break
    return found
