"""Check a plugin's requirements: packages by name (PEP 508), and wheels that the operator allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_REQUIREMENTS = 100
"""Requirements of one plugin; transitive ones do not count."""
MAX_REQUIREMENT_CHARS = 500


def read_requirement(text: str) -> Requirement:
    """Parse one requirement. ValueError names the mistake and what is expected.

    Only names: no options, paths or addresses, and no line breaks, which would add a line to a file.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415  for requirements only

    shown = repr(text[:100])
    if len(text) > MAX_REQUIREMENT_CHARS:
        raise ValueError(f"{shown} has over {MAX_REQUIREMENT_CHARS} characters")
    if not text.isprintable():
        raise ValueError(f"{shown} holds a line break or another character that no requirement has")
    if text.lstrip().startswith("-"):
        raise ValueError(f"{shown} is an option; a requirement is a package's name, like httpx>=0.28")
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(
            f"{shown} is no requirement by name, like httpx>=0.28 ({str(error).splitlines()[0]})"
        ) from None
    if found.url is not None:
        raise ValueError(f"{shown} names an address; a requirement is a package's name, like httpx>=0.28")
    return found


def is_listed(text: str, allowed: Collection[str]) -> bool:
    """Whether the operator allows exactly this requirement, which then may be a path or an address."""
    return text in allowed


def check_listed(text: str) -> None:
    """Check a requirement that an operator allows. ValueError."""
    if not text.isprintable() or len(text) > MAX_REQUIREMENT_CHARS or text.lstrip().startswith("-"):
        raise ValueError(f"{text[:100]!r} is no requirement that can be allowed: name a wheel (.whl)")
    if not place_of_wheel(text).partition("#")[0].partition("?")[0].endswith(".whl"):
        raise ValueError(
            f"{text[:100]!r} is no wheel: only files that end in .whl can be allowed, since nothing is built "
            "from source"
        )


def place_of_wheel(text: str) -> str:
    """Return the path or address of an allowed requirement, which may have the form `name @ place`."""
    name, at, place = text.partition(" @ ")
    return place.strip() if at and name.strip() else text.strip()


def check_requires(requires: Sequence[str], allowed: Collection[str] = ()) -> None:
    """Check a plugin's requirements. ValueError for the first invalid one."""
    if len(requires) > MAX_REQUIREMENTS:
        raise ValueError(f"it requires {len(requires)} packages; at most {MAX_REQUIREMENTS} are allowed")
    for text in requires:
        if is_listed(text, allowed):
            check_listed(text)
        else:
            try:
                read_requirement(text)
            except ValueError as error:
                raise ValueError(
                    f"{error}; an operator may list a wheel under `allow_requires` of the plugin's entry"
                ) from None


def own_packages_mistake(
    requirements: Iterable[tuple[str, Requirement]], own: Mapping[str, str]
) -> str | None:
    """Return the first requirement of a host package in a version that the host does not have, or None.

    `requirements`: (who requires it, requirement); `own`: versions of the host's packages by name. These are
    never looked up in an index, where anybody could have taken their names.
    """
    from packaging.utils import canonicalize_name  # noqa: PLC0415  as above

    versions = {canonicalize_name(name): version for name, version in own.items()}
    for who, requirement in requirements:
        version = versions.get(canonicalize_name(requirement.name))
        if version is None or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            return f"{who} requires {requirement}, and this host has {requirement.name} {version}"
    return None
