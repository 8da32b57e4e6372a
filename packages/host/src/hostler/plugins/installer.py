"""uv, as it installs what plugins require: wheels alone, by a plan with digests, within bounds.

Nothing that a package brings is executed here: no source is built, and the interpreter of an environment is
not started any more once packages are in it (a `.pth` file of theirs would be code). uv sees an environment
with what operators set for it and nothing else of the host's, reads no configuration files, and reaches no
files but its own, where the kernel has Landlock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from uv import find_uv_bin

from hostler.domain.requirements import place_of_wheel
from hostler.plugins.limits import StartLimits
from hostler.sandbox.usage import measure_folders
from hostler.sandbox.visible_files import DEVICES, PROCESSES, PROGRAMS, SETTINGS, TOP, python_paths
from hostler_protocol.errors import PluginStartError

HELD = Path(__file__).parents[1] / "sandbox" / "confined_files.py"
MAX_UV_OUTPUT_BYTES = 64 * 1024
MAX_REASON_CHARS = 600
LOOK_SECONDS = 1.0
"""From one look at what is being written to the next."""
PASSED = frozenset(
    {
        *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        *("UV_NO_INDEX", "UV_INDEX_STRATEGY", "UV_OFFLINE", "UV_EXCLUDE_NEWER", "UV_INSECURE_HOST"),
        *(
            "UV_NATIVE_TLS",
            "UV_SYSTEM_CERTS",
            "UV_HTTP_TIMEOUT",
            "UV_HTTP_RETRIES",
            "UV_CONCURRENT_DOWNLOADS",
        ),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
"""What uv gets of the host's environment, besides UV_INDEX_*: the operator says where packages come from."""
PLACES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
NETWORK_SETTINGS = tuple(
    f"/etc/{name}" for name in ("resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols")
)
MACHINE = ("/sys/fs/cgroup", "/sys/devices/system/cpu")
"""How much of it there is to work with."""


@dataclass(frozen=True, slots=True)
class Installer:
    """One environment to be: `work` is a folder of its own, for the environment, the plan and the cache."""

    work: Path
    limits: StartLimits

    @property
    def environment(self) -> Path:
        """The environment."""
        return self.work / "environment"

    async def make_environment(self) -> None:
        """Make it, without packages. PluginStartError."""
        python = ["--python", sys.executable, "--no-python-downloads", "--no-project"]
        await self._uv(["venv", "--relocatable", *python, str(self.environment)])

    async def plan(self, lines: Sequence[str], own: Mapping[str, str], wheels: Sequence[Path]) -> str:
        """What has to be installed, with the version and the digest of each package, as uv writes it.

        `own`: packages that are there already, and are looked up nowhere. PluginStartError with uv's reason.
        """
        wanted, left_out, plan = self.work / "wanted.txt", self.work / "own.txt", self.work / "plan.txt"
        wanted.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        left_out.write_text("".join(f"{name} ; python_version < '0'\n" for name in own), "utf-8")
        options = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--no-python-downloads"]
        python = ["--python", str(self.environment / "bin" / "python")]
        files = ["--override", str(left_out), "--output-file", str(plan), str(wanted)]
        await self._uv(["pip", "compile", *options, *python, "--only-binary", ":all:", *files], wheels)
        return plan.read_text("utf-8")

    async def install(self, plan: str, wheels: Sequence[Path]) -> None:
        """Install what the plan says; each file has to have its digest. PluginStartError with uv's reason."""
        file = self.work / "plan.txt"
        file.write_text(plan, "utf-8")
        options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]
        python = ["--python", str(self.environment / "bin" / "python"), "--no-progress"]
        await self._uv(["pip", "install", *options, *python, "--requirements", str(file)], wheels)

    async def _uv(self, arguments: Sequence[str], wheels: Sequence[Path] = ()) -> None:
        command = [find_uv_bin(), "--color", "never", "--no-config", "--cache-dir", str(self.work / "cache")]
        environment = self._variables()
        order = self._order(environment, wheels)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(HELD), json.dumps(order)),
            *command,
            *arguments,
            cwd=self.work,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            said = await self._watched(process)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise PluginStartError(
                f"its environment cannot be built: {reason_of(said.decode('utf-8', 'replace'))}"
            )

    async def _watched(self, process: asyncio.subprocess.Process) -> bytes:
        """What it wrote to its errors; PluginStartError where it fills the disk."""
        reading = asyncio.ensure_future(_read(process))
        try:
            while not (await asyncio.wait([reading], timeout=LOOK_SECONDS))[0]:
                await asyncio.to_thread(self._look)
            await asyncio.to_thread(self._look)
            return reading.result()
        finally:
            reading.cancel()

    def _look(self) -> None:
        most_bytes, most_files = self.limits.environment_bytes, self.limits.environment_files
        size, count = measure_folders([str(self.work)], most_bytes, most_files)
        if size > most_bytes or count > most_files:
            text = f"over {most_bytes / 1024**3:,.1f} GiB or {most_files:,} files"
            raise PluginStartError(f"its environment is too large: {text}", lasting=True)

    def _variables(self) -> dict[str, str]:
        passed = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED or name.startswith(("UV_INDEX_", "LC_"))
        }
        passed |= {name: _absolute(passed[name]) for name in PLACES if name in passed}
        own = {"HOME": str(self.work), "TMPDIR": str(self.work), "PATH": os.defpath}
        return {**passed, **own, "UV_NO_PROGRESS": "1"}

    def _order(self, environment: Mapping[str, str], wheels: Sequence[Path]) -> dict[str, list[str]]:
        """What uv may reach of the files here."""
        system = [*(f"/{name}" for name in TOP), *PROGRAMS, *SETTINGS, *NETWORK_SETTINGS, *MACHINE]
        named = [place for name in PLACES for place in _local_places(environment.get(name, ""))]
        named += [environment[name] for name in FILES if name in environment]
        python = [*map(str, python_paths(sys.executable)), os.path.realpath(sys.executable), str(HELD.parent)]
        read = [*system, *named, *python, find_uv_bin(), *map(str, wheels)]
        # relative to the working folder of the host, as operators mean them
        real = sorted({os.path.realpath(path) for path in read})
        return {"read": [*real, *PROCESSES], "write": [os.path.realpath(self.work)], "devices": [*DEVICES]}


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None
    said = b""
    while part := await process.stderr.read(65536):
        said = (said + part)[-MAX_UV_OUTPUT_BYTES:]
    await process.wait()
    return said


