"""What of a configuration a fork or a replay may change: never where a secret goes."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import Allowance, WorkspaceEntry
from hostler.domain.config_overrides import ConfigOverrides
from hostler.domain.reference_rights import ReferenceRights
from hostler.domain.secret_refs import SEALED
from hostler_protocol.errors import ConflictError, InvalidArgumentError, UnauthorizedError

pytestmark = pytest.mark.gate("references")

FORM = {"prompt": "prompt-editor", "base-url": "string", "api-key": "secret", "rounds": "integer"}
REFERENCES = ("env:KEY", "file:/srv/key", "secret://key")


def check(
    config: dict[str, Any],
    changes: dict[str, Any],
    form: dict[str, str] | None = FORM,
    *,
    rights: tuple[str, ...] = (),
    secrets: list[str] | None = None,
) -> None:
    may = Allowance("w", WorkspaceEntry(name="w", secrets=secrets), own=False)
    spec = AgentSpec(name="a", runner="plugin:acme/echo/default", config=config)
    rights_of = ReferenceRights(
        may, installation="installation" in rights, secrets_write="secrets:write" in rights
    )
    ConfigOverrides(changes, rights_of).check(spec, form)


def test_without_a_secret_any_value_may_be_changed() -> None:
    check({"base-url": "http://a"}, {"base-url": "http://b", "prompt": "x", "rounds": 3})


@pytest.mark.parametrize("reference", REFERENCES)
def test_beside_a_reference_only_who_may_write_it_changes_more_than_a_prompt(reference: str) -> None:
    config = {"api-key": reference, "base-url": "http://a"}
    check(config, {"prompt": "x"})
    for changes in ({"base-url": "http://attacker"}, {"prompt": "x", "rounds": 1}, {"timeout": 5}):
        with pytest.raises(UnauthorizedError, match="'api-key' refers to a secret"):
            check(config, changes)
        check(config, changes, rights=("installation",))
    is_stored = reference.startswith("secret://")
    if is_stored:
        check(config, {"base-url": "http://b"}, rights=("secrets:write",))
    else:
        with pytest.raises(UnauthorizedError):
            check(config, {"base-url": "http://b"}, rights=("secrets:write",))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["base-url", "prompt"])
def test_a_reference_is_written_into_no_field_of_any_type(name: str, reference: str) -> None:
    """A plugin may call the field a secret by the time the run begins."""
    with pytest.raises(UnauthorizedError, match="refers to a secret"):
        check({}, {name: reference})
    check({}, {name: reference}, rights=("installation",))


def test_where_the_configuration_lists_secrets_no_others_are_named() -> None:
    config = {"api-key": "env:TENANT_KEY", "base-url": "http://a"}
    check(config, {"base-url": "http://b"}, secrets=["env:TENANT_*"])
    for rights in ((), ("installation",)):
        with pytest.raises(UnauthorizedError, match="may not use secret 'env:HOST'"):
            check(config, {"base-url": "env:HOST"}, secrets=["env:TENANT_*"], rights=rights)


@pytest.mark.parametrize("secret", ["hunter2", f"{SEALED}abc"])
def test_beside_a_secret_that_is_written_out_only_the_prompt_may_be(secret: str) -> None:
    written = {"api-key": secret, "base-url": "http://a"}
    check(written, {"prompt": "x"})
    with pytest.raises(UnauthorizedError, match="base-url"):
        check(written, {"base-url": "http://attacker", "prompt": "x"}, rights=("installation",))
    with pytest.raises(UnauthorizedError, match="base-url"):  # text of another version of the form
        check({"token": secret}, {"base-url": "http://attacker"}, rights=("installation",))


@pytest.mark.parametrize("value", ["hunter3", "env:OTHER", f"{SEALED}abc", None])
def test_a_secret_is_never_changed(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot change secrets"):
        check({}, {"api-key": value}, rights=("installation",))


@pytest.mark.parametrize("name", ["prompt", "base-url", "unknown"])
def test_the_text_of_a_sealed_secret_is_written_nowhere(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot change secrets"):
        check({}, {name: f"{SEALED}abc"}, rights=("installation",))


@pytest.mark.parametrize("value", ["hunter3", "env:HOME"])
def test_a_text_that_the_form_does_not_know_may_be_a_secret(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="does not say that this is none"):
        check({}, {"token": value}, rights=("installation",))


@pytest.mark.parametrize("value", ["hunter3", "env:HOME", f"{SEALED}abc", 3])
def test_without_a_form_nothing_is_taken_for_harmless(value: Any) -> None:
    for config in ({}, {"token": "hunter2"}, {"token": "env:KEY"}):
        for name in ("prompt", "token"):
            with pytest.raises(ConflictError, match="has not been started"):
                check(config, {name: value}, None, rights=("installation",))
