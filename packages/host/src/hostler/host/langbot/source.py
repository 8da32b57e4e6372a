"""Find and read what LangBot stored: a folder `data`, its database, or an exported pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.json_data import json_mistakes
from hostler.domain.untrusted_yaml import read_foreign_yaml
from hostler.host.langbot.database import is_database, read_database
from hostler.host.langbot.items import Row, Source
from hostler.plugins.plain_files import read_plain_file
from hostler_protocol.errors import InvalidArgumentError

MAX_FILE_BYTES = 4 * 1024 * 1024
"""An exported pipeline or `config.yaml`; both have some kilobytes."""
MAX_EXPORTED = 1_000
"""Pipelines in one file, and skills in one folder."""
_DATABASE = "langbot.db"
_OLD = ("config/provider.json", "config/pipeline.json", "config/platform.json")
"""Files of LangBot before version 4, which kept its configuration in them."""
_WANTED = "name LangBot's folder `data`, its `langbot.db`, or a pipeline in JSON or YAML"


def read_source(path: Path) -> Source:
    """Read everything that can be read. InvalidArgumentError if there is nothing."""
    path = path.expanduser()
    try:
        if path.is_dir():
            return _folder(path)
        if not path.exists():
            raise InvalidArgumentError(f"{path}: no such file or folder: {_WANTED}")
        if not path.is_file():
            raise InvalidArgumentError(
                f"{path} is neither a file nor a folder, but a FIFO, socket or device: {_WANTED}"
            )
        if is_database(path):
            return _database(path, path.parent)
        return Source(str(path), list(_exported(_parsed(path), path)))
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error


def _folder(folder: Path) -> Source:
    data = next(
        (
            one
            for one in (folder, folder / "data")
            if (one / _DATABASE).exists() or (one / "config.yaml").exists()
        ),
        None,
    )
    if data is None:
        if any((one / name).exists() for one in (folder, folder / "data") for name in _OLD):
            raise InvalidArgumentError(
                f"{folder} is of LangBot before version 4: start LangBot 4 with it once, which converts it, "
                "then import again"
            )
        raise InvalidArgumentError(f"{folder} has neither {_DATABASE} nor config.yaml: {_WANTED}")
    return _database(_database_of(data), data)


def _database_of(data: Path) -> Path:
    """Return where `config.yaml` says that the database is; by default beside it."""
    usual, settings = data / _DATABASE, data / "config.yaml"
    if not settings.exists():
        return usual
    config = _parsed(settings)
    database = config.get("database") if isinstance(config, Mapping) else None
    if not isinstance(database, Mapping):
        return usual
    if database.get("use", "sqlite") != "sqlite":
        raise InvalidArgumentError(
            f"{settings} says that LangBot keeps its pipelines in {str(database.get('use'))!r:.40}, which is "
            "not read: save each pipeline's configuration as a JSON file and import that"
        )
    sqlite = database.get("sqlite")
    named = sqlite.get("path") if isinstance(sqlite, Mapping) else None
    if not isinstance(named, str) or not named.strip() or "\x00" in named:
        return usual
    found = data.parent / named  # LangBot starts in the folder that holds `data`
    return found if found.exists() else usual


def _database(path: Path, data: Path) -> Source:
    if not path.is_file():
        raise InvalidArgumentError(f"there is no database {path}: {_WANTED}")
    if not is_database(path):
        raise InvalidArgumentError(f"{path} is no SQLite database, or it is damaged: {_WANTED}")
    plugins = data / "plugins"
    rows = [*read_database(path), *_skills(data / "skills")]
    return Source(str(path), rows, str(plugins) if plugins.is_dir() else None)


def _skills(folder: Path) -> Iterator[Row]:
    """Yield the skills that LangBot keeps as folders."""
    found = sorted(folder.glob("*/SKILL.md")) if folder.is_dir() else []
    for path in found[:MAX_EXPORTED]:
        yield Row("skill", {"name": path.parent.name, "folder": str(path.parent)})
    if len(found) > MAX_EXPORTED:
        damage = f"the folder {folder} has more than {MAX_EXPORTED:,} skills; the others are not listed"
        yield Row("table", {"name": "skills"}, damage)


def _parsed(path: Path) -> Any:
    try:
        data = read_plain_file(path, MAX_FILE_BYTES)
    except ValueError as error:
        raise InvalidArgumentError(f"{path} {error}: {_WANTED}") from error
    if path.suffix.lower() == ".json":
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"{path} is no JSON: {error}") from error
    try:
        return read_foreign_yaml(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path} is neither JSON nor YAML: {error}") from error


def _exported(value: Any, path: Path) -> Iterator[Row]:
    found = list(_pipelines(value, 0))
    if not found:
        raise InvalidArgumentError(
            f"{path} has no pipeline: expected its configuration, a mapping with `ai`, or a mapping with "
            "`name` and `config`"
        )
    if len(found) > MAX_EXPORTED:
        raise InvalidArgumentError(f"{path} has more than {MAX_EXPORTED:,} pipelines: split it")
    for number, (kind, one) in enumerate(found, 1):
        name = path.stem if len(found) == 1 else f"{path.stem} {number}"
        values: dict[str, Any] = dict(one) if "config" in one else {"config": one}
        if not isinstance(values.get("name"), str) or not values["name"].strip():
            values["name"] = name
        damage = "; ".join(f"{mistake.place}: {mistake.text}" for mistake in json_mistakes(values)[:3])
        yield Row("agent" if kind == "agent" else "pipeline", values, damage)


def _pipelines(value: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield pipelines: by themselves, in a list, or in an answer of LangBot's HTTP API."""
    if isinstance(value, list) and depth < 4:
        for one in value:
            if isinstance(one, Mapping):
                yield from _pipelines(one, depth + 1)
            else:
                yield "pipeline", {"config": one}
    elif isinstance(value, Mapping) and depth < 4:
        if "ai" in value or "config" in value:
            yield ("agent" if value.get("kind") == "agent" else "pipeline"), value
        elif "runner" in value and "runner_config" in value:
            yield "agent", value
        else:
            for key in ("data", "pipeline", "pipelines", "agent", "agents"):
                if key in value:
                    yield from _pipelines(value[key], depth + 1)
