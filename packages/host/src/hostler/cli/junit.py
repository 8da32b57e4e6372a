"""JUnit reports for CI systems."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hostler.domain.record import Record

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


class JunitCase(Record):
    """One test case. If `outcome` is not passed, `title` and `text` describe it."""

    group: str
    name: str
    seconds: float
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    title: str = ""
    text: str = ""


def write_junit(path: Path, suite: str, cases: Sequence[JunitCase]) -> None:
    """Write a report with one suite."""
    counted = {
        kind: str(sum(case.outcome == kind for case in cases)) for kind in ("failure", "error", "skipped")
    }
    numbers = {
        "tests": str(len(cases)),
        "failures": counted["failure"],
        "errors": counted["error"],
        "skipped": counted["skipped"],
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": suite, **numbers})
    element = ET.SubElement(root, "testsuite", {"name": suite, **numbers})
    for case in cases:
        name = {"classname": _clean(case.group), "name": _clean(case.name), "time": f"{case.seconds:.3f}"}
        node = ET.SubElement(element, "testcase", name)
        if case.outcome != "passed":
            ET.SubElement(node, case.outcome, {"message": _clean(case.title)}).text = _clean(case.text)
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
