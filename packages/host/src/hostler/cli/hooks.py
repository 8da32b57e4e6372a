"""`hostler hooks`: ways in for the requests of other services."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entry_commands import add_entry_commands
from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, write_fields, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.domain.hook_samples import SignedRequest
    from hostler.domain.hooks import Hook

app = typer.Typer(
    help="Hooks for other services: add, list, show, test, send, change, remove.", no_args_is_help=True
)
MAX_FILE_BYTES = 4 * 2**20
"""The largest body that a hook can take."""
HookArgument = Annotated[str, typer.Argument(metavar="HOOK", help="The hook's name.")]


add_list_command(
    app,
    "/v1/hooks",
    {
        "hook": "name",
        "verifies": "verify",
        "path": "path",
        "workspace": "workspace_id",
        "agent": "agent",
        "secrets": "secrets",
        "requests": lambda hook: _counted(hook["requests"]),
        "problems": "problems",
    },
    help="List the hooks, with the requests since the host started.",
    none="no hooks yet: `hostler hooks add NAME verify=github secrets=...` adds one",
)
add_entry_commands(
    app,
    "hooks",
    metavar="HOOK",
    named="The hook's name.",
    show="Show one hook as in a configuration file.",
    add="Add a hook, like `add github verify=github 'secrets=[\"env:GITHUB_SECRET\"]' agent=triage`.",
    change="Change fields of a hook, like `change github map.text=body.issue.title`.",
    remove="Remove a hook: its address is answered with 404 from then on.",
)


@app.command("test")
@server_command
def preview(
    server: Server,
    hook: HookArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='A request as JSON, like {"headers": {"x-github-event": "issues"}, "body": {...}}; '
            "- reads stdin.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the event that a request would become, and the agent that would take it. Nothing is stored."""
    import msgspec

    try:
        sample = msgspec.json.decode(_read(file))
    except msgspec.DecodeError as error:
        fail(f"{file} is not JSON: {error}", USAGE)
    found = server.ask(lambda api: api.post(route("hooks", hook, "preview"), sample))
    write_record(found, _show_preview, as_json=as_json)


@app.command("send")
@server_command
def send(
    server: Server,
    hook: HookArgument,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The body; - reads stdin. Without one a sample is sent."),
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeat it.")
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            help="The secret to sign with, env:NAME or file:PATH of this machine; by default that of the "
            "entry, if the server has its data directory here."
        ),
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="The sender's id of the message; by default a new one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sign a request as the hook's sender does, send it to the running server, and show the answer.

    A server that is named by --url does not choose what is read on this machine: it needs --secret.
    """
    from hostler_protocol.ids import new_id

    given = _headers(headers)
    body = None if file is None else _read(file)

    async def deliver(api: Api) -> tuple[int, bytes, str, str | None]:
        import msgspec

        from hostler.domain.hooks import Hook

        entry = (await api.get(route("config", "hooks", hook)))["entry"]
        known = msgspec.convert(entry, Hook)
        place = _place_of_secret(known, secret, own=server.url is None)
        request = _signed(api.url, known, _secret_at(place), body, given, message_id or new_id())
        reply = await api.deliver(request.url.removeprefix(api.url), request.headers, request.body)
        return reply.status, reply.body, reply.reason, place

    status, answer, reason, place = server.ask(deliver, running=True)
    shown = answer.decode("utf-8", "replace")
    if as_json:
        write_json({"status": status, "body": shown, "secret": place})
    else:
        write_fields((("secret", place or "none"), ("status", f"{status} {reason}"), ("answer", shown)))
    if status >= 300:
        raise typer.Exit(1)


def _signed(
    url: str, hook: Hook, secret: str, body: bytes | None, headers: dict[str, str], message_id: str
) -> SignedRequest:
    from hostler.domain.clock import wall_clock
    from hostler.domain.hook_samples import sample_of, signed
    from hostler.domain.hook_signatures import HookSecretError

    sample, own = sample_of(hook, message_id)
    content = sample if body is None else body
    if body is not None:
        own["content-type"] = "application/json"
    try:
        return signed(
            hook,
            secret,
            f"{url}{hook.path}",
            {**own, **headers},
            content,
            now=wall_clock(),
            message_id=message_id,
        )
    except HookSecretError as error:
        fail(f"{hook.name}: {error}", USAGE)


def _place_of_secret(hook: Hook, wanted: str | None, *, own: bool) -> str | None:
    """Return the reference of the secret to sign with; None for a hook without secrets.

    `own`: the server has its data directory on this machine, so that the references of its entry may be
    looked up here. Another server's would let that server choose a file of this machine, and be sent it.
    """
    from hostler.domain.secret_refs import STORED, is_reference

    reference = wanted or next(iter(hook.secrets), None)
    if reference is None:
        return None
    if wanted is None and not own:
        fail(
            f"the secret of {hook.name} is on the machine of its server ({reference}), which --url names: "
            "say where it is on this one with --secret env:NAME or --secret file:PATH",
            USAGE,
        )
    if reference.startswith(STORED):
        fail(
            f"the secret of {hook.name} is stored by the host ({reference}), which shows it to nobody: "
            "name the same one with --secret env:NAME or --secret file:PATH",
            USAGE,
        )
    if not is_reference(reference):
        fail("--secret: expected env:NAME or file:PATH", USAGE)
    return reference


def _secret_at(place: str | None) -> str:
    from hostler.secrets.resolver import resolve_secret
    from hostler_protocol.errors import HostlerError

    try:
        return "" if place is None else resolve_secret(place) or ""
    except HostlerError as error:
        fail(f"{error.message}; --secret names another place of the secret", USAGE)


def _counted(requests: dict[str, int]) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(requests.items()))


def _headers(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given or []:
        name, equals, value = pair.partition("=")
        fits = name.isascii() and name.isprintable() and value.isascii() and value.isprintable()
        if not equals or not name or not fits:
            fail(f"{pair!r} is not NAME=VALUE, like x-github-event=issues", USAGE)
        found[name.lower()] = value
    return found


def _read(file: Path) -> bytes:
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            data = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}", USAGE)
    if len(data) > MAX_FILE_BYTES:
        fail(f"{file} has more than {MAX_FILE_BYTES:,} bytes, which no hook takes", USAGE)
    return data


def _show_preview(found: dict[str, Any]) -> None:
    import yaml

    routing = found["routing"]
    write_fields((("agent", routing["agent"] or "none"), ("because", routing["text"])))
    for one in found["unmapped"]:
        write_fields(((f"map.{one['field']}", one["problem"]),))
    out().print()
    envelope = _without_empty(found["envelope"])
    text = yaml.safe_dump(envelope, sort_keys=False, allow_unicode=True)
    out().print(text.rstrip(), markup=False, soft_wrap=True)


def _without_empty(value: Any) -> Any:
    """Return an envelope without the fields that say nothing."""
    if not isinstance(value, dict):
        return value
    data = {
        name: inner if name in ("data", "metadata") else _without_empty(inner)
        for name, inner in value.items()
    }
    return {name: inner for name, inner in data.items() if inner not in (None, {}, [])}
