"""Folders that an MCP server must not get: those of the host, of plugins, of the system, and homes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import hostler
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, Settings
from hostler.host.host import Host
from hostler.host.server_folders import misused_folders
from hostler_protocol.errors import InvalidArgumentError
from support.http_host import serving

pytestmark = pytest.mark.gate("mcp-folders")
DATA, CODE = Path("/srv/host/data"), {"the code of the plugin acme/echo": Path("/srv/plugins/echo")}
HOST = str(Path(hostler.__file__).parent)
EVERY = ("read", "write", "cwd")


def server(**folders: Any) -> ToolEntry:
    return ToolEntry(mcp=McpEntry(name="a", command=["server"], **folders))


def told(field: str, path: str) -> str | None:
    entry = server(**{field: path if field == "cwd" else [path]})
    found = list(misused_folders([entry], CODE, DATA))
    assert len(found) <= 1
    if not found:
        return None
    ((owner, mistake),) = found
    assert owner is entry
    assert mistake.place == ("mcp.cwd" if field == "cwd" else f"mcp.{field}[0]")
    return mistake.text


@pytest.mark.parametrize("field", EVERY)
@pytest.mark.parametrize(
    "path",
    ["/srv/host/data", "/srv/host", "/srv", "/srv/host/data/mcp/a", "/srv/x/../host/data/plugins"],
)
def test_the_data_of_the_host_is_nobodys(field: str, path: str) -> None:
    assert "the host's data" in (told(field, path) or "")


@pytest.mark.parametrize("field", EVERY)
@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self/root", "/dev", "/dev/shm", "/sys/fs"])
def test_the_system_is_nobodys(field: str, path: str) -> None:
    assert "is the system's" in (told(field, path) or "")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/etc", "is the system's"),
        ("/usr/local/bin", "is the system's"),
        ("~", "holds your home"),
        (
            str(Path("~").expanduser().parent),
            "is the system's" if len(Path.home().parts) < 3 else "your home",
        ),
        ("/srv/plugins/echo", "the plugin acme/echo"),
        ("/srv/plugins", "the plugin acme/echo"),
        ("/srv/plugins/echo/lib", "the plugin acme/echo"),
        (HOST, "the host's code"),
        (sys.prefix, "the host's Python"),
        (f"{sys.prefix}/lib", "the host's Python"),
    ],
)
def test_what_is_executed_elsewhere_is_not_written(path: str, what: str) -> None:
    assert what in (told("write", path) or "")


@pytest.mark.parametrize("path", ["/etc", "/usr/share/doc", "~", "/srv/plugins", HOST, sys.prefix])
def test_it_may_be_read(path: str) -> None:
    assert told("read", path) is told("cwd", path) is None


def test_a_folder_of_files_may_be_written(tmp_path: Path) -> None:
    for path in ("/srv/docs", "/srv/hosted", "/srv/plugins2", "~/docs", str(tmp_path)):
        assert told("write", path) is None


@pytest.mark.parametrize(
    "path", ["/srv/conf", "/srv/conf/hostler.yaml", "/srv/skills", "/srv/skills/refunds", "/srv/all"]
)
def test_what_the_host_and_its_agents_go_by_is_not_written(path: str) -> None:
    followed = [
        ("the host's configuration file", Path("/srv/conf/hostler.yaml")),
        ("a folder of skills", Path("/srv/skills")),
        ("a folder of skills", Path("/srv/all/skills")),
    ]
    ((_, mistake),) = misused_folders([server(write=[path])], {}, None, followed)
    assert mistake.place == "mcp.write[0]"
    assert "go by" in mistake.text
    assert list(misused_folders([server(read=[path], cwd=path)], {}, None, followed)) == []
    assert list(misused_folders([server(write=["/srv/conf2", "/srv/skills2"])], {}, None, followed)) == []


def test_links_are_seen_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert "is the system's" in (told("read", str(tmp_path / "link")) or "")
    (tmp_path / "data").symlink_to(DATA)
    linked = list(misused_folders([server(read=[str(DATA)])], {}, tmp_path / "data"))
    assert len(linked) == 1


def test_others_have_no_folders() -> None:
    trusted = server(cwd="/srv/host/data", level="trusted")
    assert list(misused_folders([trusted, ToolEntry(fetch=FetchEntry()), ToolEntry()], CODE, DATA)) == []


async def test_they_are_refused_when_configured_and_not_served_when_stored(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        code = tmp_path / "plugins" / "echo"
        code.mkdir(parents=True)
        (code / "hostler.yaml").write_text(
            "plugin: {author: acme, name: echo, version: 1.0.0, label: {en: Echo}}\n"
            'runners: [{name: default, entry: "main:Echo"}]\n'
        )
        (code / "main.py").write_text("from hostler_sdk import Runner\nclass Echo(Runner): ...\n")
        (tmp_path / "files").mkdir()

        async def put(write: str, name: str = "s", **more: Any) -> Any:
            entry = {"mcp": {"name": name, "command": ["cat"], "write": [str(tmp_path / write)]}}
            return await served.client.post("/v1/config", json={"tools": [entry], **more})

        for write in ("data", "data/mcp", "."):
            refused = await put(write)
            assert refused.status_code == 400
            assert "the host's data" in refused.json()["detail"]
        together = await put("plugins", plugins=[str(code)])
        assert together.status_code == 400
        assert "the code of the plugin acme/echo" in together.json()["detail"]

        assert (await put("plugins")).status_code == 200  # there is no plugin yet
        assert (await put("files", "other")).status_code == 200
        added = await served.client.post("/v1/config", json={"plugins": [str(code)]})
        assert added.status_code == 200
        assert "the code of the plugin acme/echo" in added.text
        servers = (await served.client.get("/v1/mcp-servers")).json()["items"]
        assert [one["name"] for one in servers] == ["other"]


@pytest.mark.parametrize("which", ["skills first", "server first", "at once"])
async def test_folders_of_skills_are_not_written(tmp_path: Path, which: str) -> None:
    skill = tmp_path / "skills" / "refunds"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: refunds\ndescription: How to refund.\n---\nAsk first.\n")
    tools = {"tools": [{"mcp": {"name": "s", "command": ["cat"], "write": [str(tmp_path / "skills")]}}]}
    skills = {"skills": [str(tmp_path / "skills")]}
    async with serving(tmp_path / "data", agent=False) as served:
        if which == "at once":
            refused = await served.client.post("/v1/config", json={**tools, **skills})
        else:
            first, second = (skills, tools) if which == "skills first" else (tools, skills)
            assert (await served.client.post("/v1/config", json=first)).status_code == 200
            refused = await served.client.post("/v1/config", json=second)
        assert "a folder of skills" in refused.text
        if which == "server first":  # the stored server is not served any more
            assert refused.status_code == 200
            assert (await served.client.get("/v1/mcp-servers")).json()["items"] == []
        else:
            assert refused.status_code == 400


async def test_the_configuration_file_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "hostler.yaml"
    file.write_text("agents: []\n")
    tools = [{"mcp": {"name": "s", "command": ["cat"], "write": [str(file.parent)]}}]
    settings = Settings(data_dir=tmp_path / "data", config=file)
    async with Host.open(settings) as host:
        with pytest.raises(InvalidArgumentError, match="the host's configuration file"):
            await host.apply(convert({"tools": tools}, ConfigFile, "test"), actor="test")
