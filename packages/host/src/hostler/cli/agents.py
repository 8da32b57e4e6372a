"""`hostler agents`: stored agents and their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, LimitOption, UrlOption
from hostler.cli.output import note, out, write_fields, write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Agents: list, show, versions, delete. `hostler apply` makes them.", no_args_is_help=True
)
NameArgument = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]


@app.command("list")
def list_agents(
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """List agents by name."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        return await api.items("/v1/agents", limit=limit)

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = ((a["name"], a["version"], a["spec"]["runner"], _on(a), _events(a)) for a in found)
    write_table(
        ("agent", "version", "runner", "enabled", "events"),
        rows,
        none="no agents yet: hostler apply config.yaml",
    )


@app.command("show")
def show_agent(
    name: NameArgument,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show one agent, as a configuration file would say it."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.get(f"/v1/agents/{segment(name)}")
        return found

    agent = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(agent)
        return
    import msgspec
    import yaml

    from hostler.cli.configuration import plain
    from hostler.domain.agents import AgentSpec

    spec = plain(msgspec.convert(agent["spec"], AgentSpec))
    write_fields((("agent", agent["name"]), ("version", agent["version"]), ("id", agent["agent_id"])))
    out().print()
    out().print(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True).rstrip(), markup=False)


@app.command("versions")
def list_versions(
    name: NameArgument,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """List an agent's versions, newest first."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        return await api.items(f"/v1/agents/{segment(name)}/versions", limit=limit)

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    import msgspec

    rows = (
        (a["version"], a["spec"]["runner"], msgspec.json.encode(a["spec"]["config"]).decode()) for a in found
    )
    write_table(("version", "runner", "config"), rows, none="no versions")


@app.command("delete")
def delete_agent(
    name: NameArgument, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """Delete an agent. Its runs go on, and stay with the version they used."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    with_api(lambda api: api.delete(f"/v1/agents/{segment(name)}"), url=url, key=key, data=data)
    note(f"agent {name} is deleted")


def _on(agent: dict[str, Any]) -> str:
    return "yes" if agent["spec"]["enabled"] else "no"


def _events(agent: dict[str, Any]) -> str:
    return ", ".join(agent["spec"]["event_types"]) or "only by name"
