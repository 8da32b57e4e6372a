"""Make model entries of LangBot's models and their providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import fit
from hostler.host.langbot.items import Item, Row
from hostler.host.langbot.naming import plain_name
from hostler.host.langbot.secrets import Secrets, url_secret, without_secrets
from hostler.host.langbot.values import endpoint_of

MAX_ID_CHARS = 200
_LITELLM = {"anthropic-messages": "anthropic/"}
"""Requesters of LangBot with an API of their own -> LiteLLM's prefix of their models."""
_NO_SERVICE = {
    "openai-codex": "signs in to ChatGPT by OAuth, which is not imported",
    "chroma-embedding": "runs inside of LangBot",
    "seekdb-embedding": "runs inside of LangBot",
}
"""Requesters whose models are not reached by an address and a key."""
_NO_LEVEL = (None, "", "provider_default")
_INSTALL = "uses LiteLLM, an extra: pip install 'hostler[litellm]'"


def model_of(
    row: Row, providers: Mapping[str, Row], item: Item, secrets: Secrets, taken: set[str]
) -> dict[str, Any] | None:
    """Return the fields of a model, or None if nothing can be made of it; the item says why.

    LangBot had requester, address and keys in each model first, and in a provider of several models later.
    """
    name = plain_name(row.name)
    if not isinstance(row.values.get("name"), str) or not name:
        item.skip("it has no name, which is how the service calls it")
        return None
    service = _service(row, providers, item)
    if service is None:
        return None
    requester, url, keys, about = service
    entry: dict[str, Any] = {"id": _id(name, about, taken), "provider": "openai", "model": name}
    _address(entry, requester, url, item)
    if item.outcome == "skipped":
        return None
    kind = row.values.get("type", "llm")
    if kind != "llm":
        entry["type"] = kind
    _key(entry, keys, about, item, secrets)
    _arguments(entry, row, item)
    fitted, mistakes = fit(entry, ModelEntry)
    if fitted is None or mistakes:
        item.skip("; ".join(f"{one.place}: {one.text}" for one in mistakes) or "it does not fit a model")
        return None
    taken.add(entry["id"])
    if entry["id"] != row.name:
        item.change(f"has the id {entry['id']!r} here, since ids are not used twice")
    return entry


def _service(row: Row, providers: Mapping[str, Row], item: Item) -> tuple[str, str, Any, str] | None:
    """Return requester, address, keys, and whose keys these are."""
    values = row.values
    if isinstance(values.get("requester"), str):
        settings = values.get("requester_config")
        settings = settings if isinstance(settings, Mapping) else {}
        url = settings.get("base_url") or settings.get("base-url") or ""
        return (
            values["requester"],
            url if isinstance(url, str) else "",
            values.get("api_keys"),
            values["requester"],
        )
    provider = providers.get(str(values.get("provider_uuid")))
    if provider is None:
        item.skip("its provider is not there")
        return None
    if provider.damage:
        item.skip(f"its provider {plain_name(provider.name)!r:.80} is damaged: {provider.damage}")
        return None
    requester, url = provider.values.get("requester"), provider.values.get("base_url")
    if not isinstance(requester, str):
        item.skip("its provider names no requester")
        return None
    return requester, url if isinstance(url, str) else "", provider.values.get("api_keys"), provider.name


def _id(name: str, about: str, taken: set[str]) -> str:
    name = name[:MAX_ID_CHARS]
    found, number = name, 2
    if found in taken:
        found = name = f"{name}@{plain_name(about)[:40]}"
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _address(entry: dict[str, Any], requester: str, url: str, item: Item) -> None:
    url = url.strip()
    if requester in _NO_SERVICE:
        item.skip(_NO_SERVICE[requester])
        return
    if url and (held := url_secret(url)):
        item.skip(f"its address holds {held}: add it with `hostler models add`, with that as `api_key`")
        return
    if url and endpoint_of(url) is None:
        item.skip("its base_url is no address like https://api.example.com/v1")
        return
    prefix = _LITELLM.get(requester)
    if prefix is not None or requester == "litellm-chat":
        entry["provider"], entry["model"] = "litellm", f"{prefix or ''}{entry['model']}"
        item.change(_INSTALL)
    elif requester == "ollama-chat":
        url = url or "http://127.0.0.1:11434"
        parts = urlsplit(url)
        if parts.path in ("", "/"):
            url = urlunsplit((parts.scheme, parts.netloc, "/v1", "", ""))
    elif not url:
        item.skip(f"its requester {plain_name(requester)!r:.80} has no address")
        return
    elif not requester.endswith(("-chat-completions", "-rerank", "-chat")):
        item.change(
            f"its requester {plain_name(requester)!r:.80} is not known: it is taken for one like OpenAI's"
        )
    if url:
        entry["base_url"] = url


def _key(entry: dict[str, Any], keys: Any, about: str, item: Item, secrets: Secrets) -> None:
    found = [keys] if isinstance(keys, str) else keys
    texts = (
        [one for one in found if isinstance(one, str) and one.strip()] if isinstance(found, Sequence) else []
    )
    if found and not texts and found != [""]:
        item.change("its keys are no texts, and are left out")
    if not texts:
        return
    reference = secrets.reference(
        about, "api-key", texts[0].strip(), f"provider {plain_name(about)}: api_keys", "installation"
    )
    if reference is None:
        item.change("its key can be none, and is left out")
        return
    entry["api_key"] = reference
    if len(texts) > 1:
        item.change(f"LangBot has {len(texts)} keys for it and takes them in turn; here it has the first one")


def _arguments(entry: dict[str, Any], row: Row, item: Item) -> None:
    arguments = row.values.get("extra_args")
    if isinstance(arguments, Mapping) and arguments:
        kept, lost = without_secrets(dict(arguments), "extra_args")
        entry["extra_args"] = kept
        if lost:
            item.change(f"left out, since they look like secrets: {', '.join(lost)}")
        if not kept:
            del entry["extra_args"]
    elif arguments not in (None, {}, [], ""):
        item.change("extra_args: is no mapping, and is left out")
    window = row.values.get("context_length")
    if isinstance(window, int) and not isinstance(window, bool) and window > 0:
        entry["context_window"] = window
    reasoning = row.values.get("reasoning_config")
    level = reasoning.get("level") if isinstance(reasoning, Mapping) else None
    if level not in _NO_LEVEL:
        asks = f"`extra_args: {{reasoning_effort: {plain_name(str(level))}}}`"
        item.change(f"its level of reasoning is left out; {asks:.120} asks for it, where the service has it")
    settings = row.values.get("requester_config")
    timeout = settings.get("timeout") if isinstance(settings, Mapping) else None
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0:
        entry["timeout"] = float(timeout)
