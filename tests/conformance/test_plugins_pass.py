"""The conformance suite passes for plugins that keep the rules, with and without the SDK."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hostler_sdk.conformance import CHECKS, check_plugin
from support.child_plugins import EXAMPLES, SERVE, environment
from support.ready_candidates import check_folder

PIGEON = Path(__file__).parents[1] / "support" / "plugins" / "pigeon"
TOOLBOX = Path(__file__).parents[1] / "support" / "plugins" / "toolbox"


@pytest.mark.parametrize(
    ("example", "command"),
    [("echo", SERVE), ("guide", None), ("wire", [sys.executable, "wire.py"])],
)
async def test_the_examples_conform(example: str, command: list[str] | None) -> None:
    """Each start of a command is a new interpreter; of the others only the first one is."""
    folder, given = EXAMPLES / example, environment()
    results = await (check_folder(folder, given) if command is None else check_plugin(command, folder, given))
    assert [result for result in results if not result.ok] == []
    assert [result.name for result in results] == list(CHECKS)
    assert {result.name for result in results if result.left_out} == {
        name for name in CHECKS if name.startswith(("tool", "channel"))
    }


async def test_tools_without_a_runner_conform() -> None:
    results = await check_folder(TOOLBOX, environment(TOOLBOX_FOLDER="nowhere"))
    assert [result for result in results if not result.ok] == []
    said = {result.name: result.detail for result in results}
    assert said["tool_calls"] == "32 calls of echo"
    assert said["tool_lookup"] == "keep"
    assert said["run_ends"] == "it offers tools and no runner"
    left_out = {result.name for result in results if result.left_out}
    assert {"run_ends", "cancel", "shutdown_drains"} <= left_out
    assert not left_out & {name for name in CHECKS if name.startswith("tool")}


async def test_a_channel_alone_conforms() -> None:
    results = await check_folder(EXAMPLES / "shout", environment())
    assert [result for result in results if not result.ok] == []
    said = {result.name: result.detail for result in results}
    assert said["channel_open"].startswith("shout: failed (UnreachableError: "), "it says why"
    assert said["channel_send"] == "shout: runtime_error, to be tried again"
    assert not {result.name for result in results if result.left_out} & {
        name for name in CHECKS if name.startswith("channel")
    }


async def test_an_adapter_of_sixty_lines_for_an_invented_platform_conforms() -> None:
    """It was written from docs/write-a-channel.md alone."""
    assert len((PIGEON / "pigeon.py").read_text().splitlines()) <= 60
    results = await check_folder(PIGEON, environment())
    assert [result for result in results if not result.ok] == []
    assert {result.name for result in results if not result.left_out} >= {
        name for name in CHECKS if name.startswith("channel")
    }


def test_the_page_about_channels_shows_the_example() -> None:
    page = (EXAMPLES.parent / "docs" / "write-a-channel.md").read_text()
    for name in ("shout.py", "hostler.yaml"):
        assert f"# {name}\n{(EXAMPLES / 'shout' / name).read_text()}```" in page


async def test_the_shop_conforms(tmp_path: Path) -> None:
    shop = environment(SHOP_FILE=str(tmp_path / "shop.sqlite3"))
    results = await check_folder(EXAMPLES / "shop", shop)
    assert [result for result in results if not result.ok] == []
    assert {result.name: result.detail for result in results}["tool_lookup"] == "pay"


async def test_a_plugin_that_cannot_start_is_told_by_its_own_words(tmp_path: object) -> None:
    results = await check_plugin([*SERVE, "--runner", "gone.py:Told"], EXAMPLES, environment())
    assert [result.name for result in results if not result.ok] == ["initialize"]
    assert "hostler-plugin-error: there is no file gone.py" in results[-1].detail


async def test_a_command_that_is_not_there_is_named() -> None:
    results = await check_plugin(["/no/such/command"], EXAMPLES, environment())
    assert not results[-1].ok
    assert "the command '/no/such/command' cannot be started" in results[-1].detail
