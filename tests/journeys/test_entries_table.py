"""Every kind of entry is added, listed, shown, changed, removed and added again: by file, over HTTP, from the
shell with and without a server; and is there after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hostler.host.config_entries import ENTRY_KINDS
from support.command_line import ECHO, CommandLine
from support.skills import make_skill

pytestmark = pytest.mark.timeout(1200)  # many processes, one after the other


@dataclass(frozen=True)
class Case:
    """An entry: what it is in a file at first, and what is changed then."""

    kind: str
    name: str
    entry: Any
    fields: tuple[str, ...]
    """As the shell adds it, without its name."""
    change: tuple[str, ...]
    changed: Any
    as_listed: Callable[[Any], Any] = lambda entry: entry
    """The file's form as a record shows it."""
    problem: str | None = None
    """What is wrong with it all the same."""


def cases(work: Path) -> list[Case]:
    """One entry of each kind, in an order in which each finds what it needs."""
    echo = str(work / "echo")
    shutil.copytree(ECHO, echo)
    make_skill(work / "skills")
    skills = str(work / "skills")
    runner = "plugin:acme/echo/default"
    return [
        Case(
            "plugins",
            "acme/echo",
            {"path": echo},
            (),
            ("level=trusted",),
            {"path": echo, "level": "trusted"},
        ),
        Case(
            "models",
            "main",
            {"id": "main", "provider": "demo"},
            ("provider=demo",),
            ("context_window=8192", "price.input=0.5"),
            {
                "id": "main",
                "provider": "demo",
                "context_window": 8192,
                "price": {"input": 0.5},
            },
        ),
        Case(
            "tools",
            "fetch:web",
            {"fetch": {"name": "web"}},
            (),
            ("approval=required",),
            {"fetch": {"name": "web", "approval": "required"}},
        ),
        Case("skills", skills, skills, (), (), skills, lambda path: {"path": path}),
        Case(
            "agents",
            "clerk",
            {"name": "clerk", "runner": runner},
            (f"runner={runner}",),
            ("config.suffix=?",),
            {"name": "clerk", "runner": runner, "config": {"suffix": "?"}},
        ),
        Case(
            "webhooks",
            "desk",
            {"name": "desk", "url": "https://example.com/a", "secret": "env:S"},
            ("url=https://example.com/a", "secret=env:S"),
            ("url=https://example.com/b",),
            {"name": "desk", "url": "https://example.com/b", "secret": "env:S"},
        ),
        Case(
            "widgets",
            "help",
            {"name": "help", "agent": "clerk", "origins": ["https://a.example"]},
            ("agent=clerk", 'origins=["https://a.example"]'),
            ("greeting=Hello", "title.zh=\u5e2e\u52a9"),
            {
                "name": "help",
                "agent": "clerk",
                "origins": ["https://a.example"],
                "greeting": "Hello",
                "title": {"zh": "\u5e2e\u52a9"},
            },
        ),
        Case(
            "hooks",
            "code",
            {"name": "code", "verify": "github", "secrets": ["env:S"]},
            ("verify=github", 'secrets=["env:S"]'),
            ('secrets=["env:T","env:S"]', "map.text=body.issue.title"),
            {
                "name": "code",
                "verify": "github",
                "secrets": ["env:T", "env:S"],
                "map": {"text": "body.issue.title"},
            },
        ),
        Case(
            "schedules",
            "morning",
            {"name": "morning", "cron": "0 7 * * *", "agent": "clerk"},
            ("cron=0 7 * * *", "agent=clerk"),
            ("timezone=Europe/Berlin", "jitter=60"),
            {
                "name": "morning",
                "cron": "0 7 * * *",
                "agent": "clerk",
                "timezone": "Europe/Berlin",
                "jitter": 60.0,
            },
        ),
        Case(
            "channels",
            "chat",
            {"name": "chat", "channel": "plugin:acme/echo/chat", "enabled": False},
            ("channel=plugin:acme/echo/chat", "enabled=false"),
            ("agent=clerk", "on_doubt=send_again"),
            {
                "name": "chat",
                "channel": "plugin:acme/echo/chat",
                "enabled": False,
                "agent": "clerk",
                "on_doubt": "send_again",
            },
            problem="plugin 'acme/echo' has no channel 'chat'; it has none",  # disabled, so a warning
        ),
        Case(
            "sign_in",
            "corp",
            {
                "name": "corp",
                "issuer": "https://id.example.com",
                "client_id": "c",
                "redirect_url": "https://h.example.com/v1/auth/callback",
            },
            (
                "issuer=https://id.example.com",
                "client_id=c",
                "redirect_url=https://h.example.com/v1/auth/callback",
            ),
            ('members=[{"group": "g", "role": "reader"}]',),
            {
                "name": "corp",
                "issuer": "https://id.example.com",
                "client_id": "c",
                "redirect_url": "https://h.example.com/v1/auth/callback",
                "members": [{"group": "g", "role": "reader"}],
            },
        ),
        Case(
            "retention",
            "policy",
            {"deltas": 30, "workspaces": {"tenant": {"events": 7}}},
            ("deltas=30", "workspaces.tenant.events=7"),
            ("deltas=60", "workspaces.tenant.events=forever"),
            {"deltas": 60, "workspaces": {"tenant": {"events": "forever"}}},
        ),
        Case(
            "working_folders",
            "policy",
            {"keep_days": 3.0},
            ("keep_days=3",),
            ("keep_days=4",),
            {"keep_days": 4.0},
        ),
        Case(
            "workspaces",
            "tenant",
            {"name": "tenant", "models": ["small"]},
            ('models=["small"]',),
            ('tools=["exec"]',),
            {"name": "tenant", "models": ["small"], "tools": ["exec"]},
        ),
        Case(
            "audit_anchors",
            "policy",
            {"key": "env:K", "file": str(work / "anchors")},
            ("key=env:K", f"file={work / 'anchors'}"),
            ("every_minutes=60",),
            {"key": "env:K", "file": str(work / "anchors"), "every_minutes": 60.0},
        ),
        Case(
            "cors",
            "policy",
            {"origins": ["https://a.example"]},
            ('origins=["https://a.example"]',),
            ("max_age=60",),
            {"origins": ["https://a.example"], "max_age": 60},
        ),
        Case(
            "master_key",
            "policy",
            ["env:K"],
            ('keys=["env:K"]',),
            (f'keys=["env:L","env:K","command:echo {"5c" * 32}"]',),
            ["env:L", "env:K", f"command:echo {'5c' * 32}"],
            lambda keys: {"keys": keys},
        ),
        Case(
            "pause_key",
            "policy",
            ["env:K"],
            ('keys=["env:K"]',),
            ('keys=["env:L","env:K"]',),
            ["env:L", "env:K"],
            lambda keys: {"keys": keys},
        ),
    ]


