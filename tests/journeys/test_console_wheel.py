"""The console from an installed wheel, on a machine without a network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostler.console.files import ConsoleFiles
from support.chromium import NEEDS_CHROMIUM, browsing
from support.command_line import HOSTLER, Server, environment
from support.console import nothing_from_elsewhere
from support.console_walk import navigation, shown, sign_in

ROOT = Path(__file__).parents[2]
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
BOUND_SECONDS = 120
PROGRAM = """
import contextlib, fcntl, hashlib, json, os, re, socket, struct, subprocess, sys, time
import urllib.error, urllib.request
from pathlib import Path

with socket.socket() as lo:  # a new network has nothing but a loopback that is down
    fcntl.ioctl(lo, 0x8914, struct.pack("16sh14x", b"lo", 0x41))

import hostler
root = Path(hostler.__file__).parent
command = [sys.executable, "-m", "hostler", "serve", "--data", sys.argv[1], "--port", "8420"]
variables = {**os.environ, "HOSTLER_ADMIN_KEY": "k" * 40}
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=variables)
try:
    for _ in range(1000):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen("http://127.0.0.1:8420/readyz") as answer:
                break
        assert server.poll() is None, "the server ended"
        time.sleep(0.1)
    page = urllib.request.urlopen("http://127.0.0.1:8420/").read().decode()
    digest = re.search("/static/([0-9a-f]+)/", page)[1]
    served = {}
    for name in sys.argv[2].split():
        with urllib.request.urlopen(f"http://127.0.0.1:8420/static/{digest}/{name}") as answer:
            served[name] = hashlib.sha256(answer.read()).hexdigest()
    try:
        urllib.request.urlopen("http://93.184.215.14/", timeout=1)
        reached = True
    except OSError:
        reached = False
finally:
    server.terminate()
    server.wait(30)
print(json.dumps({"root": str(root), "served": served, "reached": reached}))
"""


def _has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the wheel of the host is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--package", "hostler"]
    subprocess.run([*build, "-o", str(folder)], cwd=ROOT, check=True, timeout=BOUND_SECONDS)
    (wheel,) = folder.glob("hostler-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "installed")
    return folder / "installed"


@NEEDS_CHROMIUM
async def test_it_works_in_a_browser_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    with (installed / "hostler" / "console" / "static" / "console.css").open("a") as styles:
        styles.write(":root { --from: wheel; }\n")
    log_path = tmp_path / "serve.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*HOSTLER, "serve", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(tmp_path / "data", PYTHONPATH=str(installed)),
            cwd=tmp_path,
        )
    server = Server(process, tmp_path / "data", log_path)
    try:
        server.wait_ready()
        async with browsing() as page:
            await sign_in(page, server.url, server.key)
            marked = "getComputedStyle(document.documentElement).getPropertyValue('--from').trim()"
            assert await page.evaluate(marked) == "wheel", "it is the wheel that is tried"
            for address in await navigation(page):
                await page.open(f"{server.url}{address}")
                await shown(page)
                await nothing_from_elsewhere(page, server.url)
            assert page.complaints == []
    finally:
        server.end()


@pytest.mark.skipif(
    not _has_namespaces() and not os.environ.get("CI"), reason="a network of its own takes user namespaces"
)
def test_all_files_of_the_console_come_with_the_wheel_and_need_no_network(
    installed: Path, tmp_path: Path
) -> None:
    files = ConsoleFiles(installed / "hostler" / "console" / "static")
    assert files.names == ConsoleFiles().names, "all are in the wheel"
    paths = {name: f"/static/{files.digest}/{name}" for name in files.names}
    contents = {name: file.content for name, path in paths.items() if (file := files.find(path)) is not None}
    assert {"console.js", "console.css", "locales/zh/base.json", "vendor/preact.js"} <= contents.keys()
    ran = subprocess.run(
        [*ALONE, sys.executable, "-c", PROGRAM, str(tmp_path / "data"), " ".join(contents)],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout)
    assert Path(found["root"]).is_relative_to(installed), "it is the wheel that is tried"
    assert not found["reached"]
    assert found["served"] == {name: hashlib.sha256(one).hexdigest() for name, one in contents.items()}
