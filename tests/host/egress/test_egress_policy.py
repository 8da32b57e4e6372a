"""What may be reached: every class of address, every odd way to write one, and what an operator lists."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.egress import EgressPolicy, EgressRefusedError
from hostler.egress.addresses import kind_of
from hostler.egress.policy import target_of
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("egress")

SPECIAL = {
    "0.0.0.0": "this network",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "shared by carriers",
    "100.127.255.255": "shared by carriers",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "link-local",
    "169.254.170.2": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "reserved",
    "192.0.0.192": "reserved",
    "192.0.2.1": "for documentation",
    "192.88.99.1": "6to4 relay",
    "192.168.0.1": "private",
    "198.18.0.1": "for benchmarks",
    "198.19.255.255": "for benchmarks",
    "198.51.100.1": "for documentation",
    "203.0.113.1": "for documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "IPv4-compatible",
    "::ffff:127.0.0.1": "IPv4-mapped",
    "::ffff:8.8.8.8": "IPv4-mapped",
    "::ffff:0:127.0.0.1": "IPv4-translated",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b::808:808": "NAT64",
    "64:ff9b:1::1": "NAT64",
    "100::1": "discarded",
    "2001::1": "Teredo",
    "2001:2::1": "for benchmarks",
    "2001:10::1": "reserved",
    "2001:20::1": "reserved",
    "2001:1ff::1": "reserved",
    "2001:db8::1": "for documentation",
    "2002:7f00:1::": "6to4",
    "2002:a00:1::1": "6to4",
    "3fff::1": "for documentation",
    "5f00::1": "reserved",
    "4000::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "ff0e::1": "multicast",
}
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "2a00::1",
]


@pytest.mark.parametrize(("address", "kind"), SPECIAL.items())
def test_what_is_not_public_is_refused_and_named(address: str, kind: str) -> None:
    assert kind_of(ip_address(address)) == kind
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(EgressRefusedError, match=kind):
        EgressPolicy().check_url(f"http://{host}/")


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_may_be_reached(address: str) -> None:
    assert kind_of(ip_address(address)) is None
    host = f"[{address}]" if ":" in address else address
    EgressPolicy().check_url(f"https://{host}/x?y#z")


@given(st.ip_addresses())
def test_never_more_is_public_than_the_standard_library_says(address: object) -> None:
    parsed = ip_address(str(address))
    if kind_of(parsed) is None:
        words = ("private", "loopback", "link_local", "multicast", "unspecified", "reserved")
        assert [word for word in words if getattr(parsed, f"is_{word}")] == []


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",  # 127.0.0.1 as one number
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.0x1",
        "1.2.3.4.5",
        "256.1.1.1",
        "a.0x1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "ⓔxample.org",
        "localhost%00.example.org",
        "[::1%25lo]",
        "[fe80::1%lo]",
        "[2606:4700::1111%lo]",
        "[2606:4700::1111%25lo]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[1.1.1.1]",
        "[v1.x]",
        "",
        "-x.org",
        "a..b",
        "a b",
        "x" * 64,
        ".".join(["x" * 60] * 5),
    ],
)
def test_unusual_ways_to_write_a_host_are_refused_before_anything_is_looked_up(host: str) -> None:
    with pytest.raises(EgressRefusedError):
        EgressPolicy().check_url(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "unix:/run/x.sock",
        "data:text/plain,x",
        "//example.org/",
        "example.org",
        "http:example.org",
        "http:/example.org",
        "http:///example.org",
        "http://user@example.org/",
        "http://user:password@example.org/",
        "http://example.org@127.0.0.1/",
        "http://@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://127.0.0.1\\.example.org/",
        "http://example.org:0/",
        "http://example.org:/",
        "http://example.org:65536/",
        "http://example.org:x/",
        "http://example.org:22/",
        "https://example.org:6379/",
        "http://example.org/\r\nx: y",
        "http://example.org/\tx",
        " http://example.org/",
        "http://example.org/ x",
        "http://exa\nmple.org/",
        "http://[::1/",
        "http://example.org/" + "x" * 9000,
    ],
)
def test_odd_addresses_are_refused(url: str) -> None:
    with pytest.raises(EgressRefusedError) as refused:
        EgressPolicy().check_url(url)
    assert "password" not in refused.value.message


def test_a_target_is_what_will_be_connected_to() -> None:
    assert str(target_of("HTTPS://Example.ORG./x")) == "example.org"
    assert target_of("http://[2606:4700:0::1111]:8080/").host == "2606:4700::1111"
    assert target_of("https://example.org").port == 443


@given(st.text(alphabet="0123456789abcfx.", min_size=1, max_size=20))
def test_a_host_that_the_system_reads_as_a_number_is_no_name_to_us(host: str) -> None:
    try:
        packed = socket.inet_aton(host)
    except OSError:
        return
    try:
        target = target_of(f"http://{host}/")
    except EgressRefusedError:
        return
    assert ip_address(target.host) == ip_address(packed)


def check(policy: EgressPolicy, url: str, address: str) -> None:
    policy.check_address(policy.check_url(url), ip_address(address))


def test_an_operator_lists_networks_addresses_names_and_ports() -> None:
    policy = EgressPolicy.of(
        ["10.1.0.0/16", "127.0.0.1:8080", "[::1]:8443", "wiki.internal", "*.corp.example", "git.x:3000"]
    )
    check(policy, "http://any.name/", "10.1.2.3")
    check(policy, "http://any.name:9999/", "10.1.2.3")
    check(policy, "http://127.0.0.1:8080/", "127.0.0.1")
    check(policy, "https://[::1]:8443/", "::1")
    check(policy, "http://wiki.internal:8000/", "192.168.1.1")
    check(policy, "https://a.b.corp.example/", "10.9.9.9")
    check(policy, "http://git.x:3000/", "127.0.0.1")
    for url, address in [
        ("http://any.name/", "10.2.0.1"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1:8081/", "127.0.0.1"),
        ("https://corp.example/", "10.9.9.9"),
        ("https://xcorp.example/", "10.9.9.9"),
        ("http://git.x/", "127.0.0.1"),
        ("http://any.name:9999/", "1.1.1.1"),
    ]:
        with pytest.raises(EgressRefusedError):
            check(policy, url, address)


def test_a_listed_name_does_not_vouch_for_the_metadata_service() -> None:
    policy = EgressPolicy.of(["wiki.internal"])
    for address in ("169.254.169.254", "fe80::1", "224.0.0.1", "::ffff:10.0.0.1", "0.0.0.0"):
        with pytest.raises(EgressRefusedError):
            check(policy, "http://wiki.internal/", address)
    check(EgressPolicy.of(["169.254.169.254"]), "http://169.254.169.254/", "169.254.169.254")


def test_only_and_deny_narrow_what_is_public() -> None:
    policy = EgressPolicy.of(only=["*.example.org", "example.org"], deny=["secret.example.org", "9.9.9.9"])
    check(policy, "https://www.example.org/", "1.1.1.1")
    with pytest.raises(EgressRefusedError, match="none of the hosts"):
        policy.check_url("https://example.com/")
    with pytest.raises(EgressRefusedError, match="denied"):
        policy.check_url("https://secret.example.org/")
    with pytest.raises(EgressRefusedError, match="denied"):
        check(policy, "https://www.example.org/", "9.9.9.9")
    with pytest.raises(EgressRefusedError, match="not public"):
        check(policy, "https://www.example.org/", "127.0.0.1")


@pytest.mark.parametrize(
    "entry",
    ["", "http://x", "x/y", "10.0.0.1/8", "127.1", "a:b", "a:0", "a:65536", "a:", "[::1]:x", "a b", "*"],
)
def test_a_wrong_entry_of_a_list_is_refused(entry: str) -> None:
    with pytest.raises(InvalidArgumentError):
        EgressPolicy.of([entry])


def test_a_list_has_a_bound() -> None:
    with pytest.raises(InvalidArgumentError, match="at most 256"):
        EgressPolicy.of(f"host{n}.example" for n in range(257))
