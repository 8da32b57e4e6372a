"""`hostler tokens` and `hostler config set cors`, as real commands beside a real server."""

from __future__ import annotations

import httpx
import pytest

from support.command_line import ECHO, CommandLine
from support.loopback import NO_CERTIFICATES

pytestmark = pytest.mark.gate("front-end-tokens")


def test_tokens_are_made_listed_and_revoked(hostler: CommandLine) -> None:
    config = hostler.cwd / "hostler.yaml"
    config.write_text(
        f"plugins: [{{path: {ECHO}, level: trusted}}]\n"
        'agents: [{name: echo, runner: "plugin:acme/echo/default"}]\n'
        'cors: {origins: ["https://app.example.com"]}\n'
    )
    with hostler.serving("--config", config) as server:
        made = hostler("tokens", "create", "echo", "--minutes", "5", "--origin", "https://a.example")
        token = made.out.strip()
        assert token.startswith("hostler_fe_")
        assert "\n" not in token
        assert "shown only now" in made.err
        assert token not in made.err
        named = hostler(
            *("tokens", "create", "echo", "--conversation", "c1", "--subject", "ada", "--json"),
            *("--right", "runs:read", "--right", "events:write"),
        ).json
        assert named["conversation_id"] == "c1"
        assert (named["subject"], named["rights"]) == ("ada", ["events:write", "runs:read"])
        headers = {"authorization": f"Bearer {named['token']}", "origin": "https://app.example.com"}
        with httpx.Client(base_url=server.url, headers=headers, verify=NO_CERTIFICATES) as page:
            body = {"event_type": "message.received", "input": {"text": "hello"}}
            answer = page.post("/v1/events?wait=60", json=body)
            assert answer.json()["output"]["text"] == "hello!"
            assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
            shown = hostler("tokens", "list")
            assert {"c1", "ada"} <= set(shown.out.split())
            assert token not in shown.out
            listed = hostler("tokens", "list", "--json").json
            assert len(listed) == 2
            revoked = hostler("tokens", "revoke", named["token_id"])
            assert f"token {named['token_id']} is revoked" in revoked.out + revoked.err
            assert page.get("/v1/runs").status_code == 401
            entry = hostler("config", "show", "cors", "--json").json
            assert entry["entry"]["origins"] == ["https://app.example.com"]
            assert hostler("config", "set", "cors", 'origins=["https://b.example"]').status == 0
            answer = page.get("/v1/runs")
            assert "access-control-allow-origin" not in answer.headers
        assert "there is no token 'none'" in hostler("tokens", "revoke", "none").error
        assert "there is no agent" in hostler("tokens", "create", "no-such").error
        wrong = hostler("config", "set", "cors", 'origins=["https://b.example/path"]')
        assert "without a path" in wrong.err
        assert token not in server.log
