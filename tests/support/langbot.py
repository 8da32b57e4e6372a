"""A LangBot installation on disk: its folder `data` with the database, as its versions wrote them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE legacy_pipelines (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, description VARCHAR(255) NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, for_version VARCHAR(255) NOT NULL,
    is_default BOOLEAN NOT NULL, stages JSON NOT NULL, config JSON NOT NULL,
    extensions_preferences JSON);
CREATE TABLE agents (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, kind VARCHAR(50) NOT NULL,
    component_ref VARCHAR(255), config JSON NOT NULL, enabled BOOLEAN NOT NULL);
CREATE TABLE model_providers (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, requester VARCHAR(255) NOT NULL,
    base_url VARCHAR(512) NOT NULL, api_keys JSON NOT NULL);
CREATE TABLE llm_models (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, provider_uuid VARCHAR(255) NOT NULL,
    abilities JSON NOT NULL, extra_args JSON NOT NULL, prefered_ranking INTEGER NOT NULL);
CREATE TABLE embedding_models (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, description VARCHAR(255),
    requester VARCHAR(255) NOT NULL, requester_config JSON NOT NULL, api_keys JSON NOT NULL);
CREATE TABLE rerank_models (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, provider_uuid VARCHAR(255) NOT NULL,
    extra_args JSON NOT NULL);
CREATE TABLE mcp_servers (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, enable BOOLEAN NOT NULL,
    mode VARCHAR(255) NOT NULL, extra_args JSON NOT NULL);
CREATE TABLE plugin_settings (
    plugin_author VARCHAR(255) NOT NULL, plugin_name VARCHAR(255) NOT NULL, enabled BOOLEAN NOT NULL,
    priority INTEGER NOT NULL, config JSON NOT NULL, PRIMARY KEY (plugin_author, plugin_name));
CREATE TABLE knowledge_bases (uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR, description TEXT);
CREATE TABLE webhooks (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL, url VARCHAR(1024) NOT NULL);
CREATE TABLE api_keys (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL, key VARCHAR(255) NOT NULL);
CREATE TABLE bots (
    uuid VARCHAR(255) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, adapter VARCHAR(255) NOT NULL,
    adapter_config JSON NOT NULL, enable BOOLEAN NOT NULL, use_pipeline_name VARCHAR(255),
    use_pipeline_uuid VARCHAR(255));
"""
LATER = {
    "local-agent": "plugin:langbot-team/LocalAgent/default",
    "dify-service-api": "plugin:langbot-team/DifyAgent/default",
    "n8n-service-api": "plugin:langbot/n8n-agent/default",
    "coze-api": "plugin:langbot-team/CozeAgent/default",
    "dashscope-app-api": "plugin:langbot/dashscope-agent/default",
    "langflow-api": "plugin:langbot-team/LangflowAgent/default",
    "tbox-app-api": "plugin:langbot-team/TboxAgent/default",
}
"""Runner of the first generation -> the plugin that has taken its place."""


def legacy(runner: str, section: Any, **stages: Any) -> dict[str, Any]:
    """The configuration of a pipeline of the first generation, which names a built-in runner."""
    return {"ai": {"runner": {"runner": runner, "expire-time": 0}, runner: section}, **stages}


def later(runner: str, section: Any, **stages: Any) -> dict[str, Any]:
    """The configuration of a pipeline whose runners are plugins."""
    chosen = {"id": LATER.get(runner, runner), "expire-time": 0}
    return {"ai": {"runner": chosen, "runner_config": {chosen["id"]: section}}, **stages}


class LangBot:
    """The folder `data` of an installation. `close` ends the program that has its database open."""

    def __init__(self, data: Path, *, wal: bool = False) -> None:
        self.data = data
        self.path = data / "langbot.db"
        (data / "plugins").mkdir(parents=True)
        self.db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        if wal:
            self.db.execute("PRAGMA journal_mode = WAL")
        self.db.executescript(SCHEMA)
        self._count = 0

    def close(self) -> None:
        self.db.close()

    def pipeline(self, name: str, config: Any, *, uuid: str | None = None, preferences: Any = None) -> str:
        """Store a pipeline; a text or bytes are stored as they are."""
        uuid = uuid or self._uuid()
        raw = config if isinstance(config, str | bytes) else json.dumps(config)
        self.db.execute(
            "INSERT INTO legacy_pipelines (uuid, name, description, for_version, is_default, stages, config,"
            " extensions_preferences) VALUES (?, ?, '', '4.0.0', 0, '[]', ?, ?)",
            (uuid, name, raw, None if preferences is None else json.dumps(preferences)),
        )
        return uuid

    def agent(self, name: str, config: Any, *, enabled: bool = True) -> str:
        uuid = self._uuid()
        self.db.execute(
            "INSERT INTO agents VALUES (?, ?, 'agent', NULL, ?, ?)", (uuid, name, json.dumps(config), enabled)
        )
        return uuid

    def provider(
        self, name: str, base_url: str, keys: Any = (), requester: str = "openai-chat-completions"
    ) -> str:
        uuid = self._uuid()
        row = (uuid, name, requester, base_url, json.dumps(keys))
        self.db.execute("INSERT INTO model_providers VALUES (?, ?, ?, ?, ?)", row)
        return uuid

    def model(self, name: str, provider: str, arguments: Any = None) -> str:
        uuid = self._uuid()
        row = (uuid, name, provider, json.dumps(arguments or {}))
        self.db.execute("INSERT INTO llm_models VALUES (?, ?, ?, '[]', ?, 0)", row)
        return uuid

    def server(self, name: str, mode: str, settings: Any, *, enable: bool = True) -> str:
        uuid = self._uuid()
        row = (uuid, name, enable, mode, json.dumps(settings))
        self.db.execute("INSERT INTO mcp_servers VALUES (?, ?, ?, ?, ?)", row)
        return uuid

    def knowledge_base(self, name: str) -> str:
        uuid = self._uuid()
        self.db.execute("INSERT INTO knowledge_bases VALUES (?, ?, '')", (uuid, name))
        return uuid

    def plugin(self, author: str, name: str, *, enabled: bool = True) -> None:
        self.db.execute(
            'INSERT INTO plugin_settings VALUES (?, ?, ?, 0, \'{"key": "plugin-key"}\')',
            (author, name, enabled),
        )

    def bot(self, name: str, pipeline: str) -> None:
        row = (self._uuid(), name, pipeline)
        self.db.execute(
            "INSERT INTO bots (uuid, name, adapter, adapter_config, enable, use_pipeline_name)"
            " VALUES (?, ?, 'telegram', '{\"token\": \"bot-token\"}', 1, ?)",
            row,
        )

    def _uuid(self) -> str:
        self._count += 1
        return f"{self._count:08x}-0000-4000-8000-000000000000"
