"""Operating a host from the shell: serve, configuration, keys, the ledger, backup, audit, doctor."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.command_line import BOUND_SECONDS, ECHO, GUIDE, CommandLine, Server, until
from support.loopback import NO_CERTIFICATES

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other


def config(path: Path, pace: float = 0.0, **more: object) -> Path:
    agents = [
        {"name": "guide", "runner": "plugin:hostler/guide/default", "config": {"pace": pace}},
        {"name": "echo", "runner": "plugin:acme/echo/default", "event_types": []},
    ]
    plugins = [{"path": str(folder), "level": "trusted"} for folder in (GUIDE, ECHO)]
    path.write_text(json.dumps({"plugins": plugins, "agents": agents, **more}))
    return path


@pytest.fixture
def conf(hostler: CommandLine) -> Path:
    return config(hostler.cwd / "hostler.yaml")


# -- serve ----------------------------------------------------------------------------------------


def test_a_server_says_where_it_is_and_its_key_once(hostler: CommandLine, conf: Path) -> None:
    with hostler.serving("--config", conf) as server:
        server.wait_log("guide")
        assert server.url in server.log
        assert server.key in server.log
        assert (hostler.data / "admin.key").stat().st_mode & 0o777 == 0o600
        refused = hostler("serve", "--port", "0")
        assert refused.status == 2
        assert f"is in use by process {server.process.pid} at {server.url}" in refused.error
        taken = hostler("serve", "--data", "other", "--port", server.url.rpartition(":")[2])
        assert taken.status == 1
        assert "choose another with --host or --port" in taken.error
        wrong = hostler("serve", "--data", "other", "--config", "gone.yaml")
        assert (wrong.status, wrong.error) == (2, "gone.yaml: no such file")
        assert "admin key" not in taken.err + wrong.err  # it is shown once: not by what served nothing
        assert not (hostler.cwd / "other" / "admin.key").exists()
        assert server.stop() == 0
    broken = shutil.copytree(ECHO, hostler.cwd / "broken")
    (broken / "echo.py").write_text("raise SystemExit(3)\n")
    conf = config(conf, plugins=[{"path": str(broken), "level": "trusted"}], agents=[])
    with hostler.serving("--config", conf, "--log-format", "json", "--log-level", "debug") as server:
        httpx.get(f"{server.url}/v1/runs", headers={"authorization": f"Bearer {server.key}"})
        server.wait_log("acme/echo")
        assert server.stop() == 0
        assert server.key not in server.log
        records = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        assert records
        assert all({"at", "level", "logger", "message"} <= record.keys() for record in records)


def test_a_reload_applies_the_file_and_a_broken_one_changes_nothing(hostler: CommandLine, conf: Path) -> None:
    with hostler.serving("--config", conf) as server:
        config(conf, pace=0.25)
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("configuration applied: 1 changes")
        conf.write_text("agentz: []")
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("agentz: unknown key; did you mean 'agents'?")
        found = hostler("agents", "show", "guide", "--json").json
        assert (found["version"], found["spec"]["config"]) == (2, {"pace": 0.25})


def test_sigterm_lets_open_streams_see_the_end(hostler: CommandLine, conf: Path) -> None:
    config(conf, pace=0.01)
    with hostler.serving("--config", conf) as server, server.client() as client:
        body = {"event_type": "message.received", "agent": "guide", "input": {"text": "count to 100"}}
        headers = {"accept": "text/event-stream"}
        with client.stream("POST", "/v1/events", json=body, headers=headers) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("id: 1")
            server.process.send_signal(signal.SIGTERM)
            seen = [line for line in lines if line.startswith("event: ")]
        assert seen[-1] == "event: run.completed"
        assert server.process.wait(BOUND_SECONDS) == 0


# -- configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
def test_apply_shows_what_it_would_change_and_export_gives_it_back(
    hostler: CommandLine, conf: Path, running: bool
) -> None:
    def journey() -> None:
        dry = hostler("apply", conf, "--dry-run")
        assert dry.status == 0
        assert "+ agent guide" in dry.out
        assert "nothing was changed" in dry.err
        assert hostler("agents", "list", "--json").json == []
        applied = hostler("apply", conf, "--json").json
        assert applied["applied"]
        assert [a["name"] for a in hostler("agents", "list", "--json").json] == ["echo", "guide"]
        config(conf, pace=0.5)
        changed = hostler("apply", conf, "--dry-run").out
        assert changed.splitlines() == ["~ agent guide", "    config.pace: 0.0 → 0.5"]
        exported = hostler("export")
        assert "plugin:hostler/guide/default" in exported.out
        (hostler.cwd / "exported.yaml").write_text(exported.out)
        assert "is already like this" in hostler("apply", "exported.yaml").err
        conf.write_text("plugins: [./gone]")
        wrong = hostler("apply", conf)
        assert wrong.status == 2
        assert "there is no plugin folder" in wrong.error
        missing = hostler("apply", "gone.yaml")
        assert (missing.status, missing.error) == (2, "gone.yaml: no such file")

    if running:
        with hostler.serving():
            journey()
    else:
        journey()


def test_secrets_that_are_written_out_are_not_shown(hostler: CommandLine, conf: Path) -> None:
    config(conf, models=[{"id": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "very-secret"}])
    shown = hostler("apply", conf)
    assert 'api_key: "***"' in shown.out
    assert "very-secret" not in shown.out + shown.err
    assert hostler("models", "list", "--json").json[0]["model_id"] == "m"
    config(conf, models=[{"id": "n", "base_url": "http://127.0.0.1:9/v1", "api_key": "env:KEY_OF_N"}])
    assert hostler("apply", conf, env={"KEY_OF_N": "k"}).status == 0
    without = hostler("models", "list", "--json")  # who only looks needs no key of a model
    problems = {model["model_id"]: model["problem"] for model in without.json}
    assert (without.status, problems) == (
        0,
        {"m": None, "n": "api_key: env:KEY_OF_N: the environment variable KEY_OF_N is not set"},
    )


# -- the ledger, plugins and keys -----------------------------------------------------------------


def test_runs_can_be_listed_shown_and_followed_with_and_without_a_server(
    hostler: CommandLine, conf: Path
) -> None:
    with hostler.serving("--config", conf) as server:
        said = hostler("run", "guide", "note: buy bread", "--json").results
        run_id = said[0]["run_id"]
        live = hostler("runs", "tail", run_id, "--json")
        assert (live.status, live.results) == (0, said)
        assert hostler("runs", "tail", run_id, "--json", "--after", "2").results == said[2:]
        assert hostler("plugins", "restart", "acme/echo").status == 0
        states = {p["plugin"]: p["state"] for p in hostler("plugins", "list", "--json").json}
        assert states == {"acme/echo": "ready", "hostler/guide": "ready"}
        assert hostler("plugins", "show", "acme/echo").out.startswith("plugin")
        assert hostler("plugins", "logs", "acme/echo").status == 0
        assert server.stop() == 0
    assert hostler("runs", "tail", run_id, "--json").results == said
    (listed,) = hostler("runs", "list", "--status", "completed", "--json").json
    assert (listed["run_id"], listed["agent"]) == (run_id, "guide")
    assert hostler("runs", "list", "--status", "failed", "--json").json == []
    shown = hostler("runs", "show", run_id, "--journal", "--json").json
    assert "buy bread" in shown["output"]["text"]
    assert [e["type"] for e in shown["journal"] if e["kind"] == "result"] == [r["type"] for r in said]
    gone = hostler("runs", "show", "gone")
    assert gone.status == 1
    assert gone.error == "there is no run 'gone'; `hostler runs list` lists what exists"
    refused = hostler("plugins", "restart", "acme/echo")
    assert refused.status == 2
    assert "start one with `hostler serve" in refused.error


def test_keys_open_what_they_are_for_until_they_are_revoked(hostler: CommandLine, conf: Path) -> None:
    with hostler.serving("--config", conf) as server:
        token = hostler("keys", "create", "ci", "--days", "1").out.strip()
        as_ci = {"HOSTLER_URL": server.url, "HOSTLER_KEY": token}
        assert hostler("run", "echo", "hi", env=as_ci).status == 2  # it may not read agents
        assert hostler("runs", "list", "--json", env=as_ci).json == []
        (record,) = hostler("keys", "list", "--json").json
        assert hostler("keys", "revoke", record["key_id"]).status == 0
        revoked = hostler("runs", "list", env=as_ci)
        assert revoked.status == 1
        assert "refused the key" in revoked.error
        assert "revoked" in hostler("keys", "list").out
        wrong = hostler("keys", "create", "x", "--right", "everything")
        assert wrong.status == 2
        assert "rights[0] is 'everything'; expected one of admin," in wrong.error


# -- facts ----------------------------------------------------------------------------------------


def last_backup(server: Server) -> dict[str, Any]:
    """What the host knows of its last backup."""
    with server.client() as client:
        found: dict[str, Any] = client.get("/v1/backup").json()
    return found


@pytest.mark.gate("full-disk")
def test_a_backup_made_while_writing_holds_one_state_and_can_be_restored(
    hostler: CommandLine, conf: Path, tmp_path: Path
) -> None:
    sent: list[str] = []
    stop = threading.Event()

    def write(url: str, key: str) -> None:
        with httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60, verify=NO_CERTIFICATES
        ) as client:
            while not stop.is_set():
                text = f"note: number {len(sent)}"
                body = {"event_type": "message.received", "agent": "guide", "input": {"text": text}}
                answer = client.post("/v1/events", json=body, params={"wait": 30})
                sent.append(answer.json()["run_id"])

    with hostler.serving("--config", conf) as server:
        writer = threading.Thread(target=write, args=(server.url, server.key))
        writer.start()
        try:
            until(lambda: len(sent) >= 5, "nothing was written")
            before = list(sent)
            assert last_backup(server)["created_at"] is None
            made = hostler("backup", tmp_path / "copy", "--json")
            known = last_backup(server)
        finally:
            stop.set()
            writer.join(BOUND_SECONDS)
    assert made.status == 0
    assert made.json["blobs"] >= 5
    assert known == {name: made.json[name] for name in ("created_at", "version", "blobs", "blob_bytes")}
    again = hostler("backup", tmp_path / "copy")
    assert (again.status, "exists already" in again.error) == (2, True)

    restored = CommandLine(tmp_path / "restored", hostler.cwd)
    assert restored("restore", tmp_path / "copy").status == 0
    runs = {run["run_id"] for run in restored("runs", "list", "--limit", "1000", "--json").json}
    assert set(before) <= runs <= set(sent)
    assert restored("audit", "verify").status == 0
    with restored.serving() as server, server.client() as client:
        artifacts = [
            json.loads(line)["data"]["artifact_id"]
            for line in restored("runs", "tail", before[0], "--json").out.splitlines()
            if '"artifact.created"' in line
        ]
        assert client.get(f"/v1/artifacts/{artifacts[0]}/content").text == "number 0\n"
    refused = restored("restore", tmp_path / "copy")
    assert (refused.status, "has a database already" in refused.error) == (2, True)


@pytest.mark.gate("full-disk")
def test_a_damaged_backup_is_refused_and_leaves_nothing(hostler: CommandLine, tmp_path: Path) -> None:
    hostler("run", GUIDE, "note: x", "--set", "pace=0")
    assert hostler("backup", tmp_path / "copy").status == 0
    (blob,) = (tmp_path / "copy" / "blobs").glob("??/??/*")
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    other = CommandLine(tmp_path / "other", hostler.cwd)
    refused = other("restore", tmp_path / "copy")
    assert refused.status == 1
    assert "is damaged" in refused.error
    assert not (tmp_path / "other" / "hostler.db").exists()
    nothing = other("restore", hostler.cwd)
    assert (nothing.status, "is not a backup" in nothing.error) == (2, True)


@pytest.mark.gate("hash-chains")
def test_audit_finds_one_changed_byte(hostler: CommandLine) -> None:
    for text in ("one", "two", "three"):
        hostler("run", ECHO, text)
    sound = hostler("audit", "verify", "--json")
    assert sound.status == 0
    (events,) = [chain for chain in sound.json if chain["chain"] == "events"]
    assert (events["checked"], events["broken"]) == (3, None)
    with sqlite3.connect(hostler.data / "hostler.db") as connection:
        connection.execute("UPDATE events SET body = replace(body, 'two', 'tvo') WHERE seq = 2")
    connection.close()
    broken = hostler("audit", "verify")
    assert broken.status == 1
    assert broken.error == ("events of workspace default: row 2: the content does not match its digest")


def test_gc_of_one_workspace_leaves_the_others(hostler: CommandLine) -> None:
    hostler("run", ECHO, "x")
    unknown = hostler("gc", "--deltas", "0", "--workspace", "defualt")
    assert unknown.status == 2
    assert "unknown workspace 'defualt': did you mean 'default'?" in unknown.error
    connection = sqlite3.connect(hostler.data / "hostler.db")
    connection.execute(
        "INSERT INTO audit (workspace_id, audit_id, body_digest, actor, action, target, body, created_at)"
        " VALUES ('tenant', 'a1', '', 'test', 'seen', 'x', '{}', 1)"
    )
    connection.commit()
    connection.close()
    other = hostler("gc", "--deltas", "0", "--workspace", "tenant", "--json")
    assert (other.status, other.json.get("deltas", 0)) == (0, 0), other.err
    assert hostler("gc", "--deltas", "0", "--workspace", "default", "--json").json["deltas"] >= 1


def test_gc_frees_what_nothing_names(hostler: CommandLine) -> None:
    hostler("run", ECHO, "x")
    found = hostler("gc", "--deltas", "0", "--json")
    assert found.status == 0
    assert found.json["deltas"] >= 1
    nothing = hostler("gc", "--data", "nowhere")
    assert nothing.status == 2
    assert "there is no database in" in nothing.error


def test_doctor_tells_what_is_wrong_and_what_to_do(hostler: CommandLine) -> None:
    fresh = hostler("doctor", "--json")
    verdicts = {finding["what"]: finding["verdict"] for finding in fresh.json}
    assert fresh.status == 0, fresh.out
    assert verdicts["plugins"] in ("ok", "note")
    for limit in ("memory", "processes", "processor time", "disk", "temporary files", "open files"):
        assert verdicts[f"limit: {limit}"] in ("ok", "note")
    with hostler.serving() as server:
        (hostler.data / "admin.key").chmod(0o644)
        found = hostler("doctor")
        assert found.status == 1
        assert re.search(r"✗ admin key .*chmod 600 it", found.out)
        assert f"process {server.process.pid} is ready at {server.url}" in found.out
