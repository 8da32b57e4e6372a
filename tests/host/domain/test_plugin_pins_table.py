"""Pins of plugins, decided: what may start, what is said of it, and which packages a plan has."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.plugin_pins import (
    LockedPackage,
    PluginFacts,
    PluginPin,
    judge_pin,
    package_changes,
    packages_of,
    what_changed,
)

pytestmark = pytest.mark.gate("plugin-pins")

KNOWN = PluginFacts("/srv/p", "1.0", ("tiny", "other>=2"), "f1")


def pin(**changes: Any) -> PluginPin:
    return PluginPin("acme/p", facts(**changes), recorded_at=1)


def facts(**changes: Any) -> PluginFacts:
    given = {"source": KNOWN.source, "version": "1.0", "requires": KNOWN.requires, "files": KNOWN.files}
    return PluginFacts(**(given | changes))


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (None, facts(), "new"),
        (pin(), facts(), "known"),
        (pin(), facts(requires=("other>=2", "tiny")), "known"),
        (pin(), facts(version="2.0"), "known"),
        (pin(), facts(files="f2"), "changed"),
        (pin(), facts(files=None), "known"),
        (pin(files=None), facts(), "widened"),
        (pin(files=None), facts(requires=("tiny",)), "changed"),
        (pin(), facts(requires=("tiny", "other>=3")), "changed"),
        (pin(), facts(requires=()), "changed"),
        (pin(), facts(source="/srv/q", requires=("evil",), files="f9"), "moved"),
    ],
)
def test_what_may_start(before: PluginPin | None, now: PluginFacts, verdict: str) -> None:
    assert judge_pin(before, now) == verdict


def test_what_is_said() -> None:
    changed = what_changed(pin(), facts(requires=("tiny", "more", "other>=3"), files="f2"))
    assert changed == (
        "it requires 'more', 'other>=3' now and it no longer requires 'other>=2' and its files are other ones"
    )
    many = what_changed(pin(), facts(requires=(*KNOWN.requires, *(f"p{n}" for n in range(9)))))
    assert many == "it requires 'p0', 'p1', 'p2', 'p3', 'p4' and 4 more now"


def test_a_digest_is_that_of_requirements_and_files() -> None:
    assert facts().digest == facts(requires=("other>=2", "tiny"), version="9").digest
    assert len({facts().digest, facts(files=None).digest, facts(requires=("tiny",)).digest}) == 3


PLAN = f"""
tiny==1.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
own @ file:///srv/own-1.0-py3-none-any.whl \\
    --hash=sha256:{"c" * 64}
# a comment
"""


def test_packages_of_a_plan() -> None:
    own, tiny = packages_of(PLAN)
    assert tiny == LockedPackage(name="tiny", version="1.0", digests=[f"sha256:{c * 64}" for c in "ab"])
    assert (own.name, own.version) == ("own", "file:///srv/own-1.0-py3-none-any.whl")
    assert packages_of("") == []


def test_what_an_upgrade_changed() -> None:
    def package(name: str, version: str, *digests: str) -> LockedPackage:
        return LockedPackage(name=name, version=version, digests=list(digests))

    before = [package("a", "1", "x"), package("b", "1", "x"), package("c", "1", "x"), package("d", "1", "x")]
    after = [package("a", "1", "x"), package("b", "2", "y"), package("c", "1", "y"), package("e", "1", "x")]
    lines = ["b 1 -> 2", "c 1 has other files", "d 1 is gone", "e 1 is new"]
    assert package_changes(before, after) == lines
