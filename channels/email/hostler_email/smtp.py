"""Mails out over aiosmtplib, and what its errors mean for what was to be sent."""

from __future__ import annotations

import asyncio
import re
import socket

from aiosmtplib import SMTP
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPResponseException,
)

from hostler_email.network import Server, connect
from hostler_sdk.channels import NotSent, UnclearError

BEGIN_SECONDS = 30.0
"""Time to connect, to log in and to write a mail, without the dot that ends it."""
ANSWER_SECONDS = 15.0
"""Time for the answer to the dot. The host waits for a minute in all."""
QUIT_SECONDS = 2.0
MAX_TOLD_CHARS = 500
LIMITED_SECONDS = 900.0
"""The wait after a server said that it got too many mails: it does not say for how long."""
_LIMITED = re.compile(
    r"\b(?:4\.7\.28|5\.4\.5)\b|sending (?:quota|limit|rate)|rate limit|too many (?:mail|message)",
    re.IGNORECASE,
)
_OF_THE_LOGIN = {530, 534, 535, 538}
_DOT = re.compile(rb"^\.", re.MULTILINE)


class Post:
    """The server that mails are given to. A connection is made for each."""

    def __init__(self, server: Server, user: str, password: str) -> None:
        self._server = server
        self._user = user
        self._password = password

    async def check(self) -> None:
        """Connect and log in. Raises NotSent if that fails."""
        async with asyncio.timeout(BEGIN_SECONDS):
            client = await self._connected()
            await _leave(client)

    async def send(self, sender: str, to: str, content: bytes) -> None:
        """Give a mail to the server; when this returns, the server has taken it.

        Raises NotSent if it has certainly not, UnclearError if that is not known.
        """
        client: SMTP | None = None
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                client = await self._connected()
                await self._hand_over(client, sender, to, content)
        except TimeoutError:
            _close(client)
            raise NotSent(
                f"the SMTP server {self._server} did not take the mail within {BEGIN_SECONDS:g} s"
            ) from None
        except BaseException:
            _close(client)
            raise
        try:
            await self._finish(client)
            await _leave(client)
        finally:
            client.close()

    async def _connected(self) -> SMTP:
        try:
            line = await asyncio.to_thread(connect, self._server)
        except OSError as error:
            raise NotSent(f"the SMTP server {self._server} cannot be reached: {error}") from error
        line.setblocking(False)
        client = self._client(line)
        try:
            await client.connect()
            if self._user:
                await client.login(self._user, self._password)
        except SMTPAuthenticationError as error:
            client.close()
            what = "does not take the password" if error.code >= 500 else "does not log in"
            raise NotSent(f"the SMTP server {what}: {error.code} {self._clean(error)}") from None
        except (SMTPException, OSError, TimeoutError, ValueError) as error:
            client.close()
            line.close()
            raise NotSent(f"the SMTP server {self._server}: {self._clean(error)}") from error
        except BaseException:
            client.close()
            line.close()
            raise
        return client

    def _client(self, line: socket.socket) -> SMTP:
        return SMTP(
            hostname=self._server.host,
            sock=line,
            use_tls=self._server.security == "tls",
            start_tls=self._server.security == "starttls",
            tls_context=self._server.context,
            local_hostname="[127.0.0.1]",  # the name of this machine is nobody's business
            timeout=BEGIN_SECONDS,
        )

    async def _hand_over(self, client: SMTP, sender: str, to: str, content: bytes) -> None:
        try:
            size = client.esmtp_extensions.get("size", "")
            if size.isdecimal() and 0 < int(size) < len(content):
                most = f"{int(size) / 1024**2:.1f} MiB"
                raise NotSent(f"the mail is larger than the {most} that the SMTP server takes", final=True)
            await client.mail(sender)
            await client.rcpt(to)
            started = await client.execute_command(b"DATA")
            if started.code != 354:
                raise SMTPResponseException(started.code, started.message)
            await self._write(client, content)
        except SMTPResponseException as error:
            raise self._refusal(error) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise NotSent(f"the connection to the SMTP server broke: {self._clean(error)}") from error

    async def _write(self, client: SMTP, content: bytes) -> None:
        """Write a mail without the dot that ends it: until then the server has none (RFC 5321, 4.1.1.4)."""
        protocol, transport = client.protocol, client.transport
        if protocol is None or not isinstance(transport, asyncio.WriteTransport):
            raise ConnectionError("it is closed")
        transport.set_write_buffer_limits(high=0)
        protocol.write(_DOT.sub(b"..", content) + (b"" if content.endswith(b"\r\n") else b"\r\n"))
        await protocol._drain_helper()

    async def _finish(self, client: SMTP) -> None:
        protocol = client.protocol
        if protocol is None or not protocol.is_connected:
            raise NotSent("the connection to the SMTP server broke before the end of the mail")
        try:
            protocol.write(b".\r\n")
            answer = await protocol.read_response(ANSWER_SECONDS)
        except (SMTPException, OSError, TimeoutError) as error:
            raise UnclearError(f"the SMTP server gave no answer to the mail: {self._clean(error)}") from error
        if 200 <= answer.code < 300:
            return
        if not 400 <= answer.code < 600:
            raise UnclearError(f"the SMTP server answered {answer.code} {answer.message[:MAX_TOLD_CHARS]}")
        raise self._refusal(SMTPResponseException(answer.code, answer.message))

    def _refusal(self, error: SMTPResponseException) -> NotSent:
        """Return what a refusal means. Of 5xx the server says that it will never take the mail."""
        text = f"the SMTP server: {error.code} {self._clean(error)}"
        if _LIMITED.search(text):
            return NotSent(text, retry_after=LIMITED_SECONDS)
        return NotSent(text, final=500 <= error.code < 600 and error.code not in _OF_THE_LOGIN)

    def _clean(self, error: BaseException) -> str:
        text = " ".join(str(one) for one in error.args if not isinstance(one, int)) or type(error).__name__
        for secret in (self._password,):
            text = text.replace(secret, "[password]") if secret else text
        return " ".join(text.split())[:MAX_TOLD_CHARS]


def _close(client: SMTP | None) -> None:
    if client is not None:
        client.close()


async def _leave(client: SMTP) -> None:
    """Say goodbye; nothing hangs on the answer."""
    try:
        await client.quit(timeout=QUIT_SECONDS)
    except (SMTPException, OSError, TimeoutError):
        pass
    finally:
        client.close()
