"""Requirements of plugins: packages by name, installed as wheels; no code of theirs runs on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hostler.host.config import PluginEntry
from hostler.host.config_file import parse_config
from hostler.plugins import installer
from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.source import Folder, launch_of
from hostler.sandbox.capabilities import MIN_LANDLOCK
from hostler.sandbox.confine import landlock_version
from hostler_protocol.errors import InvalidArgumentError, PluginStartError
from support.packages import Index, write_project, write_source, write_wheel

pytestmark = pytest.mark.gate("plugin-requires")

CANARY = "canary-of-the-host-81c7"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there as soon as anything of a package was executed."""
    return tmp_path / "executed"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The index that the operator chose."""
    (tmp_path / "index").mkdir()
    with Index(tmp_path / "index").serving() as serving:
        monkeypatch.setenv("UV_DEFAULT_INDEX", serving.url)
        monkeypatch.setenv("HOSTLER_ADMIN_KEY", CANARY)
        monkeypatch.setenv("MY_SECRET", CANARY)
        yield serving


async def build(
    tmp_path: Path, requires: list[str], *, allowed: tuple[str, ...] = (), limits: object = None
) -> Path:
    """The environment that is built for it."""
    environments = Environments(tmp_path / "environments", limits or DEFAULT_START_LIMITS)  # type: ignore[arg-type]
    python = await environments.python_for(requires, base=tmp_path / "plugin", allowed=allowed)
    return Path(python).parent.parent


async def refused(tmp_path: Path, requires: list[str], **options: object) -> str:
    def left() -> set[Path]:
        return {path for path in (tmp_path / "environments").glob("*") if path.is_dir()}

    before = left()
    with pytest.raises(PluginStartError) as caught:
        await build(tmp_path, requires, **options)  # type: ignore[arg-type]
    assert left() == before
    return caught.value.message


def modules(environment: Path) -> set[str]:
    """The installed packages, read without the environment's interpreter."""
    site_packages = next((environment / "lib").glob("python*/site-packages"))
    return {path.name for path in site_packages.iterdir()}


# -- what is no name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "./evil",
        "../plugin/evil",
        "/{plugin}/evil",
        ".",
        "evil @ file:///{plugin}/evil",
        "evil @ ./evil",
        "evil @ {index}/evil-1.0.tar.gz",
        "{index}/evil-1.0.tar.gz",
        "git+https://example.com/evil.git",
        "evil @ git+file:///{plugin}/evil",
        "-e ./evil",
        "--editable=./evil",
        "-r requirements.txt",
        "--requirement=requirements.txt",
        "-c requirements.txt",
        "--default-index={index}",
        "--index-url {index}",
        "--find-links=./evil",
        "--no-binary=:all:",
        "--config-file=uv.toml",
        "  --default-index={index}",
        "tiny\n--index-url {index}",
        "tiny\r--index-url {index}",
        "tiny\x0b./evil",
        "tiny \\\n --index-url {index}",
        "tiny --index-url {index}",
        "tiny --config-settings=a=b",
        "tiny # comment",
        "${{HOSTLER_ADMIN_KEY}}",
        "tiny, ./evil",
        "",
        " ",
        "tiny\u2028./evil",
        "x" * 600,
    ],
)
async def test_what_is_no_package_by_name_is_refused_before_uv_is_started(
    tmp_path: Path, index: Index, mark: Path, text: str
) -> None:
    plugin = tmp_path / "plugin"
    write_project(plugin / "evil", "evil", mark)
    write_source(index.folder, "evil", mark)
    (plugin / "requirements.txt").write_text("./evil\n")
    wanted = text.format(plugin=str(plugin).lstrip("/"), index=index.url)
    message = await refused(tmp_path, [wanted])
    assert message.startswith("requires: ")
    assert "httpx>=0.28" in message or "characters" in message or "line break" in message
    assert not mark.exists()
    assert index.asked == []
    (plugin / "hostler.yaml").write_text(
        json.dumps({"plugin": {"author": "a", "name": "b"}, "requires": [wanted]})
    )
    with pytest.raises(PluginStartError, match="requires"):
        launch_of(Folder(plugin))


async def test_there_is_a_most_of_requirements(tmp_path: Path) -> None:
    assert "at most 100" in await refused(tmp_path, ["tiny"] * 101)


# -- what the operator lists ----------------------------------------------------------------------


async def test_an_operator_may_list_wheels_and_nothing_that_is_built(tmp_path: Path, index: Index) -> None:
    plugin = tmp_path / "plugin"
    write_wheel(plugin / "wheels", "local")
    write_wheel(index.folder, "afar")
    far = f"afar @ {index.url.removesuffix('/simple')}/files/afar-1.0-py3-none-any.whl"
    near = "./wheels/local-1.0-py3-none-any.whl"
    assert "local" in await refused(tmp_path, [near])
    found = modules(await build(tmp_path, [near, far], allowed=(near, far)))
    assert {"local.py", "afar.py"} <= found
    for text in (
        "./evil",
        "evil @ git+https://example.com/evil",
        "-e ./x.whl",
        "a.whl\n-r b",
        "evil-1.0.tar.gz",
    ):
        with pytest.raises(InvalidArgumentError, match="allow"):
            parse_config(
                json.dumps({"plugins": [{"path": "./p", "allow_requires": [text]}]}), name="hostler.yaml"
            )
        assert "wheel" in await refused(tmp_path, [text], allowed=(text,))
    entry = PluginEntry(path="./p", allow_requires=[near, far])
    assert entry.allow_requires == [near, far]


