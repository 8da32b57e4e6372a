"""`hostler explain`: which rule decided a call of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_fields, write_record, write_table
from hostler.cli.terminal import out


@server_command
def explain(
    server: Server,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")],
    call: Annotated[
        str,
        typer.Argument(
            metavar="CALL",
            help="The call's position in the journal, its id, or the id that the model gave it.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Say which rule decided a call of a run, and who approved it.

    Each check in front of the call is listed, with the rules that it went by and where they came from.
    """
    found: dict[str, Any] = server.ask(
        lambda api: api.get(route("runs", run_id, "calls", call, "explanation"))
    )
    write_record(found, _show, as_json=as_json)


def _show(found: dict[str, Any]) -> None:
    version = f"{found['agent'] or 'unknown'} (version {found['agent_version']})"
    write_fields(
        (
            ("call", found["call_id"] or "refused before it had an id"),
            ("position", found["position"] or None),
            ("attempt", found["attempt"] or None),
            ("at", moment(found["at"])),
            ("agent", version),
            ("outcome", found["outcome"]),
            ("decided by", found["decided_by"] or "not recorded"),
            ("because", found["text"]),
        )
    )
    out().print()
    rows = [
        (check["check"], check["result"], rule["source"], rule["field"], rule["text"])
        for check in found["checks"]
        for rule in check["rules"]
    ]
    rows += [
        (
            "approval",
            decision["cause"],
            "people",
            decision["action"],
            f"by {decision['name'] or decision['actor']}",
        )
        for decision in found["decisions"]
        if not found["checks"]
    ]
    write_table(("check", "result", "source", "field", "rule"), rows, none="no checks are recorded")
