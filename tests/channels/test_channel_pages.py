"""The page of each shipped channel, and its folder."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
import yaml

from hostler_sdk.channels import ChannelEvent, ChannelMessage, ChannelTarget, Chat, Person
from hostler_sdk.channels.channel import channel_manifest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "channels").glob("*/hostler.yaml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_page_has_each_setting_and_action(folder: Path) -> None:
    stated = yaml.safe_load((folder / "hostler.yaml").read_text("utf-8"))["channels"]
    text = (ROOT / "docs" / "channels" / f"{folder.name}.md").read_text("utf-8")
    settings = text.split("## Settings", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `([^`]+)` \|", settings, re.MULTILINE)
    for number, one in enumerate(stated):
        module, _, name = one["entry"].partition(":")
        manifest = channel_manifest(getattr(import_module(module), name), one["name"])
        items = [item.name for item in manifest.config_schema]
        assert f"plugin:hostler/{folder.name}/{one['name']}" in text
        assert told == items if number == 0 else set(items) <= set(told)
        assert [action for action in manifest.actions if f"`{action}`" not in text] == []
        assert [item.name for item in manifest.config_schema if not item.label] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_channel_is_listed_and_tells_its_files(folder: Path) -> None:
    assert f"docs/channels/{folder.name}.md" in (ROOT / "README.md").read_text("utf-8")
    told = set(re.findall(r"`(?:\w+/)?(\w+\.py)`", (folder / "README.md").read_text("utf-8")))
    assert told == {path.name for path in folder.glob("*/*.py")} - {"__init__.py"}


@pytest.mark.parametrize("kind", [ChannelEvent, Chat, Person, ChannelTarget, ChannelMessage])
def test_the_page_for_authors_has_each_field(kind: type[msgspec.Struct]) -> None:
    page = (ROOT / "docs" / "write-a-channel.md").read_text("utf-8")
    table = page.split(f"\n| `{kind.__name__}` | |\n", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(kind.__struct_fields__)
