"""No secret of LangBot is in what is written, and none of its texts becomes a reference of this host."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.host.config import ConfigFile
from hostler.host.langbot.items import Row, Source
from hostler.host.langbot.plan import plan_import
from hostler.host.langbot.secrets import Secrets, argument_secret, is_secret, url_secret, without_secrets

pytestmark = pytest.mark.gate("langbot-import")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api-key", "x"),
        ("API_KEY", "x"),
        ("AMAP_MAPS_API_KEY", "x"),
        ("Authorization", "x"),
        ("X-Auth-Token", "x"),
        ("key", "x"),
        ("ak", "x"),
        ("basic-password", "x"),
        ("jwt-secret", "x"),
        ("mode", "env:HOME"),
        ("mode", "file:/etc/shadow"),
        ("mode", "secret://other"),
        ("mode", "Bearer abcdefgh12345"),
        ("mode", "sk-abcdefgh12345"),
        ("mode", "app-Abcdefgh12345678"),
        ("mode", "ghp_0123456789abcdef0123"),
        ("mode", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_what_is_taken_for_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api-key", ""),
        ("max_tokens", "100"),
        ("output-key", "response"),
        ("tokenizer", "cl100k"),
        ("basic-username", "ann"),
        ("header-name", "X-Api"),
        ("model", "claude-3-5-sonnet-20241022"),
        ("url", "https://example.com/a/long/path/without/anything"),
        ("mode", "quiet"),
        ("mode", "app-insights-server"),
        ("mode", "sk-learn-tools"),
    ],
)
def test_what_is_not(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_secrets_within_json_are_found_by_the_names_above_them() -> None:
    value = {"OpenAI-1": {"api_key": {"value": "k1", "load": False}, "model": "m"}, "keys": ["k2"], "n": [1]}
    kept, lost = without_secrets({"a": value, "api_keys": ["k3"]})
    assert kept == {
        "a": {"OpenAI-1": {"api_key": {"load": False}, "model": "m"}, "keys": ["k2"], "n": [1]},
        "api_keys": [],
    }
    assert lost == ["a.OpenAI-1.api_key.value", "api_keys[0]"]


def test_addresses_and_commands() -> None:
    assert url_secret("https://u:p@example.com") == "a password"
    assert url_secret("https://mcp.example/mcp?key=abc&x=1") == "a secret, in `key`"
    assert url_secret("https://mcp.example/mcp?lang=en") is None
    assert url_secret("http://[broken") is None
    assert argument_secret(["npx", "-y", "server", "--api-key", "abc"]) == "argument 5, after `--api-key`"
    assert argument_secret(["server", "--token=abc"]) == "argument 2, `token=...`"
    assert argument_secret(["server", "sk-abcdefgh1234"]) == "argument 2"
    assert argument_secret(["npx", "-y", "@scope/server", "--mode", "quiet"]) is None
    assert (
        argument_secret(["npx", "app-insights-server", "--token-file", "/run/token", "--key_env=K"]) is None
    )


def test_one_name_is_one_value() -> None:
    secrets = Secrets()
    first = secrets.reference("Mine", "api-key", "v1", "a", "workspace")
    assert (
        first == secrets.reference("mine!", "api_key", "v1", "b", "workspace") == "env:LANGBOT_MINE_API_KEY"
    )
    assert secrets.reference("Mine", "api-key", "v2", "c", "workspace") == "env:LANGBOT_MINE_API_KEY_2"
    assert secrets.reference("Mine", "api-key", "v2", "c", "installation") == "env:LANGBOT_MINE_API_KEY_2"
    (one, two) = secrets.used_in({"a": [first, "env:LANGBOT_MINE_API_KEY_2"]})
    assert (one.places, two.places) == (["a", "b"], ["c"])
    assert "v1" not in repr(one)
    for value in (" ", "a\x00b", "\ud800", "x" * 40_000):
        assert secrets.reference("Mine", "other", value, "d", "workspace") is None


def test_one_name_of_the_store_is_of_one_owner() -> None:
    secrets = Secrets("store")
    assert secrets.reference("a", "k", "v1", "", "workspace") == "secret://langbot-a-k"
    assert secrets.reference("a", "k", "v2", "", "installation") == "secret://langbot-a-k"
    assert [one.value for one in secrets.used_in("secret://langbot-a-k")] == ["v1", "v2"]


def entries(*rows: Row) -> dict[str, list[dict[str, Any]]]:
    return plan_import(Source("x", rows), ConfigFile(), Secrets()).added()


def test_a_text_that_looks_like_a_reference_is_a_value_and_not_looked_up() -> None:
    """Else whoever wrote LangBot's database could have a file of this machine sent to his server."""
    section = {"api-key": "file:/etc/shadow", "base-url": "https://evil.example"}
    ai = {"runner": {"runner": "dify-service-api"}, "dify-service-api": section}
    settings = {"command": "cat", "env": {"MODE": "file:/etc/shadow", "OTHER": "env:AWS_SECRET"}}
    found = entries(
        Row("pipeline", {"uuid": "1", "name": "a", "config": {"ai": ai}}),
        Row("mcp server", {"uuid": "2", "name": "b", "mode": "stdio", "extra_args": settings}),
        Row("model", {"uuid": "3", "name": "m", "requester": "x-chat-completions", "api_keys": ["env:HOME"],
                      "requester_config": {"base_url": "https://evil.example/v1"}}),
    )  # fmt: skip
    assert found["agents"][0]["config"]["api-key"] == "env:LANGBOT_A_API_KEY"
    assert found["tools"][0]["mcp"]["environment"] == {
        "MODE": "env:LANGBOT_B_MODE",
        "OTHER": "env:LANGBOT_B_OTHER",
    }
    assert found["models"][0]["api_key"] == "env:LANGBOT_X_CHAT_COMPLETIONS_API_KEY"


def test_what_has_a_secret_in_a_place_that_is_none_is_left_out_or_skipped() -> None:
    ai = {
        "runner": {"runner": "langflow-api"},
        "langflow-api": {
            "base-url": "http://u:hunter2@flow.example",
            "api-key": 12345678,
            "flow-id": "f",
            "tweaks": '{"C-1": {"openai_api_key": "sk-tweaked", "temperature": 0.1}}',
        },
    }
    rows = (
        Row("pipeline", {"uuid": "1", "name": "a", "config": {"ai": ai}}),
        Row("mcp server", {"uuid": "2", "name": "b", "mode": "http",
                           "extra_args": {"url": "https://mcp.example/mcp?key=hunter3"}}),
        Row("mcp server", {"uuid": "3", "name": "c", "mode": "stdio",
                           "extra_args": {"command": "x", "args": ["--token", "hunter4"]}}),
        Row("model", {"uuid": "4", "name": "m", "requester": "x-chat-completions",
                      "requester_config": {"base_url": "https://u:hunter5@evil.example/v1"}}),
    )  # fmt: skip
    plan = plan_import(Source("x", rows), ConfigFile(), Secrets())
    (agent,) = plan.added()["agents"]
    assert plan.added().keys() == {"agents"}
    assert agent["config"] == {
        "api-key": "env:LANGBOT_A_API_KEY",
        "flow-id": "f",
        "tweaks": {"C-1": {"temperature": 0.1}},
    }
    assert agent["enabled"] is False
    assert [one.value for one in plan.secrets] == ["12345678"]
    said = str([(item.outcome, item.notes) for item in plan.items])
    assert [value for value in ("hunter", "sk-tweaked", "12345678") if value in said] == []
