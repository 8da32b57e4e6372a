"""`hostler people` as real commands beside a real server: an unknown person is let in, another is linked."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from support.command_line import CommandLine
from support.loopback import NO_CERTIFICATES

WIRES = Path(__file__).parents[1] / "support" / "plugins" / "wires"
CONFIG = """\
plugins: [{{path: {wires}, level: trusted}}]
agents: [{{name: echo, runner: "plugin:test/wires/echo"}}]
channels:
  - name: help
    channel: "plugin:test/wires/called"
    pairing: true
    config: {{port: 1, token: "file:{token}"}}
"""
pytestmark = pytest.mark.gate("pairing")


def test_people_are_confirmed_linked_listed_and_unlinked(hostler: CommandLine) -> None:
    token, config = hostler.cwd / "token", hostler.cwd / "hostler.yaml"
    token.write_text("t")
    config.write_text(CONFIG.format(wires=WIRES, token=token))
    with hostler.serving("--config", config) as server:
        shown = hostler("channels", "show", "help").out
        assert re.search(r"address +http://\S+/v1/channels/help/webhook", shown), shown
        with httpx.Client(
            base_url=server.url, headers={"x-token": "t"}, verify=NO_CERTIFICATES, timeout=60
        ) as platform:

            def write(by: str, text: str) -> None:
                said = {"id": f"{by} {text}", "text": text, "by": by, "chat": by, "kind": "private"}
                while platform.post("/v1/channels/help/webhook", json=said).status_code == 503:
                    continue  # it is being connected

            assert "nobody waits" in hostler("people", "waiting").err
            write("ann", "hello")
            assert "ann" in hostler("people", "waiting").out
            (told,) = hostler("outbox", "list", "--json").json
            code = re.search(r"\w{4}-\w{4}", told["text"])
            assert code is not None
            wrong = hostler("people", "confirm", "AAAA-AAAA")
            assert (wrong.status, "no person waits with this code" in wrong.err) == (1, True), wrong.err
            done = hostler("people", "confirm", code[0], "--as", "ann@example.org")
            assert "ann of help is let in as ann@example.org" in done.out + done.err
            made = hostler("people", "code", "--as", "ann@example.org", "--json").json
            write("U7", made["code"])
            listed = hostler("people", "list", "--subject", "ann@example.org", "--json").json
            assert [one["person_id"] for one in listed] == ["U7", "ann"]
            write("eve", "hello")
            told = hostler("outbox", "list", "--json").json[0]
            rejected = re.search(r"\w{4}-\w{4}", told["text"])
            assert rejected is not None
            assert hostler("people", "reject", rejected[0]).status == 0
            assert "rejected" in hostler("people", "waiting").out
            nowhere = hostler("people", "link", "hepl", "bob")
            assert "'hepl'; `hostler channels list` lists what exists" in nowhere.error
            linked = hostler("people", "link", "help", "bob", "--name", "Bob")
            assert "Bob of help is bound to person:help/bob" in linked.out + linked.err
            assert "Bob" in hostler("people", "list").out
            assert hostler("people", "unlink", "help", "bob").status == 0
            assert "Bob" not in hostler("people", "list", "--channel", "help").out
