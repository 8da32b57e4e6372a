"""What `access(2)` says in a sandbox: git, compilers and `shutil.which` ask it before they open a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import look

pytestmark = [
    pytest.mark.gate("sandbox-mechanisms"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
on_each = pytest.mark.parametrize(("mechanism", "user"), combinations() if sys.platform == "linux" else [])


@pytest.fixture
def folder(folder: Path) -> Path:
    """With a program that only its owner may read."""
    readable = folder / "readable"
    readable.mkdir(mode=0o700)
    (readable / "tool").write_text("#!/bin/sh\nexit 0\n")
    (readable / "tool").chmod(0o700)
    return folder


@on_each
def test_programs_are_found_where_they_are(mechanism: str, user: str, folder: Path) -> None:
    program = """
names = ("python3", "sh", os.path.basename(sys.executable))
print(json.dumps([shutil.which(name) for name in names]))
"""
    assert None not in look(mechanism, user, folder, program)


@on_each
def test_folders_that_are_in_sight_may_be_passed(mechanism: str, user: str, folder: Path) -> None:
    program = f"""
readable = {str(folder / "readable")!r}
places = ["/", "/usr", "/usr/bin", "/etc", "/tmp", os.getcwd(), os.path.dirname(sys.executable), readable]
places += [os.path.dirname(place) for place in places]
print(json.dumps({{place: [os.access(place, os.X_OK), oct(os.stat(place).st_mode)] for place in places}}))
"""
    found = look(mechanism, user, folder, program)
    assert [place for place, (passes, _) in found.items() if not passes] == []


@on_each
def test_what_may_be_read_is_said_to_be_readable_whoever_owns_it(
    mechanism: str, user: str, folder: Path
) -> None:
    tool = str(folder / "readable" / "tool")
    program = f"""
said = [os.access({tool!r}, os.R_OK), os.access({tool!r}, os.X_OK), os.access({tool!r}, os.W_OK)]
said += [len(open({tool!r}).read()) > 0]
try:
    said += [subprocess.run([{tool!r}]).returncode == 0]
except OSError:
    said += [False]
print(json.dumps(said))
"""
    readable, executable, writable, read, ran = look(mechanism, user, folder, program)
    assert (readable, read) == (True, True)
    assert executable == ran
    if mechanism == "bubblewrap":
        assert not writable


@on_each
def test_git_and_a_compiler_work(mechanism: str, user: str, folder: Path) -> None:
    program = """
def run(*argv):
    made = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [made.returncode, made.stdout.decode()[-400:]]
said = {}
os.environ["HOME"] = os.getcwd()
if shutil.which("git") or os.path.exists("/usr/bin/git"):
    said["git --version"] = run("git", "--version")
    said["git init"] = run("git", "init", "there")
    said["git commit"] = run("git", "-C", "there", "-c", "user.name=a", "-c", "user.email=a@b.example",
                             "commit", "--allow-empty", "-m", "one")
if os.path.exists("/usr/bin/gcc"):
    open("a.c", "w").write("int main(void) { return 0; }")
    said["gcc"] = run("gcc", "a.c", "-o", "a")
    if os.access("a", os.X_OK):
        said["a"] = run("./a")
print(json.dumps(said))
"""
    found = look(mechanism, user, folder, program)
    if (mechanism, user) == ("landlock", "ordinary"):
        for name in ("git init", "git commit"):  # they change modes by name, which is refused there
            found.pop(name, None)
    else:
        assert ("gcc" in found) == ("a" in found)
    assert {name: said for name, (status, said) in found.items() if status != 0} == {}
