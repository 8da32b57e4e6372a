"""`hostler console`: the pages of a running server, in the browser, signed in."""

from __future__ import annotations

import os
import sys
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
    if browser and not as_json and not open_browser(made["url"]):
        note("no browser was found: open the link in one")


def link_of(url: str, code: str, page: str = "/") -> str:
    """Return the link that signs a browser in. The code is behind a `#`: it reaches no log on the way."""
    return f"{url}{page}#{urlencode({'sign-in': code})}"


def open_browser(url: str) -> bool:
    """Open an address in the person's browser, and return whether there is one.

    A browser that works in the terminal is none: it would take the terminal from the command.
    """
    named = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    has_screen = sys.platform in {"darwin", "win32"} or named
    return has_screen and webbrowser.open(url)


def _show(made: dict[str, Any]) -> None:
    out().print(made["url"], markup=False, soft_wrap=True)
    note(f"for one browser, until {moment(made['expires_at'])}")
