"""`hostler agents`: stored agents and their versions."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from hostler.cli.entries import FieldsArgument, add_entry, change_entry, parse_fields
from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import short, write_done, write_fields, write_indented, write_items, write_record
from hostler.cli.terminal import out

app = typer.Typer(
    help="Agents: add, list, show, versions, change, remove. `hostler apply` adds many at once.",
    no_args_is_help=True,
)
NameArgument = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]
_CONFIG_CHARS = 400
"""The most of a version's configuration in a table; `--json` has all of it."""


@app.command("list")
@server_command
def list_agents(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List agents by name."""
    write_items(
        server.items("/v1/agents", limit=limit),
        {
            "agent": "name",
            "version": "version",
            "runner": _runner,
            "enabled": lambda agent: "yes" if agent["spec"]["enabled"] else "no",
            "events": lambda agent: agent["spec"]["event_types"] or "only by name",
            "problems": lambda agent: _count(agent.get("problems") or []),
        },
        as_json=as_json,
        spare=("enabled", "version", "events"),
        none="no agents yet: `hostler agents add NAME runner=ID` adds one, `hostler apply FILE` many",
    )


@app.command("show")
@server_command
def show_agent(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one agent as in a configuration file, and its problems."""
    write_record(server.get(route("agents", name)), _show, as_json=as_json)


@app.command("versions")
@server_command
def list_versions(
    server: Server, name: NameArgument, limit: LimitOption = 20, as_json: JsonOption = False
) -> None:
    """List an agent's versions, newest first."""
    write_items(
        server.items(route("agents", name, "versions"), limit=limit),
        {
            "version": "version",
            "runner": _runner,
            "config": lambda agent: short(agent["spec"]["config"], _CONFIG_CHARS),
        },
        as_json=as_json,
        none="no versions",
    )


@app.command("add")
@server_command
def add_agent(
    server: Server, name: NameArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Add an agent, like `add clerk runner=plugin:acme/echo/default config.suffix=?`."""
    add_entry(server, "agents", {"name": name, **parse_fields(fields)}, as_json=as_json)


@app.command("change")
@server_command
def change_agent(
    server: Server, name: NameArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change an agent. This makes a new version, which the next event uses."""
    change_entry(server, "agents", name, parse_fields(fields), as_json=as_json)


@app.command("remove")
@app.command("delete", hidden=True)
@server_command
def delete_agent(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove an agent. Its runs continue with the version they use."""
    server.ask(lambda api: api.delete(route("agents", name)))
    write_done({"name": name, "deleted": True}, f"agent {name} is deleted", as_json=as_json)


def _runner(agent: dict[str, Any]) -> Any:
    return agent["spec"]["runner"]


def _count(problems: list[dict[str, Any]]) -> str:
    """Return the numbers of errors and warnings as text, like "1 error, 2 warnings"; "" for none."""
    counts = Counter(problem["severity"] for problem in problems)
    return ", ".join(f"{n} {word}{'s' if n > 1 else ''}" for word, n in sorted(counts.items()))


def _show(agent: dict[str, Any]) -> None:
    import msgspec
    import yaml

    from hostler.domain.agents import AgentSpec
    from hostler.domain.config_changes import sparse

    spec = sparse(msgspec.convert(agent["spec"], AgentSpec))
    write_fields((("agent", agent["name"]), ("version", agent["version"]), ("id", agent["agent_id"])))
    out().print()
    text = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True).rstrip()
    out().print(text, markup=False, soft_wrap=True)
    problems = agent.get("problems") or []
    if problems:
        out().print()
    for problem in problems:
        style = "bold red" if problem["severity"] == "error" else "bold yellow"
        place = f"{problem['place']}: " if problem["place"] else ""
        write_indented([(f"{problem['severity']:9}", style)], f"{place}{problem['problem']}")
