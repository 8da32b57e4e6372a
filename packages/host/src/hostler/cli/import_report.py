"""The report of an import: every item with what became of it, and the secrets that are to be set."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hostler.cli.output import note
from hostler.cli.tables import write_table
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from hostler.host.langbot.plan import Plan

WORDS = {
    "imported": ("✓", "green", "imported"),
    "changed": ("✓", "green", "imported with changes"),
    "unchanged": ("=", "dim", "unchanged"),
    "kept": ("!", "yellow", "not imported, another one is kept"),
    "skipped": ("✗", "red", "skipped"),
    "off": ("!", "yellow", "imported, switched off until something is there"),
}
"""What became of an item -> its mark, its colour, and the words for it."""
TITLES = {
    "pipeline": "Pipelines",
    "agent": "Agents",
    "model": "Models",
    "provider": "Model providers",
    "mcp server": "MCP servers",
    "plugin": "Plugins",
    "skill": "Skills",
    "knowledge base": "Knowledge bases",
    "bot": "Bots",
    "webhook": "Webhooks",
    "api key": "API keys",
    "table": "Tables that are damaged",
}
STATES = {
    "set": "set",
    "missing": "to be set",
    "written": "written to the file",
    "pending": "to be stored",
    "stored": "stored",
    "kept": "was stored already, and stays",
}
"""The state of a secret -> the words for it."""
MAX_LISTED = 500
"""Items shown on a terminal; `--json` and a pipe have all."""


def report_of(
    source: str, output: str, plan: Plan, states: Mapping[str, str], *, written: bool
) -> dict[str, Any]:
    """Return the report as JSON. It has no value of a secret."""
    items = [
        {
            "kind": item.kind,
            "name": item.name,
            "id": item.uuid or None,
            "outcome": item.outcome,
            "entry": item.entry,
            "enabled": item.enabled,
            "notes": item.notes,
        }
        for item in plan.items
    ]
    secrets = [
        {
            "reference": one.reference,
            "owner": one.owner,
            "state": states.get(one.reference, "missing"),
            "from": one.places,
        }
        for one in plan.secrets
    ]
    return {
        "source": source,
        "output": output,
        "written": written,
        "complete": plan.is_whole,
        "items": items,
        "secrets": secrets,
        "entries": plan.added(),
    }


def show_report(report: Mapping[str, Any], *, dry_run: bool, env_file: str | None) -> None:
    """Print the report: for people on a terminal, in columns in a pipe."""
    if sys.stdout.isatty():
        _show_items(report["items"])
        _show_secrets(report["secrets"])
    else:
        rows = (
            [_state(one), one["kind"], one["name"], one["entry"], "; ".join(one["notes"])]
            for one in report["items"]
        )
        rows_of_secrets = (
            ["secret", one["state"], one["reference"], "", ", ".join(one["from"])]
            for one in report["secrets"]
        )
        shown = ([visible(str(cell or "")) for cell in row] for row in (*rows, *rows_of_secrets))
        write_table(["", "", "", "", ""], shown, none="LangBot has nothing that could be imported")
    for line in _summary(report, dry_run=dry_run, env_file=env_file):
        note(line)


def _state(item: Mapping[str, Any]) -> str:
    is_off = item["outcome"] in ("imported", "changed", "unchanged") and not item["enabled"]
    return "off" if is_off else str(item["outcome"])


def _show_items(items: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    width = out().width
    for kind, group in groupby(items[:MAX_LISTED], key=lambda item: item["kind"]):
        out().print(Text(TITLES[kind], style="bold"))
        for item in group:
            mark, style, words = WORDS[_state(item)]
            line = Text.assemble("  ", (mark, style), " ", visible(item["name"]))
            if item["entry"]:
                line.append(f"  → {visible(item['entry'])}", "cyan")
            line.append(f"  {words}", style if style != "green" else "dim")
            out().print(line)
            for text in item["notes"]:
                for number, piece in enumerate(_wrapped(visible(text), width - 6)):
                    out().print(
                        Text(f"    {'· ' if number == 0 else '  '}{piece}", style="dim"), soft_wrap=True
                    )
    if len(items) > MAX_LISTED:
        out().print(f"and {len(items) - MAX_LISTED:,} more: --json lists all")


def _show_secrets(secrets: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    if not secrets:
        return
    out().print(Text("Secrets", style="bold"))
    for one in secrets[:MAX_LISTED]:
        is_there = one["state"] not in ("missing", "pending")
        mark, style = ("✓", "green") if is_there else ("○", "yellow")
        line = Text.assemble("  ", (mark, style), " ", one["reference"], (f"  {STATES[one['state']]}", "dim"))
        out().print(line, soft_wrap=True)
        for piece in _wrapped(visible(", ".join(one["from"])), out().width - 6):
            out().print(Text(f"    {piece}", style="dim"), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 24), break_long_words=False, break_on_hyphens=False) or [""]


def _summary(report: Mapping[str, Any], *, dry_run: bool, env_file: str | None) -> Iterator[str]:
    states = [_state(item) for item in report["items"]]
    count = {name: states.count(name) for name in WORDS}
    parts = [
        f"{count['imported'] + count['changed']} imported",
        f"{count['off']} imported but switched off" if count["off"] else "",
        f"{count['unchanged']} unchanged" if count["unchanged"] else "",
        f"{count['kept']} not imported, since another one is kept" if count["kept"] else "",
        f"{count['skipped']} skipped" if count["skipped"] else "",
    ]
    yield ", ".join(filter(None, parts))
    output = visible(str(report["output"]))
    if dry_run:
        yield f"nothing was written (--dry-run); {output} would be"
        return
    if env_file is not None and report["secrets"]:
        yield f"the variables are in {visible(env_file)}: `set -a; . {visible(env_file)}; set +a` sets them"
    if report["written"]:
        yield f"written to {output}: `hostler apply {output}` applies it, with --dry-run only checks it"
    else:
        yield f"{output} was left as it is: there is nothing to add"
    if any(item["entry"] and str(item["entry"]).startswith("agents ") for item in report["items"]):
        yield "agents are reached by name (`hostler chat NAME`); `event_types` routes events to one"
