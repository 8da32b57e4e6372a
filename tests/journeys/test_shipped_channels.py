"""Channels that come with the host: the entries of their pages are applied as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cached_installs import lend_environments
from support.command_line import CommandLine

ROOT = Path(__file__).parents[2]
AGENT = """\
plugins: [{guide}]
agents:
  - {{name: help, runner: "plugin:hostler/guide/default"}}
"""


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("channels/*/hostler.yaml")))
def test_the_entry_of_its_page_is_applied_as_it_is_printed(hostler: CommandLine, name: str) -> None:
    lend_environments("channels", ROOT / "channels" / name, hostler.data)
    page = (ROOT / "docs" / "channels" / f"{name}.md").read_text("utf-8")
    entry = re.search(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert entry is not None
    whole = AGENT.format(guide=ROOT / "examples" / "guide") + entry[1]
    (hostler.cwd / "page.yaml").write_text(whole)
    misspelt = f"hostler/{name[:-2]}{name[-1]}"
    (hostler.cwd / "misspelt.yaml").write_text(
        whole.replace(f"plugin:hostler/{name}/", f"plugin:{misspelt}/")
    )
    wrong = hostler("apply", "misspelt.yaml")
    assert wrong.status != 0
    assert f"there is no plugin '{misspelt}'; did you mean 'hostler/{name}'?" in " ".join(wrong.err.split())
    done = hostler("apply", "page.yaml")
    assert done.status == 0, done.err
    assert "+ channel" in done.out
    assert f"hostler/{name}" in hostler("channels", "list", "--json").out
