"""`files`: what models do with the files of a working folder, once however often they ask."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.tool_entries import FilesEntry, ToolEntry
from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.tools.builtin.edit import MAX_NOTES
from hostler.tools.builtin.files import MAX_ENTRIES, FilesTools
from hostler.tools.builtin.search import MAX_MATCHES
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import OfferedTool
from hostler.tools.schema import ToolSchema
from hostler.tools.workspaces.folders import WorkingFolder, WorkingFolders
from hostler_protocol.errors import to_fault
from support.working import MemoryArtifacts, invocation

pytestmark = pytest.mark.gate("working-folders")

OWNER = FolderOwner(kind="conversation", workspace_id="w", agent_id="agent", conversation_id="c")
ALL = ["list", "read", "search", "keep", "write", "edit", "remove", "load"]


@dataclass
class Bench:
    """The tools of one entry, and the folder that they work in."""

    tools: FilesTools
    folder: WorkingFolder

    def tool(self, name: str) -> OfferedTool:
        return self.tools.offered("w")[f"files:files.{name}"]

    async def call(self, name: str, *, call: dict[str, Any] | None = None, **parameters: Any) -> Any:
        tool = self.tool(name)
        ToolSchema(tool.parameters).check_arguments(name, parameters)
        return await self.tools.call(invocation(tool, parameters, **(call or {})))

    async def refused(self, name: str, **parameters: Any) -> tuple[str, str]:
        """The code and the text of the tool's own error."""
        with pytest.raises(ToolFailedError) as caught:
            await self.call(name, **parameters)
        fault = to_fault(caught.value)
        return fault.code, fault.message

    def file(self, path: str) -> Path:
        return self.folder.path / path


@contextlib.asynccontextmanager
async def bench(data: Path, settings: WorkingFolderSettings | None = None) -> AsyncIterator[Bench]:
    folders = WorkingFolders(data, settings)
    tools = FilesTools(folders)
    await tools.configure([ToolEntry(files=FilesEntry())])
    async with folders.use(OWNER) as folder:
        yield Bench(tools, folder)
    folders.close()