def _local_places(value: str) -> list[str]:
    """Of a variable that names indexes, the folders here; each may have a name before it (`name=`)."""
    found = []
    for word in re.split(r"[\s,]+", value):
        place = re.sub(r"^[A-Za-z0-9_.-]+=", "", word)
        if place.startswith("file:"):
            found.append(unquote(urlsplit(place).path))
        elif place and "://" not in place:
            found.append(place)
    return found


def _absolute(value: str) -> str:
    """The same variable with the folders that it names from here, for a program that starts elsewhere."""
    for place in _local_places(value):
        if not os.path.isabs(place):  # noqa: PTH117
            word = rf"(?<![^\s,=]){re.escape(place)}(?![^\s,])"
            full = os.path.abspath(place)  # noqa: PTH100
            value = re.sub(word, lambda _, full=full: full, value)  # type: ignore[misc]
    return value


def wheels_of(listed: Sequence[str], base: Path) -> tuple[list[str], list[Path]]:
    """The lines for wheels that an operator listed, paths taken from `base`; and the files among them."""
    lines, files = [], []
    for text in listed:
        place = place_of_wheel(text)
        if place.startswith("file:"):
            files.append(Path(unquote(urlsplit(place).path)))
        elif "://" not in place:
            files.append(Path(os.path.abspath(base / place)))  # noqa: PTH100  links are kept
            text = str(files[-1])  # noqa: PLW2901
        lines.append(text)
    return lines, files


_DECORATION = re.compile(r"^[\s×╰─▶│├→·]*(error:|Caused by:|cause:)?\s*", re.UNICODE)


def reason_of(said: str) -> str:
    """What uv says, without its drawing, in a line."""
    lines = said.splitlines()
    first = next((i for i, line in enumerate(lines) if line.lstrip().startswith(("×", "error"))), 0)
    plain = [_DECORATION.sub("", line).strip() for line in lines[first:]]
    text = " ".join(line for line in plain if line)
    return text[:MAX_REASON_CHARS] or "uv did not say why"
