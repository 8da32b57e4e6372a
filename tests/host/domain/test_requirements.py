"""Requirements of plugins: names alone, unless the operator allows a wheel."""

from __future__ import annotations

import pytest

from hostler.domain.requirements import (
    MAX_REQUIREMENTS,
    check_listed,
    check_requires,
    own_packages_mistake,
    place_of_wheel,
    read_requirement,
)

WHEEL = "shop @ https://example.org/shop-1-py3-none-any.whl"


@pytest.mark.parametrize("text", ["httpx", "httpx>=0.28", "httpx[http2]~=0.28; python_version > '3.10'"])
def test_a_name_is_a_requirement(text: str) -> None:
    assert read_requirement(text).name == "httpx"
    check_requires([text])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-r other.txt", "is an option"),
        (" --index-url https://x", "is an option"),
        ("httpx\n--pre", "line break"),
        ("x" * 501, "over 500 characters"),
        ("./folder", "no requirement by name"),
        (WHEEL, "names an address"),
    ],
)
def test_anything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_requirement(text)
    with pytest.raises(ValueError, match=r"may list a wheel"):
        check_requires([text])


def test_a_wheel_that_the_operator_allows_may_be_required() -> None:
    check_requires([WHEEL], [WHEEL])
    with pytest.raises(ValueError, match="names an address"):
        check_requires([WHEEL], ["other.whl"])
    with pytest.raises(ValueError, match=f"at most {MAX_REQUIREMENTS}"):
        check_requires(["a"] * (MAX_REQUIREMENTS + 1))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (WHEEL, "https://example.org/shop-1-py3-none-any.whl"),
        ("/a/b.whl", "/a/b.whl"),
        (" @ /b.whl", "@ /b.whl"),
    ],
)
def test_the_place_of_a_wheel(text: str, place: str) -> None:
    assert place_of_wheel(text) == place


@pytest.mark.parametrize("text", ["/a/b.tar.gz", "-e .", "httpx", "https://x/y.zip", "a\nb.whl"])
def test_only_wheels_may_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.whl"):
        check_listed(text)


@pytest.mark.parametrize("text", ["/a/b.whl", "https://x/b.whl?v=1#sha256=0", WHEEL])
def test_wheels_may_be_allowed_by_path_or_address(text: str) -> None:
    check_listed(text)


@pytest.mark.parametrize(
    ("text", "conflicts"),
    [
        ("hostler-sdk", False),
        ("Hostler_SDK>=1", False),
        ("hostler-sdk>=3", True),
        ("hostler-sdk>=3; python_version < '3'", False),
        ("httpx>=99", False),
    ],
)
def test_packages_of_the_host_are_required_in_its_version(text: str, conflicts: bool) -> None:
    found = own_packages_mistake([("shop", read_requirement(text))], {"hostler-sdk": "2.0"})
    assert (found is not None) is conflicts
