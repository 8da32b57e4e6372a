"""`hostler runners`: the runners that come with the host."""

from __future__ import annotations

from hostler.cli.options import JsonOption
from hostler.cli.output import note, report_errors
from hostler.cli.tables import write_items


def runners(as_json: JsonOption = False) -> None:
    """List the runners that come with the host, whether agents use them or not.

    An agent that names one starts it; `hostler plugins list` shows the plugins of the server.
    """
    from hostler.domain.trials import TRIAL_PLUGIN
    from hostler.host.bundled import bundled, shipped_runners
    from hostler.plugins.manifest import read_manifest

    listed = []
    with report_errors():
        for plugin in shipped_runners():
            if plugin == TRIAL_PLUGIN:  # no agent can use it
                continue
            file = read_manifest(bundled("runners", plugin.partition("/")[2])).file
            for runner in file.runners:
                text = runner.description
                listed.append(
                    {
                        "runner": f"plugin:{plugin}/{runner.name}",
                        "description": text.get("en", "") if isinstance(text, dict) else text,
                        "network": file.network,
                        "requires": file.requires,
                    }
                )
    columns = {"runner": "runner", "description": "description"}
    write_items(listed, columns, as_json=as_json, none="this installation has none: install the package")
    if not as_json:
        note("an agent that names one as its `runner` starts it")
