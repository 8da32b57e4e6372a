"""Hooks from the shell, with a server and without: added, tried with a sample, sent to, changed, removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.domain.hooks import Hook, Verifier
from support.command_line import CommandLine
from support.hooked import SECRET, secret_of

SECRETS = {"HOOK_SECRET": SECRET, "STANDARD_SECRET": secret_of(Hook(name="s", verify="standard"))}
VERIFIERS: dict[Verifier, list[str]] = {
    "standard": ['secrets=["env:STANDARD_SECRET"]'],
    "github": [],
    "gitlab": [],
    "stripe": [],
    "slack": [],
    "shopify": [],
    "twilio": [],
    "hmac": ["hmac.header=X-Mine", "hmac.timestamp_header=X-Time", "hmac.encoding=base64"],
    "basic": ["username=ann"],
    "bearer": [],
    "none": ["secrets=[]"],
}


@pytest.mark.parametrize("served", [True, False])
def test_hooks_are_added_listed_tried_changed_and_removed(hostler: CommandLine, served: bool) -> None:
    def walk() -> None:
        assert "no hooks yet" in hostler("hooks", "list").err
        added = hostler("hooks", "add", "code", "verify=github", 'secrets=["env:HOOK_SECRET"]')
        assert added.status == 0, added.err
        again = hostler("hooks", "add", "code", "verify=github", 'secrets=["env:HOOK_SECRET"]')
        assert (again.status, "already" in again.error) == (1, True)
        for fields, said in (
            (("verify=githup", 'secrets=["env:S"]'), "did you mean 'github'"),
            (("verify=github", "secrets=[]"), "expected the current secret"),
            (("verify=github", 'secrets=["written out"]'), "never written out"),
            (("verify=github", 'secrets=["env:S"]', "map.text=event.input"), "'event'"),
            (("verify=github", 'secrets=["env:S"]', "map.text=body.("), "is not CEL"),
            (("verify=hmac", 'secrets=["env:S"]'), "it says how requests are signed"),
        ):
            wrong = hostler("hooks", "add", "wrong", *fields)
            assert (wrong.status != 0, said in wrong.error + wrong.err) == (True, True), (fields, wrong.err)
        assert "written out" not in hostler("hooks", "list").out
        changed = hostler("hooks", "change", "code", "map.text=body.title", "map.conversation_id=body.n")
        assert changed.status == 0, changed.err
        assert "text: body.title" in hostler("hooks", "show", "code").out
        sample = hostler.cwd / "sample.json"
        sample.write_text(
            json.dumps({"headers": {"X-GitHub-Event": "issues"}, "body": {"title": "A title", "n": 7}})
        )
        shown = hostler("hooks", "test", "code", sample)
        assert shown.status == 0, shown.err
        assert "text: A title" in shown.out
        assert "source_event_type: issues" in shown.out
        made = hostler("hooks", "test", "code", sample, "--json").json
        assert made["envelope"]["conversation_id"] == "7"
        assert hostler("events", "explain", "-", stdin=json.dumps(made["envelope"])).status in (0, 2)
        sample.write_text('{"body": "')
        assert "is not JSON" in hostler("hooks", "test", "code", sample).error
        missing = hostler("hooks", "test", "none-such", "-", stdin="{}")
        assert (missing.status, "`hostler hooks list`" in missing.error) == (1, True)
        (listed,) = hostler("hooks", "list", "--json").json
        assert (listed["name"], listed["path"], listed["secrets"]) == ("code", "/v1/hooks/code", 1)
        loud = hostler("hooks", "add", "open", "verify=none")
        assert "anyone who knows the address" in loud.err + loud.out
        assert "anyone who knows the address" in hostler("doctor").out
        assert hostler("hooks", "remove", "open").status == 0
        exported = hostler("export").out
        assert "hooks:" in exported
        assert "env:HOOK_SECRET" in exported
        assert hostler("hooks", "remove", "code").status == 0
        assert hostler("hooks", "list", "--json").json == []
        if not served:
            nowhere = hostler("hooks", "send", "code")
            assert (nowhere.status != 0, "no server runs" in nowhere.error) == (True, True)

    hostler.variables |= SECRETS
    if served:
        with hostler.serving():
            walk()
    else:
        walk()


def test_another_server_chooses_nothing_that_is_read_and_sent(hostler: CommandLine, tmp_path: Path) -> None:
    private = hostler.cwd / "private.key"
    private.write_text("CANARY")
    own = hostler.cwd / "own.key"
    own.write_text(SECRET)
    hostler.variables |= SECRETS
    with hostler.serving() as server:
        for name, verify in (("code", "bearer"), ("other", "gitlab")):
            added = hostler("hooks", "add", name, f"verify={verify}", f'secrets=["file:{private}"]')
            assert added.status == 0, added.err
            here = hostler("hooks", "send", name)
            assert (here.status, f"file:{private}" in here.out) == (0, True), here.err  # it says what it read
        with server.client() as client:
            before = client.get("/v1/hooks").json()["items"]
        elsewhere = CommandLine(tmp_path / "elsewhere", hostler.cwd)
        elsewhere.variables = {"HOSTLER_URL": server.url, "HOSTLER_KEY": server.key}
        private.unlink()  # whoever looks for it now says so
        for name in ("code", "other"):
            refused = elsewhere("hooks", "send", name)
            assert (refused.status, "--secret" in refused.error) == (2, True), (refused.out, refused.err)
            assert f"file:{private}" in refused.error
            assert "cannot be read" not in refused.err
        with server.client() as client:
            after = client.get("/v1/hooks").json()["items"]
        assert [one["requests"] for one in after] == [one["requests"] for one in before]  # nothing was sent
        private.write_text("CANARY")
        named = elsewhere("hooks", "send", "code", "--secret", f"file:{own}", "--json")
        assert (named.status, named.json["status"], named.json["secret"]) == (1, 401, f"file:{own}")


def test_a_sample_is_signed_and_sent_in_each_verifiers_way(hostler: CommandLine) -> None:
    hostler.variables |= {**SECRETS, "HOSTLER_OTHER": "another"}
    with hostler.serving() as server:
        for verify, fields in VERIFIERS.items():
            own = ['secrets=["env:HOOK_SECRET"]', *fields]
            added = hostler("hooks", "add", verify, f"verify={verify}", *own)
            assert added.status == 0, (verify, added.err)
            sent = hostler("hooks", "send", verify, "--json")
            assert sent.status == 0, (verify, sent.out, sent.err)
            assert sent.json["status"] == (200 if verify in ("slack", "twilio") else 202)
            if verify not in ("none", "standard"):
                wrong = hostler("hooks", "send", verify, "--secret", "env:HOSTLER_OTHER")
                assert (wrong.status, "401" in wrong.out) == (1, True), (verify, wrong.out)
        with server.client() as client:
            events = client.get("/v1/events").json()["items"]
        assert {event["requester"] for event in events} == {f"hook:{verify}" for verify in VERIFIERS}
        listed = {line.split("\t")[0]: line.split("\t") for line in hostler("hooks", "list").out.splitlines()}
        assert "accepted 1, wrong 1" in listed["stripe"]
        body = hostler.cwd / "body.json"
        body.write_text('{"id": "evt_7"}')
        first = hostler("hooks", "send", "stripe", body, "--json").json
        again = hostler("hooks", "send", "stripe", body, "--json").json
        assert [json.loads(one["body"])["outcome"] for one in (first, again)] == ["accepted", "duplicate"]
        bad = hostler("hooks", "send", "stripe", "--header", "no value")
        assert (bad.status, "NAME=VALUE" in bad.error) == (2, True)
        plain = hostler("hooks", "send", "stripe", "--secret", "written out")
        assert (plain.status, "env:NAME or file:PATH" in plain.error) == (2, True)
        unset = hostler("hooks", "send", "stripe", "--secret", "env:HOSTLER_UNSET")
        assert (unset.status, "HOSTLER_UNSET" in unset.error) == (2, True)
        hostler("hooks", "change", "stripe", 'secrets=["secret://stripe"]')
        stored = hostler("hooks", "send", "stripe")
        assert (stored.status, "shows it to nobody" in stored.error) == (2, True)
