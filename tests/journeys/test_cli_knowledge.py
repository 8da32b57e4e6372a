"""`hostler knowledge` as real commands: the page of the documentation as printed, and what goes wrong."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest

from support.command_line import BOUND_SECONDS, HOSTLER, CommandLine, environment
from support.shell import run_line, shell_functions

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other
PAGE = Path(__file__).parents[2] / "docs" / "knowledge.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_documentation_work_as_printed(hostler: CommandLine) -> None:
    variables = environment(hostler.data)
    said: dict[str, str] = {}
    with hostler.serving(), shell_functions(hostler.cwd.parent) as functions:
        lines = [line for block in BLOCK.findall(PAGE.read_text("utf-8")) for line in block.splitlines()]
        for line in lines:
            done = run_line(functions, line, hostler.cwd, variables)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            said[line.rpartition("hostler knowledge ")[2]] = done.stdout
    assert len(lines) > 12
    pets = said['search house-rules "are dogs welcome"']
    assert "Dogs are welcome" in pets.splitlines()[1]
    assert re.match(r"0\.\d\d  house\.md · House > Pets · passage \d of \d\n", pets)
    assert said["upload house-rules rules --wait"].splitlines()[0].startswith("house.md\tready\t")
    assert said["read house-rules breakfast.txt"] == "Breakfast is at seven.\n"
    assert "Breakfast is at seven." in said['search house-rules "when is breakfast" --document breakfast.txt']
    assert "Dogs" in said['search house-rules "dogs" --filter season=summer']


def test_bases_and_documents_from_their_first_to_their_last_command(hostler: CommandLine) -> None:
    with hostler.serving():
        commands(hostler)
    # without a server nothing is indexed, and all else works
    assert hostler("knowledge", "add", "later").status == 0
    (hostler.cwd / "a.md").write_text("# A\n\nRead me later.\n")
    kept = hostler("knowledge", "upload", "later", "a.md")
    assert (kept.status, "the server indexes them" in kept.err) == (0, True)
    refused = hostler("knowledge", "upload", "later", "a.md", "--wait")
    assert (refused.status, "server" in refused.error) == (2, True)
    with hostler.serving():
        assert hostler("knowledge", "upload", "later", "a.md", "--wait").status == 0


def commands(hostler: CommandLine) -> None:
    none = hostler("knowledge", "list")
    assert (none.status, "`hostler knowledge add BASE` makes one" in none.err) == (0, True)
    made = hostler("knowledge", "add", "manual", "--name", "Handbook", "passage_chars=400", "--json").json
    assert (made["kb_id"], made["name"], made["passage_chars"]) == ("manual", "Handbook", 400)
    again = hostler("knowledge", "add", "manual")
    assert (again.status, "manual" in again.error) == (1, True)
    for wrong, told in (
        (("add", "no id"), "letters"),
        (("add", "b", "passage_chars=9"), "passage_chars"),
        (("set", "manual"), "name what to change"),
        (("documents", "manual", "--state", "lost"), "waiting, indexing, ready, failed"),
        (("search", "manual", ""), "query"),
        (("upload", "manual", "-"), "--name"),
        (("upload", "manual", "nowhere.md"), "cannot be read"),
    ):
        refused = hostler("knowledge", *wrong)
        assert (refused.status, told in refused.error) == (2, True), (wrong, refused.err)
    folder = hostler.cwd / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "pets.md").write_text("# Pets\n\nDogs are welcome.\n")
    (folder / "more" / "town.txt").write_text("\u535a\u7269\u9986\u661f\u671f\u65e5\u514d\u8d39\u3002")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / ".hidden.md").write_text("hidden")
    (folder / "link.md").symlink_to("/etc/hostname")
    (folder / "broken.txt").write_bytes(b"caf\xe9 \xff\xfa broken")
    large = folder / "large.txt"
    with large.open("wb") as file:
        file.truncate(17 * 2**20)
    done = hostler("knowledge", "upload", "manual", "docs", "--wait", "-m", "lang=en", "--json")
    assert done.status == 1  # two are refused, one cannot be read
    refusals = [line.removeprefix("error: ") for line in done.err.splitlines() if line.startswith("error: ")]
    assert [line.partition(":")[0] for line in refusals] == ["large.txt", "picture.png"]
    assert "16,777,216 bytes" in refusals[0]
    states = {one["name"]: one["state"] for one in done.json}
    assert states == {"broken.txt": "failed", "more/town.txt": "ready", "pets.md": "ready"}
    assert {one["metadata"]["lang"] for one in done.json} == {"en"}
    (broken,) = hostler("knowledge", "documents", "manual", "--state", "failed", "--json").json
    assert "UTF-8" in broken["reason"]
    assert "UTF-8" in hostler("knowledge", "documents", "manual").out
    shown = hostler("knowledge", "show", "manual").out
    assert "1 failed" in shown
    (found, *_) = hostler("knowledge", "search", "manual", "\u535a\u7269\u9986", "--json").json
    assert (found["metadata"]["source"], 0 < found["score"] < 1) == ("more/town.txt", True)
    assert hostler("knowledge", "search", "manual", "dogs", "-d", "more/town.txt", "--json").json == []
    nothing = hostler("knowledge", "search", "manual", "submarine")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "nothing was found in manual\n")
    assert "M" in hostler("knowledge", "set", "manual", "--name", "M").out
    (listed,) = hostler("knowledge", "list", "--json").json
    assert (listed["name"], listed["documents"]) == ("M", 3)
    assert hostler("knowledge", "delete", "manual", "more/town.txt", "broken.txt").status == 0
    lost = hostler("knowledge", "read", "manual", "broken.txt")
    assert (lost.status, "broken.txt" in lost.error) == (1, True)
    assert [one["name"] for one in hostler("knowledge", "documents", "manual", "--json").json] == ["pets.md"]
    assert hostler("knowledge", "remove", "manual").status == 0
    gone = hostler("knowledge", "show", "manual")
    assert (gone.status, "`hostler knowledge list` lists what exists" in gone.error) == (1, True)


def test_a_terminal_is_shown_how_far_it_is(hostler: CommandLine) -> None:
    text = "\n\n".join(f"Rule {number} says that room {number} is cleaned daily." for number in range(20_000))
    (hostler.cwd / "rules.md").write_text(text)
    with hostler.serving():
        assert hostler("knowledge", "add", "rules").status == 0
        ours, theirs = pty.openpty()
        seen = bytearray()

        def read() -> None:
            while True:
                try:
                    seen.extend(piece := os.read(ours, 65536))
                except OSError:
                    return
                if not piece:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        variables = environment(hostler.data, TERM="xterm-256color")
        command = [*HOSTLER, "knowledge", "upload", "rules", "rules.md", "--wait"]
        ran = subprocess.run(
            command,
            check=False,
            cwd=hostler.cwd,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=BOUND_SECONDS,
        )
        os.close(theirs)
        reader.join(BOUND_SECONDS)
        os.close(ours)
        assert (ran.returncode, ran.stdout.startswith(b"rules.md\tready\t")) == (0, True)
        drawn = seen.decode()
        assert re.search(r"uploading.* of [\d,]+ KiB.*rules\.md", drawn)
        assert re.search(r"indexing.*0 of 1 documents", drawn)
