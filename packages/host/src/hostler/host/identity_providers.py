"""Identity providers: what they say of themselves, their keys, and the exchange of a code for an ID token.

All requests go through the egress guard, without redirects, within limits of time and size. What a provider's
documents name is checked like anything from outside: a stranger may have written them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.id_tokens import SignInError, check_claims
from hostler.domain.sign_in import SignInEntry, keys_act_until, wants_userinfo
from hostler.egress import Egress, EgressError, EgressPolicy, ExchangeLimits, Network
from hostler.host.id_token_signatures import KeyChoice, read_keys, verified_claims
from hostler.secrets.stored import Resolve, StoredSecrets
from hostler_protocol._base import Lenient
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import KIB

T = TypeVar("T")
REQUEST_LIMITS = ExchangeLimits(seconds=10.0, max_bytes=256 * KIB, max_redirects=0)
"""People wait for these requests; the documents of common providers have a few KiB."""
MAX_TOKEN_BYTES = 64 * KIB
"""An ID token; one with hundreds of groups has 20 KiB."""
METADATA_SECONDS = 3_600.0
"""How long a provider's description of itself is used."""
FAILURE_SECONDS = 5.0
"""How long a provider that failed is not asked again: strangers who open the page cause no more requests."""
KEYS_SECONDS = 3_600.0
"""How long its keys are used: one that was withdrawn is refused after this time."""
KEYS_AGAIN_SECONDS = 30.0
"""The least time between two looks for a key that is not known: tokens of strangers cause no more."""


class ProviderMetadata(Lenient):
    """What a provider says of itself (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] = msgspec.field(
        default_factory=lambda: ["client_secret_basic"]
    )
    authorization_response_iss_parameter_supported: bool = False


class _TokenReply(Lenient):
    id_token: str
    access_token: str | None = None


class ProviderError(SignInError):
    """The provider cannot be reached, or answers wrongly. `detail` is for logs and doctors, not for pages."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__("provider", "the identity provider did not answer as it should: see the host's log")


