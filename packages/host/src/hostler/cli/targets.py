"""TARGET on the command line: an agent, a plugin folder, or a file with a runner class."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from hostler.domain.record import Record
from hostler.domain.suggestions import did_you_mean
from hostler.plugins.source import Folder, SingleFile
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.manifest import FormItem

MODEL_ITEMS = ("model-fallback-selector", "llm-model-selector", "select-llm-model")


class LocalTarget(Record):
    """A plugin on disk and the name of its runner; None: the only one."""

    source: Folder | SingleFile
    runner: str | None


class RunTarget(Record):
    """A TARGET before the agents are known.

    `is_path`: it can only be a path. `local`: the plugin at this path, if there is one; `error`: why the path
    is invalid.
    """

    text: str
    is_path: bool
    local: LocalTarget | None
    error: InvalidArgumentError | None = None

    @property
    def as_path(self) -> str:
        """The target as a path that cannot be an agent's name."""
        return self.text if self.is_path else f"./{self.text}"


def read_target(text: str) -> RunTarget:
    """Parse a TARGET. Text that begins with `/`, `./`, `../` or `~` can only be a path.

    InvalidArgumentError if such a path has no plugin, or its file lacks the class.
    """
    is_path = text.startswith(("/", "./", "../", "~")) or text in (".", "..")
    try:
        return RunTarget(text, is_path, local_target(text))
    except InvalidArgumentError as error:
        if is_path:
            raise
        return RunTarget(text, is_path, None, error)


def local_plugin(target: RunTarget, *, is_agent: bool) -> LocalTarget | None:
    """Return the plugin of a target, None if it is an agent's name.

    An agent takes precedence over a file or folder with its name; `is_agent` says whether there is one.
    InvalidArgumentError if the text is neither an agent's name nor a plugin.
    """
    if is_agent and not target.is_path:
        return None
    if target.error is not None:
        raise target.error
    return target.local


def same_name_note(target: RunTarget) -> str | None:
    """Return a note for a target that is an agent, if a file or folder has the same name; else None."""
    if target.local is None:
        return None
    what = "plugin folder" if isinstance(target.local.source, Folder) else "file"
    return f"{target.text!r} is the agent; for the {what} with this name, write {target.as_path}"


def local_target(target: str) -> LocalTarget | None:
    """Return the plugin folder or file that a target names; None if it can only be an agent's name.

    InvalidArgumentError if it looks like a path but does not exist, or its file lacks the class.
    """
    path_text, colon, name = target.rpartition(":")
    if path_text.endswith(".py"):
        if not name:
            raise InvalidArgumentError(f"{target}: add the class, like {path_text}:MyRunner")
        path = Path(path_text).expanduser()
        if not path.is_file():
            raise InvalidArgumentError(
                f"there is no file {path_text}: name an existing one, like echo.py:Echo"
            )
        _look_for_class(path, name)
        return LocalTarget(SingleFile(path.resolve(), name), None)
    if target.endswith(".py"):
        raise InvalidArgumentError(f"{target}: add the class, like {target}:MyRunner")
    for text, runner in ((target, None), (path_text, name or None)):
        path = Path(text).expanduser()
        if text and path.is_dir() and (_is_path(text) or _is_plugin_folder(path)):
            return LocalTarget(Folder(path.resolve()), runner)
    if _is_path(target):
        raise InvalidArgumentError(_no_folder(path_text if colon else target))
    return None


def _no_folder(target: str) -> str:
    """Return the error for a folder that does not exist, with the neighbour of the nearest name."""
    path = Path(target).expanduser()
    try:
        neighbours = [one.name for one in path.parent.iterdir() if _is_plugin_folder(one)]
    except OSError:
        neighbours = []
    near = did_you_mean(path.name, neighbours)
    return f"there is no plugin folder {target}" + (f"; {near}" if neighbours else "")


def _is_plugin_folder(path: Path) -> bool:
    return any((path / name).is_file() for name in ("hostler.yaml", "manifest.yaml"))


def _look_for_class(path: Path, name: str) -> None:
    """Raise InvalidArgumentError if a file does not define or import the class."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # starting it reports the error with its line
    bound: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found) | ast.Name(id=found, ctx=ast.Store()):
                bound.add(found)
            case ast.alias(name=found, asname=renamed):
                bound.add(renamed or found)
    if name not in bound and not bound & {"*", "__getattr__"}:
        classes = ", ".join(sorted(n.name for n in tree.body if isinstance(n, ast.ClassDef))) or "none"
        raise InvalidArgumentError(f"{path} has no class {name!r}; its classes are: {classes}")


def plugin_source(target: str) -> Folder | SingleFile:
    """Return the plugin folder or file that a target names. InvalidArgumentError if there is none."""
    found = local_target(target)
    if found is None:
        raise InvalidArgumentError(f"there is no plugin folder {target}: name another one, or file.py:Class")
    return found.source


def plugin_folder(target: str) -> tuple[Path, str | None]:
    """Return the folder of FOLDER[:RUNNER], and the runner. InvalidArgumentError if it is anything else."""
    found = local_target(target)
    if found is None or not isinstance(found.source, Folder):
        raise InvalidArgumentError(f"{target}: name a plugin folder, like ./my-agent or ./my-agent:runner")
    return found.source.path, found.runner


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~"))


def unknown_agent(name: str, known: Collection[str]) -> NotFoundError:
    """Return the error for an unknown agent name."""
    hint = did_you_mean(name, known) if known else "there are none yet"
    return NotFoundError(
        f"there is no agent {name!r}: {hint}; write a runner of your own as file.py:Class, "
        "a plugin folder as ./folder"
    )


def runner_name(target: LocalTarget, offered: Iterable[str]) -> str:
    """Return the target's runner, of those that the plugin offers."""
    names = sorted(offered)
    listed = ", ".join(names) or "none"
    if target.runner is not None:
        if target.runner not in names:
            raise NotFoundError(f"the plugin has no runner {target.runner!r}; its runners are: {listed}")
        return target.runner
    if len(names) != 1:
        raise InvalidArgumentError(f"the plugin has several runners ({listed}); name one: folder:runner")
    return names[0]


def with_model(config: Mapping[str, Any], form: Iterable[FormItem], model: str | None) -> dict[str, Any]:
    """Return the configuration with `model` in its model field. InvalidArgumentError if it has none."""
    if model is None:
        return dict(config)
    for item in form:
        if item.kind in MODEL_ITEMS:
            return {**config, item.name: model}
    raise InvalidArgumentError("--model: this runner has no setting for a model")
