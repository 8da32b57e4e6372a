"""A plugin that keeps every byte it is given: its environment, and all that comes over the wire.

`forms.json` beside it holds the form of each of its runners by name.
"""

import json
import os
import sys
from pathlib import Path

FORMS = json.loads((Path(__file__).parent / "forms.json").read_text())
RECEIVED = Path(os.environ["HOSTLER_PLUGIN_WORKSPACE"]) / "received"


def runner(name: str) -> dict[str, object]:
    """The manifest of one runner."""
    id_ = f"plugin:test/collector/{name}"
    return {"id": id_, "name": name, "label": {"en": name}, "config_schema": FORMS[name]}


def send(**message: object) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(message: dict[str, object]) -> None:
    """Answer a request; a run says its configuration and ends."""
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            plugin = {"author": "test", "name": "collector", "version": "1.0.0"}
            send(id=message["id"], result={"protocol": 1, "plugin": plugin})
        case "runners/list":
            send(id=message["id"], result={"runners": [runner(name) for name in FORMS]})
        case "run/start":
            send(id=message["id"], result={})
            context = params["context"]
            said = {"role": "assistant", "content": json.dumps(context["config"])}
            data = {"type": "message.completed", "sequence": 1, "data": {"message": said}}
            send(method="run/result", params={"run_id": context["run_id"], **data})
            send(method="run/end", params={"run_id": context["run_id"]})
        case _ if "id" in message:
            send(id=message["id"], result={})


with RECEIVED.open("a") as file:
    file.write(json.dumps(dict(os.environ)) + "\n")
    for line in sys.stdin:
        file.write(line)
        file.flush()
        answer(json.loads(line))