@dataclass(slots=True, eq=False)
class IdentityProvider:
    """One provider. `now` gives UTC epoch seconds, `clock` is monotonic."""

    entry: SignInEntry
    egress: Egress
    resolve: Resolve = field(default_factory=lambda: StoredSecrets().resolve)
    now: Callable[[], float] = wall_clock
    clock: Callable[[], float] = monotonic_clock
    _metadata: ProviderMetadata | None = None
    _metadata_at: float = 0.0
    _failure: ProviderError | None = None
    """Why it could not be asked the last time."""
    _failed_at: float = 0.0
    _keys: Sequence[KeyChoice] = ()
    _keys_at: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def metadata(self) -> ProviderMetadata:
        """Return what the provider says of itself. ProviderError."""
        async with self._lock:
            if self._metadata is None or self.clock() - self._metadata_at > METADATA_SECONDS:
                if self._failure is not None and self.clock() - self._failed_at < FAILURE_SECONDS:
                    raise self._failure
                try:
                    self._metadata = await self._discover()
                except ProviderError as error:
                    self._failure, self._failed_at = error, self.clock()
                    raise
                self._metadata_at = self.clock()
            return self._metadata

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return where a person's browser goes to sign in. ProviderError."""
        endpoint = (await self.metadata()).authorization_endpoint
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.entry.client_id,
                "redirect_uri": self.entry.redirect_url,
                "scope": " ".join(self.entry.scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": _challenge(verifier),
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{query}"

    async def claims(self, *, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        """Exchange a code for the checked claims of its person. SignInError, ProviderError."""
        reply = await self._exchange(code, verifier)
        if len(reply.id_token) > MAX_TOKEN_BYTES:
            raise SignInError("token", "the token is too long")
        claims = await self._verified(reply.id_token)
        check_claims(
            claims,
            issuer=self.entry.issuer,
            client_id=self.entry.client_id,
            nonce=nonce,
            now=self.now(),
            tolerance=self.entry.clock_tolerance,
        )
        if reply.access_token is not None and wants_userinfo(self.entry, claims):
            claims = {**await self._userinfo(reply.access_token, claims["sub"]), **claims}
        return claims

    async def sign_out_url(self, after: str) -> str | None:
        """Return where a browser goes to end its session with the provider too, or None.

        OpenID Connect RP-Initiated Logout 1.0, without the ID token, which the host does not keep.
        """
        endpoint = (await self.metadata()).end_session_endpoint
        if endpoint is None:
            return None
        query = urlencode({"client_id": self.entry.client_id, "post_logout_redirect_uri": after})
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{query}"

    async def check(self) -> str | None:
        """Return why people cannot sign in with this provider now, or None."""
        try:
            await self.metadata()
            if not await self._current_keys():
                return "the provider has no key that this host can use"
            await self._secret()
        except ProviderError as error:
            return error.detail
        except InvalidArgumentError as error:
            return error.message
        return None

    # -- the wire -----------------------------------------------------------------------------------------

    async def _discover(self) -> ProviderMetadata:
        url = f"{self.entry.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._read(await self._get(url), ProviderMetadata, "its description of itself")
        if found.issuer != self.entry.issuer:
            raise ProviderError(
                f"{url} is of the issuer {found.issuer[:200]!r}, not of {self.entry.issuer!r}"
            )
        named = [found.authorization_endpoint, found.token_endpoint, found.jwks_uri]
        named += [one for one in (found.userinfo_endpoint, found.end_session_endpoint) if one is not None]
        for endpoint in named:
            self._check_endpoint(endpoint)
        return found

    def _check_endpoint(self, url: str) -> None:
        """Browsers and this host are sent to these addresses: as well protected as the issuer's, no less."""
        secure = self.entry.issuer.startswith("https://")
        if secure and not url.startswith("https://"):
            raise ProviderError(f"it names an endpoint that is not https: {url[:200]!r}")
        try:
            self.egress.check_url(url)
        except EgressError as error:
            raise ProviderError(f"it names an endpoint that is not allowed: {error.message}") from None

    async def _exchange(self, code: str, verifier: str) -> _TokenReply:
        metadata, secret = await self.metadata(), await self._secret()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.entry.redirect_url,
            "code_verifier": verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        methods = metadata.token_endpoint_auth_methods_supported
        if secret is None:
            form["client_id"] = self.entry.client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            pair = f"{quote(self.entry.client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": self.entry.client_id, "client_secret": secret}
        body = await self._send("POST", metadata.token_endpoint, headers, urlencode(form).encode())
        return self._read(body, _TokenReply, "its answer to a code")

    async def _userinfo(self, access_token: str, sub: str) -> dict[str, Any]:
        """Return the claims of the userinfo endpoint. SignInError: they are of another person."""
        endpoint = (await self.metadata()).userinfo_endpoint
        if endpoint is None or not access_token.isascii() or not access_token.isprintable():
            return {}
        headers = {"authorization": f"Bearer {access_token}", "accept": "application/json"}
        found: dict[str, Any] = self._read(
            await self._send("GET", endpoint, headers), dict[str, Any], "its userinfo"
        )
        if found.get("sub") != sub:
            raise SignInError("token", "the provider's userinfo is of another person")
        return found

    async def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature holds. SignInError."""
        allowed = self.entry.algorithms
        claims = await asyncio.to_thread(verified_claims, token, await self._current_keys(), allowed)
        if claims is None:  # perhaps the provider has changed its keys
            claims = await asyncio.to_thread(verified_claims, token, await self._newer_keys(), allowed)
        if claims is None:
            raise SignInError("token", "the token is signed by no key of the provider")
        return claims

    async def _current_keys(self) -> Sequence[KeyChoice]:
        if self._keys_at is None or self.clock() - self._keys_at > KEYS_SECONDS:
            return await self._newer_keys()
        return self._keys

    async def _newer_keys(self) -> Sequence[KeyChoice]:
        uri = (await self.metadata()).jwks_uri
        async with self._lock:
            if self._keys_at is None or self.clock() - self._keys_at > KEYS_AGAIN_SECONDS:
                document = self._read(await self._get(uri), dict[str, Any], "its keys")
                try:
                    self._keys = await asyncio.to_thread(read_keys, document)
                except ImportError:
                    raise ProviderError("signing in needs the extra: pip install 'hostler[oidc]'") from None
                self._keys_at = self.clock()
            return self._keys

    async def _secret(self) -> str | None:
        user = f"sign_in {self.entry.name}"
        return await asyncio.to_thread(self.resolve, self.entry.client_secret, user)

    async def _get(self, url: str) -> bytes:
        return await self._send("GET", url, {"accept": "application/json"})

    async def _send(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> bytes:
        place = url.partition("?")[0][:200]
        try:
            answer = await self.egress.request(
                method, url, headers=headers, content=content, limits=REQUEST_LIMITS, redirects="never"
            )
        except EgressError as error:
            raise ProviderError(f"{place}: {error.message}") from None
        if answer.truncated:
            raise ProviderError(f"{place}: its answer has more than {REQUEST_LIMITS.max_bytes:,} bytes")
        if answer.status != 200:
            raise ProviderError(f"{place}: it answered with status {answer.status}")
        return answer.body

    def _read(self, body: bytes, kind: type[T], what: str) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ProviderError(f"{self.entry.issuer}: {what} is not as it should be") from None


def _challenge(verifier: str) -> str:
    """Return the code challenge of RFC 7636, method S256."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class IdentityProviders:
    """The providers of the active configuration, by name."""

    def __init__(self, network: Network | None = None, resolve: Resolve | None = None) -> None:
        self._network = network
        self._resolve = resolve or StoredSecrets().resolve
        self._providers: dict[str, IdentityProvider] = {}
        self._problems: dict[str, str] = {}

    async def configure(self, entries: Sequence[SignInEntry]) -> None:
        """Use these from now on. Those whose entry is unchanged keep what they know."""
        kept, gone = {}, []
        for name, provider in self._providers.items():
            if provider.entry in entries:
                kept[name] = provider
            else:
                gone.append(provider)
        self._providers = {entry.name: kept.get(entry.name) or self._new(entry) for entry in entries}
        for provider in gone:
            await provider.egress.close()

    def _new(self, entry: SignInEntry) -> IdentityProvider:
        policy = EgressPolicy.of(entry.network, any_port=True)
        return IdentityProvider(entry, Egress(policy, network=self._network), self._resolve)

    def find(self, name: str) -> IdentityProvider | None:
        """Return the provider of this name, or None."""
        return self._providers.get(name)

    @property
    def entries(self) -> list[SignInEntry]:
        """The entries, in their order."""
        return [provider.entry for provider in self._providers.values()]

    def vouches(self, issuer: str) -> bool:
        """Whether a provider is configured for this issuer: sessions of others are over."""
        return any(provider.entry.issuer == issuer for provider in self._providers.values())

    def keys_until(self, subject: str, signed_in_at: int) -> int:
        """Return until when personal keys of a person act, in milliseconds (`keys_act_until`)."""
        return keys_act_until(self.entries, subject, signed_in_at)

    async def look(self) -> None:
        """Ask each provider whether people can sign in with it."""
        providers = list(self._providers.values())
        found = await asyncio.gather(*(provider.check() for provider in providers))
        pairs = zip(providers, found, strict=True)
        self._problems = {one.entry.name: why for one, why in pairs if why is not None}

    def problems(self) -> list[ConfigProblem]:
        """Return why people could not sign in with a provider when it was last asked."""
        return [
            ConfigProblem(kind="sign_in", name=name, problem=why)
            for name, why in self._problems.items()
            if name in self._providers
        ]

    async def close(self) -> None:
        """Close all connections."""
        await self.configure([])