async def test_files_are_written_read_listed_found_edited_and_removed(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        told = await made.call("write", path="notes/a.txt", text="one\ntwo\nthree\n")
        assert told == {"path": "notes/a.txt", "size_bytes": 14, "created": True}
        assert (await made.call("write", path="b.bin", base64="AP8="))["size_bytes"] == 2
        assert (await made.call("write", path="b.bin", base64="AP8="))["created"] is False
        told = await made.call("read", path="notes/a.txt", first_line=2, lines=1)
        assert told == {"path": "notes/a.txt", "first_line": 2, "lines": 1, "text": "two\n", "more": True}
        assert (await made.call("read", path="notes/a.txt"))["text"] == "one\ntwo\nthree\n"
        told = await made.call("read", path="b.bin", encoding="base64", offset=1)
        assert (base64.b64decode(told["base64"]), told["size_bytes"]) == (b"\xff", 2)
        told = await made.call("list", depth=2)
        assert [(one["path"], one["type"]) for one in told["entries"]] == [
            ("b.bin", "file"),
            ("notes", "folder"),
            ("notes/a.txt", "file"),
        ]
        told = await made.call("search", text="TWO", ignore_case=True, pattern="*.txt")
        assert told == {"matches": [{"path": "notes/a.txt", "line": 2, "text": "two"}]}
        told = await made.call("edit", path="notes/a.txt", old="two", new="2")
        assert told == {"path": "notes/a.txt", "replaced": 1}
        assert made.file("notes/a.txt").read_text() == "one\n2\nthree\n"
        assert await made.call("remove", path="b.bin") == {"path": "b.bin", "was_there": True}
        assert await made.call("remove", path="b.bin") == {"path": "b.bin", "was_there": False}
        assert (await made.refused("remove", path="notes"))[0] == "conflict"
        await made.call("remove", path="notes", recursive=True)
        assert await made.call("list") == {"entries": []}


async def test_artifacts_come_in_and_files_go_out(tmp_path: Path) -> None:
    artifacts = MemoryArtifacts(given={"a": b"x" * 5000})
    async with bench(tmp_path) as made:
        given = {"artifacts": artifacts}
        told = await made.call("load", artifact_id="a", path="in/a.csv", call=given)
        assert told == {"path": "in/a.csv", "size_bytes": 5000}
        told = await made.call("keep", path="in/a.csv", call=given)
        assert (told["mime_type"], told["size_bytes"]) == ("text/csv", 5000)
        assert artifacts.made[told["artifact_id"]] == b"x" * 5000
        code, text = await made.refused("load", artifact_id="none", path="b")
        assert (code, "no artifact" in text) == ("not_found", True)
        assert (await made.refused("keep", path="none"))[1].startswith("there is no 'none'")
        assert not made.file("b").exists()


async def test_an_edit_is_made_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.file("f").write_text("a a\n")
        edit: dict[str, Any] = {"path": "f", "old": "a", "new": "aa", "all": True}
        first = await made.call("edit", **edit)
        assert await made.call("edit", **edit) == first == {"path": "f", "replaced": 2}
        assert made.file("f").read_text() == "aa aa\n"
        await made.call("edit", **edit, call={"effect_key": "another"})
        assert made.file("f").read_text() == "aaaa aaaa\n"
        # a crash between the note and the file: the file is as it was before
        made.file("f").write_text("aa aa\n")
        await made.call("edit", **edit, call={"effect_key": "another"})
        assert made.file("f").read_text() == "aaaa aaaa\n"
        made.file("f").write_text("somebody else")
        code, text = await made.refused("edit", **edit)
        assert (code, "changed since" in text) == ("conflict", True)


async def test_only_the_last_edits_are_remembered(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        for number in range(MAX_NOTES + 3):
            made.file("f").write_text("a")
            await made.call("edit", path="f", old="a", new="b", call={"effect_key": f"key{number}"})
        assert len(list(made.folder.notes.iterdir())) == MAX_NOTES


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a path that leads out": ("read", {"path": "../x"}, "invalid_argument", "upwards"),
    "an absolute path": ("write", {"path": "/etc/x", "text": ""}, "invalid_argument", "absolute"),
    "a path with NUL": ("read", {"path": "a\x00b"}, "invalid_argument", "NUL"),
    "a name too long": ("write", {"path": "x" * 300, "text": ""}, "invalid_argument", "300 bytes"),
    "what is not there": ("read", {"path": "none"}, "not_found", "none"),
    "a link": ("read", {"path": "link"}, "invalid_argument", "link"),
    "a link on the way": ("write", {"path": "way/x", "text": ""}, "invalid_argument", "link"),
    "a FIFO": ("read", {"path": "fifo"}, "invalid_argument", "FIFO"),
    "a folder": ("read", {"path": "folder"}, "invalid_argument", "folder"),
    "a file as a folder": ("list", {"path": "raw"}, "invalid_argument", "not a folder"),
    "no text": ("read", {"path": "raw"}, "invalid_argument", "base64"),
    "both": ("write", {"path": "x", "text": "", "base64": ""}, "invalid_argument", "either"),
    "neither": ("write", {"path": "x"}, "invalid_argument", "either"),
    "no base64": ("write", {"path": "x", "base64": "???"}, "invalid_argument", "base64"),
    "what is nowhere": (
        "edit",
        {"path": "twice", "old": "z", "new": ""},
        "invalid_argument",
        "old",
    ),
    "what stands twice": (
        "edit",
        {"path": "twice", "old": "a", "new": ""},
        "invalid_argument",
        "2 times",
    ),
    "the folder itself": ("remove", {"path": ".", "recursive": True}, "invalid_argument", "itself"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_mistake_is_told_as_the_tools_own_error(tmp_path: Path, case: str) -> None:
    name, parameters, code, words = REFUSED[case]

    async with bench(tmp_path / "folders") as made:
        made.file("folder").mkdir()
        made.file("link").symlink_to("/etc/hostname")
        made.file("way").symlink_to(tmp_path)
        os.mkfifo(made.file("fifo"))
        made.file("raw").write_bytes(b"\xff\xfe\x00")
        made.file("twice").write_text("a b a")
        found, text = await made.refused(name, **parameters)
        assert found == code
        assert words in text
        assert not (tmp_path / "x").exists()


async def test_what_would_be_too_much_is_cut_and_said_to_be(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        for number in range(MAX_ENTRIES + 1):
            made.file(f"f{number:04}").write_text("x\n")
        told = await made.call("list")
        assert (len(told["entries"]), told["more"]) == (MAX_ENTRIES, True)
        told = await made.call("search", text="x")
        assert (len(told["matches"]), told["more"]) == (MAX_MATCHES, True)
        made.file("long").write_text("ä" * 200_000)
        told = await made.call("read", path="long")
        assert told["more"] is True
        assert 60_000 < len(told["text"]) <= 131_072
        assert set(told["text"]) == {"ä"}
        made.file("lines").write_text("0123456789\n" * 50_000)
        told = await made.call("read", path="lines", first_line=40_000)
        assert told["lines"] == 2_000
        made.file("huge").write_bytes(b"x" * 9_000_000)
        assert (await made.call("search", text="x", pattern="huge"))["too_large"] == ["huge"]


async def test_a_folder_takes_no_more_than_it_may_hold(tmp_path: Path) -> None:
    async with bench(tmp_path, WorkingFolderSettings(disk_mib=1, max_files=2)) as made:
        await made.call("write", path="a", text="x" * 50_000)
        made.file("b").write_bytes(b"x" * 990_000)
        asked: dict[str, dict[str, Any]] = {
            "write": {"path": "a2", "text": "x" * 50_000},
            "edit": {"path": "a", "old": "x", "new": "yyyy", "all": True},
        }
        for name, parameters in asked.items():
            code, text = await made.refused(name, **parameters)
            assert (code, "1,048,576" in text) == ("payload_too_large", True)
        given = {"artifacts": MemoryArtifacts(given={"a": b"x" * 50_000})}
        with pytest.raises(ToolFailedError, match="remove what"):
            await made.call("load", artifact_id="a", path="c", call=given)
        assert sorted(path.name for path in made.folder.path.iterdir()) == ["a", "b"]
        made.file("b").unlink()
        await made.call("write", path="b", text="x")


async def test_who_may_only_read_is_offered_nothing_else(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        offered = made.tools.offered("w").values()
        assert [tool.name for tool in offered] == [f"files.{name}" for name in ALL]
        write = made.tool("write")
        entry = FilesEntry(name="docs", read_only=True, approval="required")
        await made.tools.configure([ToolEntry(files=entry)])
        offered = made.tools.offered("w").values()
        assert [tool.name for tool in offered] == [f"docs.{name}" for name in ALL[:4]]
        assert {tool.pin.effect for tool in offered} == {"pure"}
        assert {tool.resource.approval for tool in offered} == {"never"}
        with pytest.raises(ToolChangedError):
            await made.tools.call(invocation(write, {"path": "x", "text": ""}))
        await made.tools.configure([ToolEntry(files=FilesEntry(approval="required"))])
        approvals = {tool.name: tool.resource.approval for tool in made.tools.offered("w").values()}
        assert [name for name, said in approvals.items() if said == "required"] == [
            f"files.{name}" for name in ALL[4:]
        ]