# -- what is built from source --------------------------------------------------------------------


@pytest.mark.parametrize("by", ["itself", "another"])
async def test_a_source_distribution_of_the_index_is_never_built(
    tmp_path: Path, index: Index, mark: Path, by: str
) -> None:
    write_source(index.folder, "evil", mark)
    write_wheel(index.folder, "another", requires="evil")
    message = await refused(tmp_path, ["evil" if by == "itself" else "another"])
    assert "evil" in message
    assert "wheel" in message.lower()
    assert not mark.exists()


async def test_a_listed_wheel_with_a_dependency_that_would_be_built_is_refused(
    tmp_path: Path, index: Index, mark: Path
) -> None:
    write_source(index.folder, "evil", mark)
    write_project(tmp_path / "plugin" / "evil", "evil", mark)
    place = f"evil @ file://{tmp_path / 'plugin' / 'evil'}"
    write_wheel(tmp_path / "plugin", "tiny", requires=place)
    listed = "./tiny-1.0-py3-none-any.whl"
    assert "evil" in await refused(tmp_path, [listed], allowed=(listed,))
    assert not mark.exists()


async def test_a_folder_of_wheels_is_named_from_where_the_host_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path / "links", "tiny")
    (tmp_path / "more").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", f"links,{tmp_path}/more")
    assert "tiny.py" in modules(await build(tmp_path, ["tiny"]))


# -- what lies in the plugin's folder -------------------------------------------------------------


async def test_no_configuration_of_the_plugins_folder_is_read(
    tmp_path: Path, index: Index, mark: Path
) -> None:
    write_wheel(index.folder, "tiny", "VALUE = 'of the operator'\n")
    plugin = tmp_path / "plugin"
    (tmp_path / "theirs").mkdir()
    write_wheel(tmp_path / "theirs", "tiny", "VALUE = 'of the plugin'\n", version="9.0")
    write_project(plugin, "evil", mark)
    with Index(tmp_path / "theirs").serving() as theirs:
        setting = f'index-url = "{theirs.url}"\nfind-links = ["{tmp_path / "theirs"}"]\n'
        (plugin / "uv.toml").write_text(setting)
        (plugin / "pyproject.toml").write_text(f'[project]\nname = "x"\nversion = "1"\n[tool.uv]\n{setting}')
        (plugin / ".python-version").write_text("3.1\n")
        (plugin / ".env").write_text(f"UV_DEFAULT_INDEX={theirs.url}\n")
        built = await build(tmp_path, ["tiny"])
        assert theirs.asked == []
    text = next((built / "lib").glob("python*/site-packages/tiny.py")).read_text()
    assert "of the operator" in text
    assert not mark.exists()


# -- what packages bring --------------------------------------------------------------------------


async def test_nothing_of_a_package_is_executed_while_it_is_installed(
    tmp_path: Path, index: Index, mark: Path
) -> None:
    """A `.pth` file is code for whoever starts the interpreter."""
    line = f"import pathlib; pathlib.Path({str(mark)!r}).write_text('x')\n"
    write_wheel(index.folder, "tiny", files={"tiny.pth": line, "sitecustomize.py": line})
    environment = await build(tmp_path, ["tiny"])
    assert not mark.exists()
    python = environment / "bin" / "python"
    subprocess.run([python, "-c", ""], check=True, timeout=60)
    assert mark.exists()  # it is code indeed


@pytest.mark.parametrize(
    "file",
    [
        "tiny-1.0.data/data/pyvenv.cfg",
        "tiny-1.0.data/scripts/python",
        "tiny-1.0.data/scripts/python3",
        "tiny-1.0.data/data/bin/python",
        "tiny-1.0.data/data/bin/python3",
    ],
)
async def test_a_package_does_not_choose_the_interpreter(tmp_path: Path, index: Index, file: str) -> None:
    """The folder that pyvenv.cfg names as the interpreter's home is shown to the plugin."""
    interpreter = os.path.realpath(sys.executable)
    write_wheel(index.folder, "tiny", files={file: f"home = {tmp_path}/secrets/bin\n"})
    message = await refused(tmp_path, ["tiny"])
    assert "interpreter" in message or "reserved name" in message or "cannot be built" in message
    assert os.path.realpath(sys.executable) == interpreter
    assert Path(interpreter).read_bytes()[:4] == b"\x7fELF"


async def test_the_hosts_own_packages_are_looked_up_nowhere(tmp_path: Path, index: Index) -> None:
    for name in ("hostler_sdk", "hostler_protocol", "msgspec"):
        write_wheel(index.folder, name, "raise SystemExit('not the one of the host')\n", version="99.0")
    write_wheel(index.folder, "tiny", requires="hostler-sdk")
    environment = await build(tmp_path, ["tiny", "hostler-sdk", "msgspec>=0.1"])
    assert {"hostler_sdk", "hostler_protocol", "msgspec"} <= modules(environment)
    assert not [path for path in index.asked if "hostler" in path or "msgspec" in path]


