"""Read YAML with the types of JSON: no dates, `on` is not true, no merge keys; of bounded depth.

The C loader of the YAML library recurses, and a document that is too deep would end the process. So the
document is first scanned without building values.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,1000}")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def read_yaml(data: bytes, max_depth: int, max_events: int) -> Any:
    """Return the value of a YAML text. ValueError, one sentence, if it is invalid, too deep or too large."""
    import yaml  # noqa: PLC0415  only where a document is YAML

    loader = _loader()
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(data, Loader=loader)):
            depth += isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent))
            depth -= isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent))
            if depth > max_depth:
                raise ValueError(f"it is nested over {max_depth} levels deep")
            if count > max_events:
                raise ValueError(f"it has over {max_events:,} values")
        return yaml.load(data, Loader=loader)  # noqa: S506  a loader of plain values only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise ValueError(f"it is no YAML{where}") from None
    except (UnicodeDecodeError, RecursionError):
        raise ValueError("it is no YAML") from None


@cache
def _loader() -> Any:
    import yaml  # noqa: PLC0415  see above

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("PlainLoader", (base,), {"yaml_implicit_resolvers": {}})
    for word, pattern, first in (
        ("bool", _BOOLEAN, "tTfF"),
        ("int", _INTEGER, "-+0123456789"),
        ("float", _NUMBER, "-+.0123456789"),
        ("null", _NULL, ["~", "n", "N", ""]),
    ):
        whole = re.compile(rf"(?:{pattern.pattern})\Z")
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{word}", whole, list(first))
    loader.add_constructor("tag:yaml.org,2002:int", lambda self, node: int(self.construct_scalar(node)))
    loader.add_constructor("tag:yaml.org,2002:float", lambda self, node: float(self.construct_scalar(node)))
    for word in ("timestamp", "binary", "set", "omap", "pairs", "merge"):
        loader.yaml_constructors.pop(f"tag:yaml.org,2002:{word}", None)
    return loader
