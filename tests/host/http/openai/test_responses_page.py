"""The blocks of docs/clients/openai-responses.md, in their order, against a host with the shop's clerk."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from pathlib import Path

import pytest

from hostler.host.config import ConfigFile
from support.command_line import EXAMPLES
from support.http_host import ADMIN_KEY, serving
from support.trust import trusted

PAGE = Path(__file__).parents[4] / "docs" / "clients" / "openai-responses.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(code: str) -> str:
    """Run a program; what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    return out.getvalue()


@pytest.mark.timeout(300)
async def test_every_block_of_the_page_works(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == 5
    async with serving(tmp_path / "data", agent=False) as served:
        await served.host.apply(ConfigFile(plugins=[trusted(EXAMPLES / "shop")]), actor="test")
        agent = {
            "name": "shop-clerk",
            "runner": "plugin:acme/shop/default",
            "resource_policy": {"allowed_tool_names": ["shop.*"]},
        }
        assert (await served.client.put("/v1/agents/shop-clerk", json=agent)).is_success
        code = (
            "\n".join(blocks).replace("http://127.0.0.1:8420", served.url).replace('"KEY"', repr(ADMIN_KEY))
        )
        said = await asyncio.to_thread(run, code + "\nclient.close()\n")
    for expected in (
        "completed",
        "shop.prices",
        "user",
        "response.completed",
        'weather: "sunny"',
        "shop refund",
    ):
        assert expected in said, said
