"""Files in /etc that a sandbox has of its own: who its user is, and what `localhost` is."""

from __future__ import annotations

from collections.abc import Mapping

USER = "sandbox"
"""The name of the user, and of the machine."""
SHELL = "/bin/sh"
NOWHERE = "/"


def own_settings(uid: int, gid: int, environment: Mapping[str, str], machine: str = "") -> dict[str, str]:
    """Return the content of each file by its path. `uid` and `gid` are those of the sandbox's processes.

    `machine`: the name that the machine has there, if it is not USER.
    """
    home = _field(environment.get("HOME", NOWHERE))
    return {
        "/etc/passwd": f"{USER}:x:{uid}:{gid}:{USER}:{home}:{SHELL}\n",
        "/etc/group": f"{USER}:x:{gid}:\n",
        "/etc/hosts": f"127.0.0.1 localhost {USER} {machine}".rstrip() + "\n::1 localhost\n",
    }


def user_variables() -> dict[str, str]:
    """Return the variables that name the user."""
    return {"USER": USER, "LOGNAME": USER}


def _field(text: str) -> str:
    """Return a text as a field of such a file; what would end the field is left out."""
    return text if not {":", "\n"} & set(text) else NOWHERE
