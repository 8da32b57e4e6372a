"""Remote workers from the shell: started, listed, cordoned, drained, removed; and wrong ways to start one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain import worker_limits as limits
from support.command_line import CommandLine, until
from support.http_host import PUPPET
from support.remote_worker import WorkerProcess
from support.server_process import config_file

pytestmark = pytest.mark.timeout(240)
RUNNER = "plugin:test/puppet/default"


def test_a_worker_is_started_and_looked_after(hostler: CommandLine, tmp_path: Path) -> None:
    agent = {"name": "far", "runner": RUNNER, "worker_labels": ["gpu"], "event_types": []}
    config = config_file(hostler.cwd / "c.json", plugins=[PUPPET], agents=[agent])
    with hostler.serving("--config", config) as server:
        assert "no workers yet" in hostler("workers", "list").err
        assert "its runs wait for a worker with label gpu" in hostler("doctor").out
        made = hostler("keys", "create", "w", "--right", "workers:connect", "--json").json
        (tmp_path / "elsewhere").mkdir()
        worker = WorkerProcess(
            tmp_path / "elsewhere", "gpu-1", server.url, made["key"], "gpu,eu", constants={}
        )
        worker.spawn()
        try:
            until(lambda: "is connected to" in worker.log, worker.log)
            ran = hostler("run", "far", "say 2")
            assert (ran.status, "done: say 2." in ran.out) == (0, True), ran.err
            (listed,) = hostler("workers", "list", "--json").json
            assert (listed["worker_id"], listed["labels"], listed["state"]) == (
                "gpu-1",
                ["eu", "gpu"],
                "active",
            )
            shown = hostler("workers", "list").out
            assert ("eu, gpu" in shown, "0 of 4" in shown) == (True, True)
            assert "sandbox" in hostler("workers", "show", "gpu-1").out
            assert "gets no new runs" in hostler("workers", "cordon", "gpu-1").err
            assert hostler("workers", "show", "gpu-1", "--json").json["state"] == "cordoned"
            assert "gets new runs again" in hostler("workers", "uncordon", "gpu-1").err
            missing = hostler("workers", "show", "none-such")
            assert (missing.status, "there is no worker 'none-such'" in missing.error) == (1, True)
            assert "is draining" in hostler("workers", "drain", "gpu-1").err
            until(lambda: "has ended" in worker.log, worker.log)
            assert "it was drained" in hostler("workers", "show", "gpu-1").out
            until(
                lambda: "1 runs: 1 done" in hostler("workers", "show", "gpu-1").out,
                "what the worker did is not shown",
            )
            assert "is removed" in hostler("workers", "remove", "gpu-1").err
            assert hostler("workers", "list", "--json").json == []
        finally:
            worker.end()
        assert limits.BEAT_SECONDS == 15.0


@pytest.mark.parametrize(
    ("arguments", "key", "reason"),
    [
        (("--connect", "ftp://x"), "k", "write it like https://hostler.example.com"),
        (("--connect", "http://127.0.0.1:9"), "", "a worker needs a key with the right workers:connect"),
        (("--connect", "http://127.0.0.1:9", "--labels", "GPU"), "k", "is no label of workers"),
        (("--connect", "http://127.0.0.1:9", "--id", "a/b"), "k", "is no id of a worker"),
        (("--connect", "http://127.0.0.1:9", "--key-file", "none"), "k", "--key-file none cannot be read"),
        (
            ("--connect", "http://127.0.0.1:9", "--trust", "painter"),
            "k",
            "by its author and name, like acme/",
        ),
    ],
)
def test_a_worker_says_what_is_wrong(
    hostler: CommandLine, arguments: tuple[str, ...], key: str, reason: str
) -> None:
    ran = hostler("worker", *arguments, env={"HOSTLER_KEY": key})
    assert (ran.status, reason in ran.error) == (2, True), ran.err


def test_a_key_that_goes_unencrypted_is_warned_of(hostler: CommandLine) -> None:
    for url, is_warned in (("http://hostler.example.com", True), ("http://127.0.0.1:9", False)):
        ran = hostler("worker", "--connect", url, env={"HOSTLER_KEY": ""})
        assert ("hostler.example.com unencrypted: use https" in ran.err) == is_warned, ran.err


def test_a_worker_is_refused_by_a_key_without_the_right(hostler: CommandLine) -> None:
    config = config_file(hostler.cwd / "c.json", plugins=[], agents=[])
    with hostler.serving("--config", config) as server:
        made = hostler("keys", "create", "w", "--right", "runs:read", "--json").json
        file = hostler.cwd / "key"
        for text, reason in (
            (made["key"], "the right 'workers:connect'"),
            ("wrong", "the host refuses this worker"),
        ):
            file.write_text(f"{text}\n")
            ran = hostler("worker", "--connect", server.url, "--key-file", "key", "--id", "w1")
            assert (ran.status, reason in ran.error) == (2, True), ran.err
