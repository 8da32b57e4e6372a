"""Findings are sentences. Two are of one kind if they differ only in names, numbers and quoted content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_DATA = re.compile(r"\{.*\}|\[.*\]|\(.*\)|'[^']*'|\"[^\"]*\"", re.DOTALL)
_NAMES = re.compile(
    r"\b(?:[0-9a-f]{16,}|[0-9a-f]{8}-[0-9a-f-]{27}|[a-z]+_[0-9A-Za-z]{10,}|[a-z]{0,2}\d[\w.:-]*)\b"
)


def kind_of(finding: str) -> str:
    """Return a finding without what names one life."""
    first_line = finding.split("\n", 1)[0]
    return " ".join(_NAMES.sub("…", _DATA.sub("…", first_line)).split())


def kinds_of(findings: Iterable[str]) -> Counter[str]:
    """Count findings by kind."""
    return Counter(kind_of(finding) for finding in findings)
