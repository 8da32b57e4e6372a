"""What of a configuration a fork may change: never where a secret goes."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.agents import Agent, AgentSpec
from hostler.runs.reruns import check_changes
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError

FORM = {"prompt": "prompt-editor", "base-url": "string", "api-key": "secret"}


def agent(**config: Any) -> Agent:
    spec = AgentSpec(name="a", runner="plugin:acme/echo/default", config=config)
    return Agent("w", "a1", 1, spec)


def test_without_a_secret_any_value_may_be_changed() -> None:
    check_changes(agent(**{"base-url": "http://a"}), {"base-url": "http://b", "prompt": "x"}, FORM)
    check_changes(agent(**{"api-key": "env:KEY"}), {"base-url": "http://b"}, FORM)


def test_beside_a_secret_that_is_written_out_only_the_prompt_may_be() -> None:
    written = agent(**{"api-key": "hunter2", "base-url": "http://a"})
    check_changes(written, {"prompt": "x"}, FORM)
    with pytest.raises(UnauthorizedError, match="base-url"):
        check_changes(written, {"base-url": "http://attacker", "prompt": "x"}, FORM)


@pytest.mark.parametrize("value", ["hunter3", "env:OTHER", None])
def test_a_secret_is_never_changed(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot change secrets"):
        check_changes(agent(), {"api-key": value}, FORM)


def test_of_an_unknown_form_nothing_is_taken_for_harmless() -> None:
    with pytest.raises(UnauthorizedError):
        check_changes(agent(token="hunter2"), {"prompt": "x"}, None)
    with pytest.raises(InvalidArgumentError):
        check_changes(agent(), {"token": "env:HOME"}, None)
