"""The runner that docs/services.md builds, against a parrot on a socket."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hostler_sdk.services import FAILURES
from hostler_sdk.testing import drive
from support.services.server import Answer, Asked, ServiceServer, sse

PAGE = (Path(__file__).parents[2] / "docs" / "services.md").read_text("utf-8")


class Cage(ServiceServer):
    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != "Bearer k" or asked.path != "/say":
            return Answer(status=403)
        return Answer(self.stream(asked.json["text"].split()), content_type="text/event-stream")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        return [*[sse({"text": piece}, "piece") for piece in pieces], sse({}, "end")]


async def test_the_pages_runner_answers() -> None:
    (code,) = re.findall(r"^```python\n(# parrot\.py\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "parrot"}
    exec(compile(code, "parrot.py", "exec"), names)
    async with Cage() as cage:
        driven = await drive(names["Parrot"], "polly wants", config={"base-url": cage.base, "key": "k"})
        assert (driven.text, driven.status) == ("pollywants", "completed")
        driven = await drive(names["Parrot"], "polly", config={"base-url": cage.base, "key": "x"})
        assert (driven.code, driven.error) == ("parrot.auth_error", "Parrot answered 403; check config `key`")


def test_each_failure_is_on_the_page() -> None:
    assert [what for what in FAILURES if f"| `{what}` |" not in PAGE] == []
