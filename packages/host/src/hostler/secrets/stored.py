"""The installation's stored secrets, opened: what `secret://NAME` stands for in the configuration."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hostler.domain.record import Record
from hostler.domain.secret_refs import stored_name
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import SecretUnreadableError, resolve_secret, unreadable_secret

Resolve = Callable[[str | None, str], str | None]
"""`StoredSecrets.resolve`."""
MAX_NOTED_USES = 10_000
"""Uses that wait to be audited, each of one secret by one entry; further ones are not noted."""


class Use(NamedTuple):
    """The use of a secret by an entry, `user`."""

    name: str
    user: str
    version: int


class OpenedSecret(Record):
    """A secret. `value` is None if it cannot be opened, for the reason `problem`."""

    version: int
    value: str | None
    problem: str = ""


class StoredSecrets:
    """The secrets as they are now. `resolve` and `unreadable` may be called from any thread."""

    def __init__(self) -> None:
        self._found: Mapping[str, OpenedSecret] = {}
        self._uses: dict[Use, None] = {}
        self._lock = threading.Lock()
        self.on_use: Callable[[], None] = lambda: None
        """Called, on any thread, when a use waits to be audited that was not audited within the hour."""
        self.is_audited: Callable[[Use], bool] = lambda _: False
        """Whether such a use was audited within the hour."""

    def replace(self, found: Mapping[str, OpenedSecret]) -> frozenset[str]:
        """Use these secrets from now on; return the names of those that changed."""
        before, self._found = self._found, found
        for secret in found.values():
            if secret.value is not None:
                remember(secret.value)
        return frozenset(name for name in {*before, *found} if before.get(name) != found.get(name))

    def resolve(self, value: str | None, user: str) -> str | None:
        """Return the secret behind a reference of any kind, or the text itself; note that `user` uses it.

        See `resolve_secret`.
        """
        found = self.read(value)
        self.note_use(value, user)
        return found

    def read(self, value: str | None) -> str | None:
        """Return the secret behind a reference of any kind, or the text itself, which is no use yet."""
        name = stored_name(value)
        if name is None:
            return resolve_secret(value)
        secret = self._found.get(name)
        if secret is None or secret.value is None:
            raise SecretUnreadableError(self._problem(name) or "")
        return secret.value

    def note_use(self, value: str | None, user: str) -> None:
        """Note that an entry uses the stored secret that a value refers to, if it refers to one."""
        name = stored_name(value)
        secret = None if name is None else self._found.get(name)
        if name is None or secret is None:
            return
        use = Use(name, user, secret.version)
        if self.is_audited(use):
            return
        with self._lock:
            if len(self._uses) < MAX_NOTED_USES:
                self._uses[use] = None
        self.on_use()

    def take_uses(self) -> Sequence[Use]:
        """Return what was used since the last call."""
        with self._lock:
            taken, self._uses = self._uses, {}
        return list(taken)

    def return_uses(self, uses: Sequence[Use]) -> None:
        """Take back uses that could not be audited."""
        with self._lock:
            self._uses = {**dict.fromkeys(uses), **self._uses}

    def unreadable(self, reference: str) -> str | None:
        """Return why the secret behind a reference cannot be read now, or None."""
        name = stored_name(reference)
        return unreadable_secret(reference) if name is None else self._problem(name)

    def _problem(self, name: str) -> str | None:
        secret = self._found.get(name)
        if secret is None:
            return missing_secret(name, "installation")
        return None if secret.value is not None else f"secret://{name}: {secret.problem}"


def missing_secret(name: str, owner: str) -> str:
    """Return the message for a secret that is not stored."""
    of, option = (
        ("the installation", " --installation") if owner == "installation" else ("this workspace", "")
    )
    return f"secret://{name}: there is no such secret of {of}: `hostler secrets set {name}{option}` stores it"
