"""Leave fields out of what a platform sends that neither events nor results may carry: tokens by which others
could write, and addresses of files, which expire or need the bot's token.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any


def without_fields(value: Any, patterns: Collection[str]) -> Any:
    """Return JSON without the fields that a pattern names.

    A pattern is the end of a field's path, like `files/url_*`: names, with `*` for any characters, joined by
    slashes. What is in a list has the path of the list.
    """
    return _without(value, "", _matcher(tuple(patterns))) if patterns else value


@cache
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    ends = (re.escape(one).replace(r"\*", "[^/]*") for one in patterns)
    return re.compile(rf"(?:.*/)?(?:{'|'.join(ends)})", re.DOTALL)


def _without(value: Any, path: str, matcher: re.Pattern[str]) -> Any:
    if isinstance(value, list | tuple):
        return [_without(one, path, matcher) for one in value]
    if not isinstance(value, dict):
        return value
    paths = {name: f"{path}/{name}" for name in value}
    return {
        name: _without(one, paths[name], matcher)
        for name, one in value.items()
        if not matcher.fullmatch(paths[name])
    }
