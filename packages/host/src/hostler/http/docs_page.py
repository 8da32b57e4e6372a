"""The documentation page: plain HTML generated from the OpenAPI document. No scripts, no external files."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; --mark: #0a7; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font: .9em ui-monospace, monospace; }
pre { overflow: auto; padding: .6rem; border: 1px solid var(--line); border-radius: .3rem; }
details { border-top: 1px solid var(--line); padding: .4rem 0; }
summary { cursor: pointer; }
summary code b { display: inline-block; min-width: 4.5em; color: var(--mark); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
small, .dim { color: var(--dim); }
nav a { margin-right: 1em; }
"""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)


def render(document: dict[str, Any]) -> str:
    """Render the page as HTML."""
    info = document["info"]
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    sections = "".join(
        f'<section><h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(parts)}</section>'
        for tag, parts in by_tag.items()
    )
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    schemas = "".join(
        f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code> '
        f"<small>{escape(str(schema.get('description', '')))}</small></summary>"
        f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre></details>"
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} HTTP API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} HTTP API <small>{escape(info['version'])}</small></h1>"
        f"<p>{_prose(info['description'])}</p>"
        '<p>Machine-readable: <a href="/v1/openapi.json"><code>/v1/openapi.json</code></a></p>'
        f'<nav>{links}<a href="#schemas">schemas</a></nav>{sections}'
        f'<section><h2 id="schemas">schemas</h2>{schemas}</section></body></html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(p['name'])}</code></td><td>{escape(p['in'])}</td>"
        f"<td>{'required' if p['required'] else ''}</td><td>{_schema(p['schema'])}</td></tr>"
        for p in operation["parameters"]
    )
    body = ""
    if "requestBody" in operation:
        kinds = "".join(
            f"<p>Body: <code>{escape(kind)}</code> {_schema(content['schema'])}</p>"
            for kind, content in operation["requestBody"]["content"].items()
        )
        body = kinds + f"<p>{escape(operation['requestBody'].get('description', ''))}</p>"
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(response['description'])}</td><td>"
        + " ".join(
            f"<code>{escape(kind)}</code> {_schema(content['schema'])}"
            for kind, content in response.get("content", {}).items()
        )
        + "</td></tr>"
        for status, response in operation["responses"].items()
    )
    return (
        f"<details><summary><code><b>{escape(method.upper())}</b> {escape(path)}</code> "
        f"{_prose(operation['summary'])}</summary>"
        f"<p>{_prose(operation.get('description', ''))}</p>"
        + (f"<table>{rows}</table>" if rows else "")
        + body
        + f"<table>{answers}</table></details>"
    )


def _schema(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}"><code>{name}</code></a>'
    return f"<code>{escape(json.dumps(schema, ensure_ascii=False))}</code>" if schema else ""


def _prose(text: str) -> str:
    """Render text with `code` in it as HTML."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