async def test_another_version_of_the_hosts_own_packages_is_a_mistake(tmp_path: Path, index: Index) -> None:
    write_wheel(index.folder, "tiny", requires="hostler-sdk>=99")
    assert "tiny 1.0 requires hostler-sdk>=99" in await refused(tmp_path, ["tiny"])
    assert "it requires msgspec<0.1" in await refused(tmp_path, ["msgspec<0.1"])


async def test_an_environment_has_a_most_of_bytes(tmp_path: Path, index: Index) -> None:
    write_wheel(index.folder, "tiny", files={f"large{n}.txt": "x" * 8_000_000 for n in range(12)})
    limits = replace(DEFAULT_START_LIMITS, environment_bytes=1_000_000)
    assert "too large" in await refused(tmp_path, ["tiny"], limits=limits)


# -- the plan -------------------------------------------------------------------------------------


async def test_what_is_built_again_is_the_same(tmp_path: Path, index: Index) -> None:
    write_wheel(index.folder, "other")
    first = write_wheel(index.folder, "tiny", requires="other>=1")
    environment = await build(tmp_path, ["tiny"])
    plan = next((tmp_path / "environments").glob("*.requires.txt"))
    lines = [line.strip(" \\") for line in plan.read_text().splitlines()]
    assert [line for line in lines if "==" in line] == ["other==1.0", "tiny==1.0"]
    assert sum(line.startswith("--hash=sha256:") for line in lines) == 2
    shutil.rmtree(environment)
    write_wheel(index.folder, "tiny", version="2.0")
    assert modules(await build(tmp_path, ["tiny"])) >= {"tiny-1.0.dist-info", "other-1.0.dist-info"}

    shutil.rmtree(environment)
    first.unlink()
    write_wheel(index.folder, "tiny", "VALUE = 'exchanged'\n", requires="other>=1")
    assert "hash" in (await refused(tmp_path, ["tiny"])).lower()
    plan.unlink()
    assert modules(await build(tmp_path, ["tiny"])) >= {"tiny-2.0.dist-info"}


# -- what uv gets ---------------------------------------------------------------------------------

LOOK = """#!{python} -IS
import json, os, sys
seen = {{"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:], "files": []}}
for path in {paths!r}:
    try:
        open(path).close()
        seen["files"].append(path)
    except OSError:
        pass
for path in {written!r}:
    try:
        open(path, "a").close()
        seen["files"].append(path)
    except OSError:
        pass
with open({there!r}, "a") as file:
    file.write(json.dumps(seen) + "\\n")
sys.stderr.write("error: seen enough")
sys.exit(1)
"""


@pytest.mark.gate("child-environments")
async def test_uv_sees_what_it_needs_and_nothing_else_of_the_host(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its place a program that writes down what it is given, and tries to reach files of the host."""
    environments = tmp_path / "environments"
    environments.mkdir()
    secret, plugin = tmp_path / "secret", tmp_path / "plugin"
    plugin.mkdir()
    secret.write_text(CANARY)
    monkeypatch.setenv("UV_CONFIG_FILE", str(secret))
    monkeypatch.setenv("UV_CONSTRAINT", str(secret))
    monkeypatch.setenv("UV_INDEX_MINE_PASSWORD", "known to uv")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fake, there = tmp_path / "uv", environments / "seen"
    paths = [str(secret), f"/proc/{os.getpid()}/environ", str(Path.home() / ".bashrc"), str(plugin)]
    written = [str(tmp_path / "written"), str(plugin / "written")]
    python = os.path.realpath(sys.executable)
    fake.write_text(LOOK.format(python=python, paths=paths, written=written, there=str(there)))
    fake.chmod(0o755)
    monkeypatch.setattr(installer, "find_uv_bin", lambda: str(fake))
    # what it writes down lies in its working folder alone
    monkeypatch.setattr("secrets.token_hex", lambda size=16: "known")
    seen_file = environments / ".building-known" / "seen"
    fake.write_text(LOOK.format(python=python, paths=paths, written=written, there=str(seen_file)))
    monkeypatch.setattr("hostler.plugins.environment.try_remove_tree", lambda path: True)
    with pytest.raises(PluginStartError, match="seen enough"):
        await build(tmp_path, ["tiny"])
    seen = json.loads(seen_file.read_text().splitlines()[0])
    assert seen["cwd"] == str(environments / ".building-known")
    assert "--no-config" in seen["argv"]
    assert CANARY not in json.dumps(seen)
    assert {"UV_CONFIG_FILE", "UV_CONSTRAINT", "PYTHONPATH"}.isdisjoint(seen["env"])
    assert seen["env"]["UV_INDEX_MINE_PASSWORD"] == "known to uv"
    assert seen["env"]["UV_DEFAULT_INDEX"] == index.url
    if landlock_version() >= MIN_LANDLOCK:
        assert seen["files"] == []
