"""The settings of a run, checked."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from hostler_acp.failures import AcpFailure
from hostler_acp.providers import PROVIDERS, Provider
from hostler_sdk.services import Form

Permission = Literal["ask", "allow", "reject"]
WORKSPACE_VARIABLE = "HOSTLER_PLUGIN_WORKSPACE"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCES = ("env:", "file:", "secret://")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the form of the runner says. `folder` is absolute, and exists."""

    provider: Provider
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    secrets: tuple[str, ...]
    reuse_session: bool
    fails_if_lost: bool
    permissions: Permission
    permission_expires_in: int | None
    mode: str
    auth_method: str
    offer_tools: bool
    startup_seconds: int

    def without_secrets(self, text: str) -> str:
        """Return the text with every secret replaced."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def read_settings(form: Form, place: str, secrets: Collection[str] = ()) -> Settings:
    """Check the settings, and make the folder of the agent. Raises AcpFailure and ServiceFailure.

    `place` names the conversation, for a folder of its own; `secrets` are further ones that no text shows.
    """
    provider = PROVIDERS[form.choice("provider", list(PROVIDERS), "")]
    environment, own = _environment(form, provider)
    least, most = 60, 2_592_000
    expires_in = form.whole("permission-expires-in", 0, 0, most) or None
    if expires_in is not None and expires_in < least:
        raise _wrong("permission-expires-in", f"is {expires_in}; it must be from {least} to {most}")
    return Settings(
        provider=provider,
        argv=_command(form, provider),
        environment=environment,
        folder=_folder(form.text("workspace"), place),
        secrets=(*own, *secrets),
        reuse_session=form.flag("reuse-session", True),
        fails_if_lost=form.choice("session-lost", ["new", "fail"], "new") == "fail",
        permissions=cast("Permission", form.choice("permissions", ["ask", "allow", "reject"], "ask")),
        permission_expires_in=expires_in,
        mode=form.text("mode"),
        auth_method=form.text("auth-method"),
        offer_tools=form.flag("offer-tools", True),
        startup_seconds=form.whole("startup-timeout", 30, 1, 3600),
    )


def _command(form: Form, provider: Provider) -> tuple[str, ...]:
    text = form.text("command") or provider.command
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise _wrong("command", f"cannot be split into words: {error}") from None
    if not argv:
        raise _wrong("command", "is empty; the provider `custom` needs one, such as `my-agent --acp`")
    return tuple(argv)


def _environment(form: Form, provider: Provider) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the agent's own variables, and the secrets among them."""
    variables: dict[str, str] = {}
    for name, value in form.object("env").items():
        _check_name("env", name)
        if not isinstance(value, str):
            raise _wrong("env", f"has {name} = {value!r:.80}; each value must be a text")
        if value.startswith(_REFERENCES):
            raise _wrong(
                "env",
                f"has a reference as {name}, which is not resolved there; secrets belong into `api-key` or "
                "`secret-env`",
            )
        variables[name] = value
    secret = _secret_lines(form.text("secret-env"))
    if key := form.text("api-key"):
        name = form.text("api-key-variable") or provider.key_variable
        if not name:
            raise _wrong("api-key-variable", "is empty; it must name the variable that gets `api-key`")
        _check_name("api-key-variable", name)
        secret[name] = key
    for name, value in (variables | secret).items():
        if "\0" in value:
            raise _wrong("env", f"has a zero byte in {name}, which no variable can have")
    return variables | secret, tuple(sorted(filter(None, secret.values()), key=len, reverse=True))


def _secret_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or not _NAME.fullmatch(name.strip()):
            raise _wrong("secret-env", f"has no NAME=value in line {number}")
        found[name.strip()] = value.strip()
    return found


def _check_name(setting: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise _wrong(setting, f"has {name!r:.80}, which is no name of a variable")
    if name.startswith("HOSTLER_"):
        raise _wrong(setting, f"has {name:.80}; names that begin with HOSTLER_ are the host's own")


def _folder(given: str, place: str) -> Path:
    root = Path(os.environ.get(WORKSPACE_VARIABLE) or Path.cwd())
    if not given:
        digest = hashlib.sha256(place.encode()).hexdigest()[:24]
        folder = root / "conversations" / digest
    elif Path(given).is_absolute():
        if not Path(given).is_dir():
            raise _wrong("workspace", f"is {given}, and there is no such folder where the plugin runs")
        return Path(given)
    else:
        folder = root / given
        if ".." in folder.parts:
            raise _wrong("workspace", "has `..`; a relative path stays in the plugin's workspace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _wrong("workspace", f"cannot be made as a folder: {error}") from None
    return folder


def _wrong(setting: str, text: str) -> AcpFailure:
    return AcpFailure("config_invalid", f"config `{setting}` {text}")