class Way:
    """One way to change the configuration of a data directory."""

    def __init__(self, hostler: CommandLine) -> None:
        self.hostler = hostler

    def add(self, case: Case) -> None:
        raise NotImplementedError

    def change(self, case: Case) -> None:
        raise NotImplementedError

    def remove(self, case: Case) -> None:
        raise NotImplementedError

    def look(self, case: Case) -> Any:
        """The entry as it is shown; None where there is none."""
        shown = self.hostler("config", "show", case.kind, case.name, "--json")
        if shown.status == 0:
            assert shown.json["problem"] == case.problem
            return shown.json["entry"]
        assert (shown.status, "the configuration has no" in shown.error) == (1, True)
        return None


class OverHttp(Way):
    """`/v1/config/{kind}`."""

    def __init__(self, hostler: CommandLine, client: Any) -> None:
        super().__init__(hostler)
        self.client = client

    def add(self, case: Case) -> None:
        body = case.as_listed(case.entry)
        assert self.client.post(f"/v1/config/{case.kind}", json=body).status_code == 201
        again = self.client.post(f"/v1/config/{case.kind}", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")

    def change(self, case: Case) -> None:
        assert self.client.put(self._path(case), json=case.as_listed(case.changed)).status_code == 200

    def remove(self, case: Case) -> None:
        assert self.client.delete(self._path(case)).status_code == 200
        assert self.client.delete(self._path(case)).status_code == 404

    def look(self, case: Case) -> Any:
        listed = {one["name"]: one for one in self.client.get(f"/v1/config/{case.kind}").json()["items"]}
        found = self.client.get(self._path(case))
        assert (found.status_code == 200) == (case.name in listed)
        return found.json()["entry"] if found.status_code == 200 else None

    def _path(self, case: Case) -> str:
        return f"/v1/config/{case.kind}/{quote(case.name, safe='')}"


class ByFile(OverHttp):
    """`POST /v1/config?prune=true` with all that is to be there, as `hostler apply --prune` sends it."""

    def __init__(self, hostler: CommandLine, client: Any) -> None:
        super().__init__(hostler, client)
        self.file: dict[str, Any] = {}

    def add(self, case: Case) -> None:
        self._apply(case, case.entry)

    def change(self, case: Case) -> None:
        self._apply(case, case.changed)

    def remove(self, case: Case) -> None:
        del self.file[case.kind]
        self._apply(case, None)

    def _apply(self, case: Case, entry: Any) -> None:
        if entry is not None:
            self.file[case.kind] = [entry] if case.name != "policy" else entry
        done = self.client.post("/v1/config", params={"prune": "true"}, json=self.file)
        assert done.status_code == 200, done.text


class FromShell(Way):
    """The commands of each kind."""

    ADD: dict[str, tuple[str, ...]] = {
        "plugins": ("plugins", "add", "./echo"),
        "models": ("models", "add", "main"),
        "tools": ("tools", "add", "fetch:web"),
        "skills": ("skills", "add", "./skills"),
        "agents": ("agents", "add", "clerk"),
        "hooks": ("hooks", "add", "code"),
    }

    def add(self, case: Case) -> None:
        words = self.ADD.get(case.kind, ("config", "set", case.kind, case.name))
        self._run(*words, *case.fields)
        if case.kind in self.ADD:
            again = self.hostler(*words, *case.fields)
            assert (again.status, "already" in again.error) == (1, True)

    def change(self, case: Case) -> None:
        if case.change:
            words = (case.kind, "change") if case.kind in self.ADD else ("config", "set", case.kind)
            self._run(*words, case.name, *case.change)

    def remove(self, case: Case) -> None:
        own = case.kind in self.ADD
        words = (case.kind, "remove") if own else ("config", "remove", case.kind)
        self._run(*words, "./skills" if case.kind == "skills" else case.name)

    def _run(self, *words: str) -> None:
        done = self.hostler(*words)
        assert done.status == 0, done.err


def walk(way: Way, found: list[Case]) -> None:
    """Every verb for every kind; at the end all entries are there, as they were changed."""
    for case in found:
        way.add(case)
        assert way.look(case) == case.as_listed(case.entry)
        way.change(case)
        assert way.look(case) == case.as_listed(case.changed)
        way.remove(case)
        assert way.look(case) is None
        way.add(case)
        way.change(case)


SEALING = "in the clear: a host seals them while it runs"


def check_all(hostler: CommandLine, found: list[Case]) -> None:
    """All entries are as they were changed, and work."""
    listed = {(one["kind"], one["name"]): one for one in hostler("config", "list", "--json").json}
    for one in listed.values():
        if SEALING in (one["problem"] or ""):
            one["problem"] = None  # commands without a server may be over before all is sealed
    assert {key: (one["entry"], one["problem"]) for key, one in listed.items()} == {
        (case.kind, case.name): (case.as_listed(case.changed), case.problem) for case in found
    }
    assert [one["model_id"] for one in hostler("models", "list", "--json").json] == ["main"]
    assert [one["name"] for one in hostler("skills", "list", "--json").json] == ["brewing"]
    assert "hi?" in hostler("run", "clerk", "hi").out


@pytest.mark.parametrize("way", ["file", "http", "shell", "shell without a server"])
def test_every_kind_by_every_way(hostler: CommandLine, way: str) -> None:
    hostler.variables |= {"S": "secret", "T": "another", "K": "ab" * 32, "L": "cd" * 32}
    found = cases(hostler.cwd)
    assert {case.kind for case in found} == set(ENTRY_KINDS)
    if way == "shell without a server":
        walk(FromShell(hostler), found[:1])
        for case in found[1:]:
            FromShell(hostler).add(case)
            FromShell(hostler).change(case)
    else:
        with hostler.serving() as server, server.client() as client:
            ways: dict[str, Way] = {
                "file": ByFile(hostler, client),
                "http": OverHttp(hostler, client),
                "shell": FromShell(hostler),
            }
            walk(ways[way], found)
            check_all(hostler, found)
    with hostler.serving():
        check_all(hostler, found)


def test_a_mistake_of_an_entry_is_told_once(hostler: CommandLine) -> None:
    """The command finds it, and so does the host."""
    refused = hostler("config", "set", "workspaces", "tenant", 'secrets=["A_KEY"]')
    assert refused.status == 2
    assert refused.err.count("expected a reference") == 1
