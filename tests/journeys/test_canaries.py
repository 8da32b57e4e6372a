"""A canary in every place for secrets, a broad life, and a search of all that the host wrote and sent."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hostler.domain.redaction import forms_of
from hostler.storage.sql.connect import open_database
from support.command_line import BOUND_SECONDS, CommandLine, Server, until
from support.every_row import everything
from support.loopback import NO_CERTIFICATES

pytestmark = [pytest.mark.gate("redaction"), pytest.mark.timeout(600)]
LEAKY = Path(__file__).parents[1] / "support" / "plugins" / "leaky.py"
RUNNER = "plugin:test/leaky/default"
MANIFEST = """
plugin: {author: test, name: leaky, version: 1.0.0}
runners: [{name: default, entry: "leaky:Leaky"}]
"""
WITH_ODD_CHARACTERS = '/+"'
"""In canaries: these are written differently in JSON, in addresses and in base64."""
TAIL = "-4f7a9c"


def canary(of: str) -> str:
    return f"canary{WITH_ODD_CHARACTERS}of-{of}{TAIL}"


ENVIRONMENT = {
    "AGENT": canary("the-agent"),
    "WEBHOOK_SECRET": canary("the-webhook"),
    "WEBHOOK_URL": "set by the test",
    "HOOK": canary("the-hook"),
    "MODEL": canary("the-model"),
    "MCP_ENVIRONMENT": canary("mcp-environment"),
    "MCP_HEADER": canary("mcp-header"),
    "MCP_TOKEN": canary("mcp-token"),
    "OPENAPI": canary("openapi"),
    "SIGN_IN": canary("sign-in"),
    "ANCHORS": canary("the-anchors") + "x" * 32,
    "PAUSES": "",
}
MASTER, PAUSES = os.urandom(32), os.urandom(32)


class Echo(BaseHTTPRequestHandler):
    """A service that answers everything with an error that repeats what it was sent, in several forms."""

    seen: list[str]

    def do_POST(self) -> None:
        if self.path.endswith("/.well-known/openid-configuration"):
            self._answer(200, metadata(f"http://{self.headers['host']}"))
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        values = [
            value for value in self.headers.values() if TAIL in value or value[:6] in {"Bearer", "Basic "}
        ]
        values += [self.path] if TAIL in self.path else []
        said = [form for value in values for form in (value, value.removeprefix("Bearer "))]
        said += [base64.b64encode(f"x{value}".encode()).decode() for value in said]
        self.server.seen.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        answer = json.dumps({"error": {"message": f"not for {said}", "code": 500}, "said": said}).encode()
        self._answer(500, answer)

    def _answer(self, status: int, answer: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


def metadata(issuer: str) -> bytes:
    """What the identity provider says of itself."""
    places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
    return json.dumps({"issuer": issuer, **{key: f"{issuer}/{at}" for key, at in places.items()}}).encode()


@contextlib.contextmanager
def echoing() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Life:
    """What happens, and all that was written and sent."""

    hostler: CommandLine
    folder: Path
    said: dict[str, bytes] = field(default_factory=dict)
    """Where it was said -> the bytes."""
    canaries: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path, stdin: str = "", fails: bool = False) -> str:
        ran = self.hostler(*arguments, stdin=stdin)
        assert (ran.status == 0) is not fails, (arguments, ran.out, ran.err)
        self.said[f"hostler {' '.join(map(str, arguments))} #{len(self.said)}"] = (ran.out + ran.err).encode()
        return ran.out

    def ask(self, client: httpx.Client, method: str, path: str, **given: Any) -> httpx.Response:
        answer = client.request(method, path, **given)
        self.said[f"{method} {path} #{len(self.said)}"] = answer.content + str(answer.headers).encode()
        return answer

    def say(self, client: httpx.Client, text: str, agent: str = "leaky") -> dict[str, Any]:
        body = {"event_type": "message.received", "input": {"text": text}, "agent": agent}
        run = self.ask(client, "POST", "/v1/events", json=body, params={"wait": 60}).json()
        for path in ("", "/journal", "/export", "/stream"):
            self.ask(client, "GET", f"/v1/runs/{run['run_id']}{path}")
        return dict(run)

    def collect(self, folder: Path) -> None:
        """All files below a folder, as they are now."""
        for file in sorted(folder.rglob("*")):
            if file.name == "erasure.key":
                for key in file.read_text().split():
                    self.canaries[f"erasure key {key[:4]}"] = key
            elif file.is_file() and not file.is_symlink():
                with contextlib.suppress(FileNotFoundError):
                    self.said[f"{file} #{len(self.said)}"] = file.read_bytes()

    def found(self) -> list[str]:
        """Where a canary is, in whatever form."""
        wanted = {
            form.encode("utf-8", "surrogateescape"): name
            for name, value in self.canaries.items()
            for form in {*forms_of(value), *_raw_forms(value)}
        }
        return [
            f"{name} in {place} as {form[:40]!r}"
            for place, data in self.said.items()
            for form, name in wanted.items()
            if form in data
        ]


def _raw_forms(value: str) -> set[str]:
    """A key in hexadecimal digits may be written down as the key itself."""
    try:
        raw = bytes.fromhex(value)
    except ValueError:
        return set()
    return {raw.decode("utf-8", "surrogateescape"), base64.b64encode(raw).decode().rstrip("=")}


def configuration(folder: Path, port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}"
    document = {
        "openapi": "3.0.3",
        "info": {"title": "echo", "version": "1"},
        "servers": [{"url": url}],
        "security": [{"key": []}],
        "paths": {"/boom": {"get": {"operationId": "boom", "responses": {"200": {"description": "never"}}}}},
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-key"}}},
    }
    (folder / "echo.json").write_text(json.dumps(document))
    failing = "import os, sys; sys.exit('cannot sign in with ' + os.environ['KEY'])"
    loopback = ["127.0.0.0/8"]
    model = {"provider": "openai", "base_url": f"{url}/v1", "model": "x", "max_retries": 0}
    agent = {
        "name": "leaky",
        "runner": RUNNER,
        "config": {"key": "env:AGENT", "more": f"file:{folder / 'secret-file'}", "model": "m"},
        "resource_policy": {"allowed_tool_names": ["*"]},
        "recovery": {"on_crash": "fail"},
    }
    return {
        "plugins": [{"path": str(folder / "leaky"), "level": "trusted"}],
        "master_key": [f"command:cat {folder / 'master'}"],
        "pause_key": ["env:PAUSES"],
        "models": [
            {**model, "id": "m", "api_key": "env:MODEL"},
            {**model, "id": "stored", "api_key": "secret://model"},
            {**model, "id": "written", "api_key": canary("the-written-model").replace(chr(34), "")},
        ],
        "tools": [
            {
                "mcp": {
                    "name": "pipe",
                    "command": [sys.executable, "-c", failing],
                    "level": "trusted",
                    "environment": {"KEY": "env:MCP_ENVIRONMENT"},
                }
            },
            {
                "mcp": {
                    "name": "web",
                    "url": f"{url}/mcp",
                    "network": loopback,
                    "token": "env:MCP_TOKEN",
                    "headers": {"x-key": "env:MCP_HEADER"},
                }
            },
            {"mcp": {"name": "kept", "url": f"{url}/mcp", "network": loopback, "token": "secret://mcp"}},
            {
                "openapi": {
                    "name": "echo",
                    "document": str(folder / "echo.json"),
                    "network": loopback,
                    "auth": {"key": "env:OPENAPI"},
                }
            },
        ],
        "webhooks": [
            {"name": "hook", "url": "env:WEBHOOK_URL", "secret": "env:WEBHOOK_SECRET", "network": loopback},
            {"name": "kept", "url": f"{url}/kept", "secret": "secret://hook", "network": loopback},
        ],
        "sign_in": [
            {
                "name": "idp",
                "issuer": url,
                "client_id": "hostler",
                "client_secret": "env:SIGN_IN",
                "redirect_url": "http://127.0.0.1:8420/v1/auth/callback",
                "network": loopback,
            }
        ],
        "hooks": [{"name": "in", "verify": "bearer", "secrets": ["env:HOOK"]}],
        "audit_anchors": {"key": "env:ANCHORS", "webhook": "kept", "every_minutes": 1},
        "agents": [
            agent,
            {
                **agent,
                "name": "stored",
                "config": {"key": "secret://agent", "model": "stored", "assets-enabled": True},
            },
        ],
    }


async def rows_of(database: str) -> bytes:
    opened = open_database(database)
    try:
        return (await opened.read(everything)).encode("utf-8", "surrogateescape")
    finally:
        await opened.close()


async def test_no_canary_is_in_any_byte_that_the_host_wrote_or_sent(
    tmp_path: Path, database_url: str
) -> None:
    plugin = tmp_path / "leaky"
    plugin.mkdir()
    shutil.copy(LEAKY, plugin / "leaky.py")
    (plugin / "hostler.yaml").write_text(MANIFEST)
    (tmp_path / "master").write_text(MASTER.hex())
    (tmp_path / "secret-file").write_text(canary("the-file"))
    postgres = database_url if database_url.startswith("postgresql:") else None
    with echoing() as echo:
        port = echo.server_address[1]
        hook = f"http://127.0.0.1:{port}/hook?token={httpx.QueryParams({'t': canary('the-hook')})}"
        variables = ENVIRONMENT | {"WEBHOOK_URL": hook, "PAUSES": PAUSES.hex()}
        admin = canary("the-administrator").replace('"', "")
        variables["HOSTLER_ADMIN_KEY"] = variables["HOSTLER_KEY"] = admin
        where = {"HOSTLER_ERASURE_KEY": str(tmp_path / "data" / "erasure.key")}
        life = Life(CommandLine(tmp_path / "data", tmp_path, **variables, **where), tmp_path)
        life.canaries |= {name: value for name, value in variables.items() if name.isupper()}
        life.canaries |= {
            "file": canary("the-file"),
            "master": MASTER.hex(),
            "stored agent": canary("stored-agent"),
            "stored model": canary("stored-model"),
            "stored mcp": canary("stored-mcp"),
            "stored hook": canary("stored-hook"),
            "written out": canary("the-written-out"),
            "moved": canary("the-moved"),
            "written model": canary("the-written-model").replace('"', ""),
        }
        config = tmp_path / "config.yaml"
        config.write_text(yaml.safe_dump(configuration(tmp_path, port)))
        options = ["--log-level", "debug", *(["--database", postgres] if postgres else [])]
        with life.hostler.serving(*options) as server:
            live(life, server, config, admin)
            life.collect(tmp_path / "data")  # the log of writes too, and what a stop would tidy up
            server.stop(signal.SIGKILL)
            life.said["log of the first server"] = server.log.encode()
        life.collect(tmp_path / "data")
        with life.hostler.serving(*options, "--log-format", "json") as server:
            with client_of(server, admin) as client:
                life.say(client, "raise")
                for path in ("problems", "audit", "webhooks/deliveries", "mcp-servers"):
                    life.ask(client, "GET", f"/v1/{path}", params={} if path != "audit" else {"limit": 100})
            life.run("doctor", "--url", server.url, fails=True)
            life.run("config", "list")
            server.stop()
            life.said["log of the second server"] = server.log.encode()
        life.collect(tmp_path / "data")
        if postgres is None:
            life.run("backup", tmp_path / "backup")
            life.collect(tmp_path / "backup")
            life.run("audit", "verify")
        life.said["rows"] = await rows_of(postgres or str(tmp_path / "data" / "hostler.db"))
        posts = [json.dumps([path, body.decode()]) for path, _, body in echo.seen if "/v1/" not in path]  # type: ignore[attr-defined]
        life.said["bodies of webhooks"] = (
            "\n".join(post for post in posts if "hook" in post or "kept" in post)
            .replace(hook.partition("?")[2], "")
            .encode()
        )
        sent = str([headers for _, headers, _ in echo.seen])  # type: ignore[attr-defined]
    life.canaries |= {
        f"run token {number}": token
        for number, token in enumerate((plugin / "tokens").read_text().split(), 1)
    }
    assert "Basic " in sent, "the client's secret was never used"
    for name in (
        "MODEL",
        "MCP_HEADER",
        "MCP_TOKEN",
        "OPENAPI",
        "stored model",
        "stored mcp",
        "written model",
    ):
        assert life.canaries[name] in sent.replace("\\'", "'"), f"{name} was never used"
    assert [name for name in life.canaries if name.startswith("erasure key")]
    places = "\n".join(life.said)
    assert "log of the first server" in places
    assert len(life.canaries) >= 18
    assert life.found() == []


def live(life: Life, server: Server, config: Path, admin: str) -> None:
    """Use everything that has a secret, and let everything fail that can."""
    life.run("config", "set", "master_key", f'keys=["command:cat {life.folder / "master"}"]')
    for name, of in (("agent", "stored-agent"),):
        life.run("secrets", "set", name, stdin=canary(of))
    for name, of in (("model", "stored-model"), ("mcp", "stored-mcp"), ("hook", "stored-hook")):
        life.run("secrets", "set", name, "--installation", stdin=canary(of))
    life.run("apply", config)
    with client_of(server, admin) as client:
        for text in ("ok", "raise", "print", "crash", "model m", "tool echo.boom"):
            life.say(client, text)
        for text in ("ok", "raise", "print", "crash", "model stored"):
            life.say(client, text, "stored")
        until(
            lambda: all(
                server["state"] in {"failed", "down"}
                for server in client.get("/v1/mcp-servers").json()["items"]
            ),
            "the MCP servers have not failed yet",
        )
        life.say(client, "tool pipe.anything")
        key = client.post("/v1/keys", json={"name": "k", "rights": ["runs:read"]}).json()["key"]
        remote = client.post("/v1/keys", json={"name": "r", "plugin": "test/remote"}).json()["key"]
        life.canaries |= {"API key": key, "plugin token": remote}
        for token in (key, remote, "hostler_" + "x" * 43):
            with httpx.Client(
                base_url=server.url, headers={"authorization": f"Bearer {token}"}, verify=NO_CERTIFICATES
            ) as other:
                for path in ("/v1/runs", "/v1/agents", f"/v1/{token}", f"/v1/runs?cursor={token}"):
                    if token not in path:
                        life.ask(other, "GET", path)
                life.ask(other, "POST", "/v1/events", json={"event_type": 7})
        for name, secret in (("moved", "the-moved"), ("written", "the-written-out")):
            life.ask(client, "PUT", f"/v1/agents/{name}", json=written_out(name, canary(secret)))
            life.ask(client, "GET", f"/v1/agents/{name}/versions")
            life.say(client, "raise", name)
        life.run("secrets", "move", "agents", "moved", "key", "moved")
        life.say(client, "raise", "moved")
        life.say(client, "model written", "written")
        listed = (
            "agents config config/models config/agents problems audit secrets master-keys usage events keys"
        )
        for path in [*(f"/v1/{name}" for name in listed.split()), "/metrics", "/v1/openapi.json", "/docs"]:
            answer = life.ask(client, "GET", path)
            assert answer.status_code == 200, path
        plugin = "/v1/plugins/test%2Fleaky"
        for path in (plugin, f"{plugin}/logs", "/v1/mcp-servers", "/v1/tools", "/readyz", "/v1/runs"):
            life.ask(client, "GET", path)
        sign_in(life, server)
        hooks(life, server)
        deliveries(life, client)
        runs = client.get("/v1/runs").json()["items"]
    for run in runs[:8]:
        life.run("runs", "show", run["run_id"])
        life.run("runs", "export", run["run_id"])
    life.run("export")
    life.run("plugins", "show", "test/leaky")
    life.run("plugins", "logs", "test/leaky")
    life.run("tools", "servers")
    life.run("secrets", "list")
    life.run("secrets", "list", "--installation")
    life.run("secrets", "keys")


def written_out(name: str, secret: str) -> dict[str, Any]:
    return {"name": name, "runner": RUNNER, "config": {"key": secret, "model": "written"}}


def sign_in(life: Life, server: Server) -> None:
    """Come back from the identity provider with a code, which it does not accept from this host."""
    with httpx.Client(base_url=server.url, verify=NO_CERTIFICATES) as browser:
        begun = life.ask(browser, "GET", "/v1/auth/sign-in", params={"provider": "idp"})
        sent = httpx.URL(begun.headers["location"]).params
        query = {"code": "a-code", "state": sent["state"]}
        back = life.ask(browser, "GET", "/v1/auth/callback", params=query)
        assert back.status_code >= 300, back.text


def hooks(life: Life, server: Server) -> None:
    """Send to a hook with its secret, and with the secret elsewhere than it belongs."""
    secret = ENVIRONMENT["HOOK"].encode()
    with httpx.Client(base_url=server.url, verify=NO_CERTIFICATES) as sender:
        taken = life.ask(
            sender, "POST", "/v1/hooks/in", json={"n": 1}, headers={b"authorization": b"Bearer " + secret}
        )
        assert taken.status_code == 202, taken.text
        for wrong in ({b"authorization": b"Basic " + secret}, {b"x-other": secret}):
            refused = life.ask(sender, "POST", "/v1/hooks/in", json={"n": 2}, headers=wrong)
            assert refused.status_code == 401, refused.text


def deliveries(life: Life, client: httpx.Client) -> None:
    """Wait until both webhooks were tried: the anchors go to one of them at once."""
    until(
        lambda: any(
            problem["kind"] == "audit_anchors" for problem in client.get("/v1/problems").json()["items"]
        ),
        "no anchors were sent",
    )
    life.ask(client, "GET", "/v1/problems")
    life.ask(client, "GET", "/v1/webhooks/deliveries")


@contextlib.contextmanager
def client_of(server: Server, admin: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {admin}"}
    with httpx.Client(
        base_url=server.url, headers=headers, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES
    ) as client:
        yield client
