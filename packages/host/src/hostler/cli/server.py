"""Commands that use a server: their common options, requests and errors."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption
from hostler.cli.output import report_errors
from hostler.domain.record import Record
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from hostler.cli.client import Api

T = TypeVar("T")


class Server(Record):
    """The server named by a command's options."""

    url: str | None
    key: str | None
    data: Path | None
    listed_by: str | None
    """The command that lists the valid names for this one."""

    def ask(
        self,
        work: Callable[[Api], Awaitable[T]],
        *,
        running: bool = False,
        unhandled: type[HostlerError] | None = None,
    ) -> T:
        """Run `work` with the server's API. An error ends the command, unless it is `unhandled`.

        With `running`, a server must run; otherwise the data directory is opened for the command.
        """
        from hostler.cli.server_address import reach

        async def with_api() -> T:
            async with reach(self.url, self.key, self.data, running=running) as api:
                try:
                    return await work(api)
                except NotFoundError as error:
                    if self.listed_by is None:
                        raise
                    raise NotFoundError(f"{error.message}; `{self.listed_by}` lists what exists") from error

        with report_errors(usage=InvalidArgumentError, unhandled=unhandled):
            return asyncio.run(with_api())

    def get(self, path: str, *, running: bool = False, **query: Any) -> Any:
        """Send a GET request and return the decoded answer."""
        return self.ask(lambda api: api.get(path, **query), running=running)

    def all(self, path: str, *, running: bool = False) -> list[Any]:
        """Return the items of a list that is not paged."""
        found: list[Any] = self.get(path, running=running)["items"]
        return found

    def items(self, path: str, *, limit: int, **query: Any) -> list[Any]:
        """Return up to `limit` items of a list, read page by page."""
        return self.ask(lambda api: api.items(path, limit=limit, **query))


def server_command(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that takes a `Server`: add the options `--data`, `--url` and `--key` for it."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(
        ctx: typer.Context, data: Path | None, url: str | None, key: str | None, **arguments: Any
    ) -> None:
        group = ctx.parent
        listed_by = f"hostler {group.info_name} list" if group and group.parent else None
        command(Server(url, key, data, listed_by), **arguments)

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
