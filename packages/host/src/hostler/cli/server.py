"""What all commands share that speak with a server: their options, and what they do with its errors."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption
from hostler.cli.output import report_errors
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from hostler.cli.client import Api

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """The server that a command's options name."""

    url: str | None
    key: str | None
    data: Path | None
    listed_by: str | None
    """The command that lists what this one takes names of."""

    def ask(
        self,
        work: Callable[[Api], Awaitable[T]],
        *,
        running: bool = False,
        unhandled: type[HostlerError] | None = None,
    ) -> T:
        """Do something with the server's API; an error ends the command, but one of `unhandled` is raised.

        `running`: a data directory that no server has open will not do.
        """
        from hostler.cli.server_address import reach

        async def done() -> T:
            async with reach(self.url, self.key, self.data, running=running) as api:
                try:
                    return await work(api)
                except NotFoundError as error:
                    if self.listed_by is None:
                        raise
                    raise NotFoundError(f"{error.message}; `{self.listed_by}` shows what there is") from error

        with report_errors(usage=InvalidArgumentError, unhandled=unhandled):
            return asyncio.run(done())

    def get(self, path: str, *, running: bool = False, **query: Any) -> Any:
        """Read something."""
        return self.ask(lambda api: api.get(path, **query), running=running)

    def all(self, path: str, *, running: bool = False) -> list[Any]:
        """Read a list that comes whole."""
        found: list[Any] = self.get(path, running=running)["items"]
        return found

    def items(self, path: str, *, limit: int, **query: Any) -> list[Any]:
        """Read a list, page by page, up to `limit` items."""
        return self.ask(lambda api: api.items(path, limit=limit, **query))


def server_command(command: Callable[..., None]) -> Callable[..., None]:
    """A command of a server: `--data`, `--url` and `--key` come last, and reach it as its `Server`."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(ctx: typer.Context, data: Path | None, url: str | None, key: str | None, **given: Any) -> None:
        group = ctx.parent
        listed_by = f"hostler {group.info_name} list" if group and group.parent else None
        command(Server(url, key, data, listed_by), **given)

    options = {"data": DataOption, "url": UrlOption, "key": KeyOption}
    named = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *[parameter for parameter in own.parameters.values() if parameter.name != "server"],
        *[
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=option)
            for name, option in options.items()
        ],
    ]
    called.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return called


__all__ = ["Server", "server_command"]
