"""A runner's configuration against its form."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.config_form import configure
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.manifest import FormItem

FORM = [
    FormItem(name="model", type="model-fallback-selector", required=True),
    FormItem(name="temperature", type="float", default=0.7),
    FormItem(name="top-k", type="integer", default=5),
    FormItem(name="stream", type="boolean", default=True),
    FormItem(name="mode", type="select", options=["fast", {"name": "deep"}], default="fast"),
    FormItem(name="tags", type="multiselect", options=["a", "b"]),
    FormItem(name="auth", type="select", options=["none", "header"], default="none"),
    FormItem(name="header", type="string", required=True, show_if={"auth": "header"}),
    FormItem(name="api-key", type="secret"),
    FormItem(name="kbs", type="select-knowledge-bases"),
    FormItem(name="tools", type="tool-multi-selector"),
    FormItem(name="judge", type="rerank-model-selector"),
    FormItem(name="prompt", type="prompt-editor"),
    FormItem(name="paper", type="file"),
    FormItem(name="papers", type="array[file]"),
    FormItem(name="any", type="json"),
]


def test_defaults_then_stored_values() -> None:
    configuration = configure(FORM, {"model": "small", "top-k": 9})
    assert configuration.values == {
        "model": "small",
        "temperature": 0.7,
        "top-k": 9,
        "stream": True,
        "mode": "fast",
        "auth": "none",
    }
    assert configuration.selected.models == ("small",)


def test_selectors_give_the_resources_they_name_once_and_in_order() -> None:
    configuration = configure(
        FORM,
        {
            "model": {"primary": "a", "fallbacks": ["b", "a", "__none__"]},
            "judge": "j",
            "kbs": ["k1", "", "k2"],
            "tools": ["shop.*"],
            "paper": "f1",
            "papers": ["f2"],
        },
    )
    selected = configuration.selected
    assert selected.models == ("a", "b", "j")
    assert selected.knowledge_bases == ("k1", "k2")
    assert selected.tools == ("shop.*",)
    assert selected.files == ("f1", "f2")


@pytest.mark.parametrize("value", ["", "__none__", "__none", None, {"primary": None, "fallbacks": []}])
def test_not_chosen_is_missing_where_a_choice_is_required(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"config\.model: is required: give it"):
        configure(FORM, {"model": value})


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"temprature": 1}, "config.temprature: unknown option; did you mean 'temperature'?"),
        ({"model": 5}, "config.model: expected .*, not 5"),
        (
            {"model": {"primary": "a", "fallback": []}},
            "config.model.fallback: unknown key; did you mean 'fallbacks'",
        ),
        ({"model": {"primary": "a", "fallbacks": [1]}}, r"config.model.fallbacks\[0\]: expected a text, not"),
        ({"temperature": "hot"}, "config.temperature: expected a number, not 'hot'"),
        ({"temperature": True}, "expected a number, not True"),
        ({"temperature": float("nan")}, "expected a number, not nan"),
        ({"top-k": 1.5}, "config.top-k: expected an integer, not 1.5"),
        ({"top-k": False}, "expected an integer"),
        ({"stream": "yes"}, "config.stream: expected true or false, not 'yes'"),
        ({"mode": "slow"}, "config.mode: 'slow' is no option; its options are 'fast', 'deep'"),
        ({"mode": "fst"}, "config.mode: 'fst' is no option; did you mean 'fast'?"),
        ({"tags": ["a", "c"]}, r"config.tags\[1\]: 'c' is no option; its options are 'a', 'b'"),
        ({"tags": "a"}, "config.tags: expected a list"),
        ({"auth": "header"}, "config.header: is required"),
        ({"auth": "header", "header": ""}, "config.header: is required"),
        ({"kbs": [3]}, "config.kbs: expected a list of ids"),
        (
            {"prompt": [{"role": "usr", "content": "x"}]},
            r"config.prompt\[0\].role: 'usr' is none of .*did you mean 'user'",
        ),
        ({"papers": "one"}, "config.papers: expected a list of ids of files"),
        ({"timeout": "soon"}, "config.timeout: expected a number of seconds or null"),
        ({"any": "x" * 300_000}, "config.any: has 300,002 bytes of JSON"),
        ({"api-key": 7}, "config.api-key: expected a text, or a reference"),
    ],
)
def test_what_is_wrong_is_named(stored: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        configure(FORM, {"model": "m", **stored})


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        configure(FORM, {"temprature": 1, "top-k": "many", "tags": ["c", "d"]})
    assert caught.value.message.split("; ") == [
        "config.temprature: unknown option",
        "did you mean 'temperature'?",
        "config.model: is required: give it {primary: model id, fallbacks: [model id, ...]}, or the id of a "
        "model",
        "config.top-k: expected an integer, not 'many'",
        "config.tags[0]: 'c' is no option",
        "its options are 'a', 'b'",
        "config.tags[1]: 'd' is no option",
        "its options are 'a', 'b'",
    ]


def test_a_default_that_does_not_fit_is_the_plugins_mistake() -> None:
    form = [FormItem(name="size", type="integer", default="big")]
    with pytest.raises(InvalidArgumentError, match=r"config\.size: the runner's own default does not fit"):
        configure(form, {})
    assert configure(form, {"size": 1}).values == {"size": 1}


def test_a_wrong_secret_is_never_repeated() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        configure(FORM, {"model": "m", "api-key": ["hunter2"]})
    assert "hunter2" not in caught.value.message


def test_secret_references_are_named_and_replaced() -> None:
    configuration = configure(FORM, {"model": "m", "api-key": "env:KEY"})
    assert configuration.secrets == {"api-key": "env:KEY"}
    assert configuration.with_secrets({"api-key": "s3"})["api-key"] == "s3"
    assert configuration.shown["api-key"] == "env:KEY"


@pytest.mark.parametrize("text", ["env:KEY", "file:/proc/self/environ", "secret://key"])
def test_a_form_refers_to_no_secrets(text: str) -> None:
    form = [
        FormItem(name="key", type="secret", default=text),
        FormItem(name="a", type="string", default=text),
    ]
    with pytest.raises(InvalidArgumentError, match=rf"default of 'key', {text}, .* give 'key' a value"):
        configure(form, {})
    for value in ("", None, "plain"):
        assert configure(form, {"key": value}).secrets == {}
    configuration = configure(form, {"key": "env:MINE"})
    assert configuration.secrets == {"key": "env:MINE"}
    assert configuration.values["a"] == text


def test_a_secret_that_is_written_out_is_given_to_the_runner_and_shown_to_nobody() -> None:
    configuration = configure(FORM, {"model": "m", "api-key": "hunter2"})
    assert configuration.secrets == {}
    assert configuration.with_secrets({})["api-key"] == "hunter2"
    assert "hunter2" not in str(configuration.shown)
    assert configuration.shown == configuration.values | {"api-key": "***"}


@pytest.mark.parametrize(
    ("stored", "seconds"),
    [
        ({}, 300.0),
        ({"timeout": None}, None),
        ({"timeout": 0}, None),
        ({"timeout": -1}, None),
        ({"timeout": 2.5}, 2.5),
    ],
)
def test_timeout(stored: dict[str, Any], seconds: float | None) -> None:
    assert configure([], stored).timeout_seconds == seconds


def test_the_prompt_is_that_of_the_form() -> None:
    assert configure(FORM, {"model": "m"}).prompt == ()
    (message,) = configure(FORM, {"model": "m", "prompt": "Be brief."}).prompt
    assert (message.role, message.content) == ("system", "Be brief.")
    stored = [{"role": "system", "content": "A"}, {"role": "user", "content": "B"}]
    assert [m.role for m in configure(FORM, {"model": "m", "prompt": stored}).prompt] == ["system", "user"]


def test_show_if_in_its_forms() -> None:
    def needs(show_if: dict[str, Any], auth: str) -> bool:
        form = [
            FormItem(name="auth", type="string"),
            FormItem(name="key", type="string", required=True, show_if=show_if),
        ]
        try:
            configure(form, {"auth": auth})
        except InvalidArgumentError:
            return True
        return False

    table: list[tuple[dict[str, Any], str, bool]] = [
        ({"auth": "basic"}, "basic", True),
        ({"auth": "basic"}, "none", False),
        ({"auth": ["basic", "jwt"]}, "jwt", True),
        ({"field": "auth", "operator": "eq", "value": "jwt"}, "jwt", True),
        ({"field": "auth", "operator": "neq", "value": "none"}, "none", False),
        ({"field": "auth", "operator": "in", "value": ["jwt"]}, "basic", False),
    ]
    for show_if, auth, expected in table:
        assert needs(show_if, auth) is expected, (show_if, auth)
