"""`hostler console`: the pages of a running server, in the browser, signed in."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import note
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api


@server_command
def console(
    server: Server,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the link in a browser, or only print it.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Open the console in the browser, signed in.

    The link is good for one browser, within five minutes; the browser stays signed in for a week at most, and
    no longer than the key is valid.
    """

    async def create(api: Api) -> dict[str, Any]:
        made = await api.post("/v1/auth/links", {})
        return {"url": link_of(api.url, made["code"]), "expires_at": made["expires_at"]}

    made = server.ask(create, running=True)
    write_record(made, _show, as_json=as_json)
    if browser and not as_json and not webbrowser.open(made["url"]):
        note("no browser was found: open the link in one")


def link_of(url: str, code: str) -> str:
    """Return the link that signs a browser in. The code is behind a `#`: it reaches no log on the way."""
    return f"{url}/#{urlencode({'sign-in': code})}"


def _show(made: dict[str, Any]) -> None:
    out().print(made["url"], markup=False, soft_wrap=True)
    note(f"for one browser, until {moment(made['expires_at'])}")
