"""An OpenID provider on a real socket: discovery, tokens with real signatures, keys that change.

It is honest and strict, as far as a test does not make it lie: `claims`, `header`, `metadata` and `keys`
replace what it says, `answers` whole answers by path, and `hangs` names paths that are never answered.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from support.listening import Asked, Listening
from support.loopback import NO_CERTIFICATES

CLIENT = "hostler-tests"
SECRET = "the client's secret /+ with signs"


@dataclass
class Grant:
    """What a code stands for."""

    redirect_uri: str
    nonce: str
    challenge: str
    person: dict[str, Any]
    used: bool = False


@dataclass
class FakeProvider(Listening):
    """The provider. `person`: the claims of whoever signs in next."""

    person: dict[str, Any] = field(
        default_factory=lambda: {
            "sub": "ada-1",
            "name": "Ada",
            "email": "ada@example.com",
            "email_verified": True,
            "groups": ["desk"],
        }
    )
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    in_token: bool = True
    """Whether groups and address are in the ID token; otherwise in the userinfo alone."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    accepts_used_codes: bool = False
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    hangs: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    codes: dict[str, Grant] = field(default_factory=dict)
    key: Any = None
    keys: list[Any] = field(default_factory=list)
    alg: str = "RS256"
    signed: str | None = None
    """A whole token to hand out instead of a signed one."""
    access_token: str = "at"
    issued: list[str] = field(default_factory=list)
    """The ID tokens that it handed out."""

    def __post_init__(self) -> None:
        self.rotate()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rotate(self, kind: str = "RSA", *, keep: bool = False) -> None:
        """Sign with a new key from now on; the old ones are published no more, unless `keep`."""
        kid = secrets.token_hex(4)
        if kind == "RSA":
            self.key, self.alg = RSAKey.generate_key(2048, {"kid": kid}), "RS256"
        else:
            self.key, self.alg = ECKey.generate_key("P-256", {"kid": kid}), "ES256"
        self.keys = [*(self.keys if keep else []), self.key]

    def paths(self) -> list[str]:
        return [one.path.partition("?")[0] for one in self.asked]

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        path = asked.path.partition("?")[0]
        if path in self.hangs:
            await asyncio.Event().wait()
        status, body = self.answers.get(path) or self._answer(path, asked)
        lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}"]
        lines += ["location: http://127.0.0.1:1/"] if status == 302 else []
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return True

    def _answer(self, path: str, asked: Asked) -> tuple[int, bytes]:
        match path:
            case "/.well-known/openid-configuration":
                return 200, json.dumps(self._metadata()).encode()
            case "/keys":
                public = [key.as_dict(private=False) | {"use": "sig"} for key in self.keys]
                return 200, json.dumps({"keys": public}).encode()
            case "/token":
                return self._token(asked)
            case "/userinfo":
                return 200, json.dumps({**self.person, **self.userinfo}).encode()
            case _:
                return 404, b"{}"

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "end_session_endpoint": f"{self.issuer}/leave",
            "authorization_response_iss_parameter_supported": True,
            "response_types_supported": ["code"],
            **self.metadata,
        }

    # -- what the browser does here -----------------------------------------------------------------------

    def authorize(self, location: str, **changes: str | None) -> str:
        """The person agrees: the callback's path and query. `changes` replace parts of the answer."""
        query = dict(parse_qsl(urlsplit(location).query, strict_parsing=True))
        assert location.startswith(f"{self.issuer}/authorize?tenant=1&"), location
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = Grant(
            query["redirect_uri"], query["nonce"], query["code_challenge"], dict(self.person)
        )
        answer = {"code": code, "state": query["state"], "iss": self.issuer, "session_state": "x", **changes}
        sent = urlencode({name: value for name, value in answer.items() if value is not None})
        return f"{urlsplit(query['redirect_uri']).path}?{sent}"

    # -- tokens -------------------------------------------------------------------------------------------

    def _token(self, asked: Asked) -> tuple[int, bytes]:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        grant = self.codes.get(form.get("code", ""))
        scheme, _, pair = asked.headers.get("authorization", "").partition(" ")
        client, _, secret = (
            base64.b64decode(pair).decode().partition(":") if scheme == "Basic" else ("", "", "")
        )
        good = (unquote(client), unquote(secret)) == (CLIENT, SECRET) and grant is not None
        if not good or grant is None or (grant.used and not self.accepts_used_codes):
            return 400, b'{"error": "invalid_grant"}'
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != grant.challenge or form.get("redirect_uri") != grant.redirect_uri:
            return 400, b'{"error": "invalid_grant"}'
        grant.used = True
        token = self.signed or self.sign(self.claims_of(grant))
        self.issued.append(token)
        reply = {"id_token": token, "access_token": self.access_token, "token_type": "Bearer"}
        return 200, json.dumps(reply).encode()

    def claims_of(self, grant: Grant) -> dict[str, Any]:
        now = int(time.time())
        person = grant.person if self.in_token else {"sub": grant.person["sub"]}
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": grant.nonce,
            **person,
            **self.claims,
        }
        return {name: value for name, value in claims.items() if value is not ...}

    def sign(self, claims: dict[str, Any], *, key: Any = None, alg: str | None = None) -> str:
        used = key or self.key
        header = {"alg": alg or self.alg, "kid": used.kid, **self.header}
        header = {name: value for name, value in header.items() if value is not ...}
        if "crit" in header:  # the library refuses to write what it does not know
            signed = f"{_part(header)}.{_part(claims)}"
            made = used.raw_value.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
            return f"{signed}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
        return jws.serialize_compact(header, json.dumps(claims), used, algorithms=[header["alg"]])

    def with_shared_secret(self, claims: dict[str, Any]) -> str:
        """A token signed by HS256 with the text of the public key, which verifiers may take for a secret."""
        pem = self.key.as_pem(private=False)
        head = _part({"alg": "HS256", "kid": self.key.kid})
        signed = f"{head}.{_part(claims)}"
        mac = hmac.new(pem, signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    @staticmethod
    def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
        return f"{_part({'alg': alg})}.{_part(claims)}."


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@dataclass
class Browser:
    """A browser: it keeps cookies as they are set, and sends them with every request to the host."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict)
    set: list[str] = field(default_factory=list)
    """The `set-cookie` headers that came."""
    csrf: str = ""
    origin: str = ""

    async def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = dict(given.pop("headers", {}))
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if method not in ("GET", "HEAD"):
            headers = {"origin": self.origin or self.url, "x-csrf-token": self.csrf, **headers}
        async with httpx.AsyncClient(base_url=self.url, timeout=60, verify=NO_CERTIFICATES) as client:
            answer = await client.request(method, path, headers=headers, **given)
        for text in answer.headers.get_list("set-cookie"):
            self.set.append(text)
            name, _, rest = text.partition("=")
            value = rest.partition(";")[0]
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        return answer

    async def get(self, path: str, **given: Any) -> httpx.Response:
        return await self.request("GET", path, **given)

    async def begin(self, **query: str) -> str:
        """Begin a sign-in; where the provider is."""
        answer = await self.get(f"/v1/auth/sign-in?{urlencode(query)}")
        assert answer.status_code == 303, answer.text
        location: str = answer.headers["location"]
        return location

    async def sign_in(self, provider: FakeProvider, **query: str) -> httpx.Response:
        """Sign in, the whole way; the answer of the callback."""
        answer = await self.get(provider.authorize(await self.begin(**query)))
        assert answer.status_code == 303, answer.text
        if "problem" not in answer.headers["location"]:
            self.csrf = (await self.get("/v1/auth/session")).json()["csrf_token"]
        return answer
