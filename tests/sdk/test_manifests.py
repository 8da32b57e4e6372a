"""Manifests, built from a class and hostler.yaml."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from hostler_protocol import PluginIdentity
from hostler_sdk import Runner
from hostler_sdk.loading import PluginLoadError, read_plugin_file
from hostler_sdk.runner import ManifestError, Statements, manifest_of

ACME = PluginIdentity(author="acme", name="shop")


class Stated(Runner):
    """Sells things.

    And takes them back.
    """

    capabilities = frozenset({"streaming", "resumable"})
    permissions: ClassVar = {"history": ("page",)}
    config: ClassVar = [{"name": "suffix", "type": "string", "default": "!"}]


class Bare(Runner):
    pass


def test_the_class_states_its_manifest() -> None:
    manifest = manifest_of(Stated, ACME)
    assert manifest.id == "plugin:acme/shop/default"
    assert manifest.label == {"en": "Sells things"}
    assert manifest.description == {"en": "And takes them back."}
    assert (manifest.capabilities.streaming, manifest.capabilities.resumable) == (True, True)
    assert not manifest.capabilities.steering
    assert manifest.permissions.history == ["page"]
    assert [item.name for item in manifest.config_schema] == ["suffix"]


def test_a_class_without_docstring_is_labelled_by_its_name_and_states_nothing() -> None:
    manifest = manifest_of(Bare, ACME)
    assert manifest.label == {"en": "Bare"}  # and not the docstring of Runner
    assert manifest.description is None
    assert manifest.config_schema == []


def test_hostler_yaml_wins_over_the_class() -> None:
    stated = Statements(
        name="seller",
        label={"en": "Seller", "zh": "卖家"},
        capabilities={"streaming": False, "steering": True},
        permissions={"models": ["invoke"]},
        config=[],
    )
    manifest = manifest_of(Stated, ACME, stated)
    assert manifest.id == "plugin:acme/shop/seller"
    assert manifest.label == {"en": "Seller", "zh": "卖家"}
    assert manifest.description == {"en": "And takes them back."}  # not stated there: the class's holds
    assert (manifest.capabilities.streaming, manifest.capabilities.steering) == (False, True)
    assert (manifest.permissions.history, manifest.permissions.models) == ([], ["invoke"])
    assert manifest.config_schema == []


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"capabilities": ["flying"]}, "unknown capability 'flying'; known are streaming"),
        ({"permissions": {"history": ["delete"]}}, "permissions: Invalid enum value 'delete'"),
        ({"permissions": {"moon": []}}, "permissions: Object contains unknown field `moon`"),
        ({"config": [{"name": "a"}]}, "config: Object missing required field `type`"),
        ({"config": [{"name": "a", "type": "json"}] * 2}, "config: two items are named 'a'"),
    ],
)
def test_a_wrong_statement_is_named(stated: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        manifest_of(Bare, ACME, Statements(**stated))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "must be a mapping that begins with `plugin:`"),
        ({}, "missing required field `plugin`"),
        ({"plugin": {"author": "a b", "name": "x"}}, "'a b' is not a plugin author or name"),
        ({"plugin": {"author": "a", "name": "x"}, "runner": []}, "unknown field `runner`"),
        (
            {"plugin": {"author": "a", "name": "x"}, "runners": [{"entry": "a:B"}, {"entry": "a:C"}]},
            "two runners are named 'default'",
        ),
    ],
)
def test_a_wrong_plugin_file_is_named(value: Any, says: str) -> None:
    with pytest.raises(PluginLoadError) as caught:
        read_plugin_file(value)
    assert says in str(caught.value)


def test_a_version_that_yaml_reads_as_a_number_is_taken_as_written() -> None:
    plugin_file = read_plugin_file({"plugin": {"author": "a", "name": "x", "version": 1.5}})
    assert plugin_file.identity.version == "1.5"
