"""Which client sent a request that a proxy passed on, and what strangers can make of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.http import auth
from hostler.http.limits import FAILED_AUTH_BURST
from hostler.http.proxies import MAX_PROXIES, TrustedProxies, rate_key
from hostler_protocol.errors import InvalidArgumentError
from support.command_line import CommandLine
from support.http_host import serving

pytestmark = pytest.mark.gate("http-authentication")

PROXIES = TrustedProxies(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"])
CLIENT = "203.0.113.5"


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("10.1.2.3", CLIENT, CLIENT),
        ("10.1.2.3", f"{CLIENT}, 192.0.2.7, 10.9.9.9", CLIENT),
        ("10.1.2.3", f"198.51.100.1, {CLIENT}", CLIENT),  # the client wrote the first itself
        ("10.1.2.3", f"127.0.0.1,10.0.0.1 , {CLIENT},10.0.0.2", CLIENT),
        ("::ffff:10.1.2.3", f"::ffff:{CLIENT}", CLIENT),
        ("2001:db8::1", "2a00:1450::5", "2a00:1450::5"),
        ("10.1.2.3", f"{CLIENT}:51234", CLIENT),
        ("10.1.2.3", "[2a00:1450::5]:443", "2a00:1450::5"),
        ("10.1.2.3", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("10.1.2.3", None, "10.1.2.3"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", f"{CLIENT}, unknown", "10.1.2.3"),
        ("10.1.2.3", f"{CLIENT}, _hidden, 10.0.0.2", "10.0.0.2"),
        (CLIENT, "198.51.100.1", CLIENT),  # a stranger says so
        ("192.0.2.8", "198.51.100.1", "192.0.2.8"),
        ("local", "198.51.100.1", "local"),
    ],
)
def test_the_last_address_that_no_trusted_proxy_has_is_the_client(
    peer: str, forwarded_for: str | None, client: str
) -> None:
    assert PROXIES.client_of(peer, forwarded_for) == client


def test_nobody_is_trusted_unless_named() -> None:
    assert TrustedProxies().client_of("127.0.0.1", CLIENT) == "127.0.0.1"


def test_a_header_of_many_addresses_is_read_to_its_bound() -> None:
    assert PROXIES.client_of("10.1.2.3", ", ".join([CLIENT, *["10.0.0.1"] * 1_000])) == "10.0.0.1"


def test_wrong_names_are_refused() -> None:
    for wrong in ("proxy.example.com", "10.0.0.1/8", "*", "10.0.0.0/33"):
        with pytest.raises(InvalidArgumentError, match="expected an address or a network"):
            TrustedProxies([wrong])
    with pytest.raises(InvalidArgumentError, match="at most"):
        TrustedProxies(["10.0.0.1"] * (MAX_PROXIES + 1))


def test_an_ipv6_network_is_one_client() -> None:
    assert rate_key("2a00:1450:1:2:3:4:5:6") == rate_key("2a00:1450:1:2::1") != rate_key("2a00:1450:1:3::1")
    assert rate_key("203.0.113.5") != rate_key("203.0.113.6")
    assert rate_key("::ffff:203.0.113.5") == "203.0.113.5"


@pytest.mark.parametrize("trusted", [True, False])
async def test_wrong_keys_count_for_the_client_behind_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    monkeypatch.setattr(auth, "FAILED_AUTH_PER_SECOND", 0.001)
    proxies = ("127.0.0.1",) if trusted else ()
    async with serving(tmp_path / "data", trusted_proxies=proxies) as served:

        async def guess(client: str) -> int:
            headers = {"authorization": "Bearer hk_wrong", "x-forwarded-for": client}
            return (await served.client.get("/v1/agents", headers=headers)).status_code

        codes = [await guess("203.0.113.5") for _ in range(int(FAILED_AUTH_BURST) + 1)]
        assert codes == [401] * int(FAILED_AUTH_BURST) + [429]
        assert await guess("198.51.100.1") == (401 if trusted else 429)


def test_a_wrong_proxy_is_refused_before_anything_starts(tmp_path: Path) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path)
    refused = hostler("serve", "--trusted-proxies", "10.0.0.0/8,nginx")
    assert refused.status == 2
    assert refused.error.startswith("trusted proxy 'nginx': ")
    assert not hostler.data.exists()
