"""Email: mails of all kinds and of hostile people, as the channel reads them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hostler_email.events import Account, Drafted, event_of
from hostler_email.html_text import text_of_html
from hostler_email.mailbox import RawMail
from hostler_email.reading import MAX_PARTS, MAX_TEXT_CHARS, Mail, read_mail
from hypothesis import given, settings
from hypothesis import strategies as st

from support.email_desk import mail

LIMIT = 25 * 1024 * 1024
BOT = Account("help@example.org")


def drafted(raw: bytes, account: Account = BOT) -> Drafted:
    return event_of(RawMail(1, 1_764_000_000, len(raw), raw), 7, account, LIMIT)


def parts(*inner: str | bytes, kind: str = "mixed", boundary: str = "b") -> bytes:
    """The rest of a mail in parts; each with its own headers, and with LF for line ends."""
    body = b"".join(
        b"--" + boundary.encode() + b"\n" + (one.encode() if isinstance(one, str) else one) + b"\n"
        for one in inner
    )
    whole = f"Content-Type: multipart/{kind}; boundary={boundary}\n\n".encode() + body
    return (whole + b"--" + boundary.encode() + b"--\n").replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


PLAIN = "Content-Type: text/plain\n\nplain"
HTML = "Content-Type: text/html\n\n<b>rich</b>"
PICTURE = "Content-Type: image/png; name=a.png\nContent-Transfer-Encoding: base64\n\niVBORw0="


# -- text and files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "text", "files"),
    [
        (parts(PLAIN, HTML, kind="alternative"), "plain", []),
        (parts("Content-Type: text/plain\n\n \n", HTML, kind="alternative"), "rich", []),
        (parts(HTML, PICTURE, kind="related"), "rich", ["a.png"]),
        # programs put files beside the HTML, within the alternatives
        (parts(PLAIN, parts(HTML, PICTURE, boundary="c"), kind="alternative"), "plain", ["a.png"]),
        (parts(PLAIN, PICTURE, "Content-Type: text/plain\n\nmore"), "plain\n\nmore", ["a.png"]),
        (
            parts(PLAIN, "Content-Type: text/plain\nContent-Disposition: attachment\n\nnotes"),
            "plain",
            ["part_2.txt"],
        ),
        (
            parts(PLAIN, "Content-Type: application/pgp-signature; name=s.asc\n\nxyz", kind="signed"),
            "plain",
            [],
        ),
        (parts(PLAIN, "Content-Type: message/rfc822\n\nSubject: inner\n\nsecret"), "plain", ["part_2.eml"]),
        (b"Content-Type: application/pdf; name=q.pdf\r\n\r\nPDF", "", ["q.pdf"]),
        (b"Content-Type: text/plain; charset=latin-1\r\n\r\ncaf\xe9", "café", []),
        (b"Content-Type: text/plain; charset=x-nonsense\r\n\r\ncaf\xc3\xa9", "café", []),
        (b"Content-Type: text/plain; charset=punycode\r\n\r\nabc-", "abc-", []),
        (b"Content-Type: text/plain; charset=hex\r\n\r\n4142", "4142", []),
        (b'Content-Type: text/plain; charset="\x00"\r\n\r\nabc', "abc", []),
        (b"Content-Type: text/plain; charset=utf-16\r\n\r\na", "\ufffd", []),
        (b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n%%%aGk=!", "hi", []),
        (
            b"Content-Type: text/plain\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nbegin 666 x\r\nzz\r\n",
            None,
            [],
        ),
        (b"Content-Type: multipart/mixed\r\n\r\nno boundary", "no boundary", []),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nnever ended", "never ended", []),
        (b"Content-Type: ////\r\n\r\nodd", "odd", []),
        (b"Content-Type: text/plain\r\n\r\na\x00b\x07\xe2\x80\xae", "ab", []),
        (b"no header at all", "no header at all", []),
        (b"", "", []),
    ],
)
def test_what_a_mail_says_and_holds(rest: bytes, text: str | None, files: list[str]) -> None:
    found = drafted(mail(rest, Subject=None))
    assert text is None or found.event.text == text
    assert [one.name for one in found.files] == files


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('filename="../../etc/passwd"', "passwd"),
        ('filename="C:\\\\Users\\\\ada\\\\q.pdf"', "q.pdf"),
        ("filename*=utf-8''B%C3%A4r.pdf", "Bär.pdf"),
        ('filename="=?utf-8?b?QsOkci5wZGY=?="', "Bär.pdf"),
        ("filename*=x-nonsense''a%FFb.pdf", None),
        ("filename*0*=utf-8''a; filename*1=b.pdf", "ab.pdf"),
        ("filename*99999999999999999999*=x", None),
        ('filename="\u202egnp.exe"', "gnp.exe"),
        ('filename="..."', "part_1.pdf"),
        (f'filename="{"x" * 5_000}.pdf"', "x" * 130 + "x" * 16 + ".pdf"),
    ],
)
def test_names_of_files_are_names(disposition: str, name: str | None) -> None:
    head = f"Content-Disposition: attachment; {disposition}\r\nContent-Type: application/pdf\r\n\r\nPDF"
    (file,) = drafted(mail(head.encode())).files
    assert file.content == b"PDF"
    assert len(file.name) <= 150
    assert name is None or file.name == name


def test_html_is_read_as_people_see_it() -> None:
    page = """<html><head><title>t</title><style>p{}</style></head><body><h1>Hi&nbsp;there</h1>
    <p>One &lt;two&gt; <a href="https://a.example/x?y=1&amp;z">link</a> 1 < 2</p><ul><li>a<li>b</ul>
    <div style="display:none">do evil
    <p>worse</p></div><script>if (a > b) {}</script><span hidden>x</span><pre>a
  b</pre><!-- <p>no --><img src=x><table><tr><td>1</td><td>2</td></tr></table><p>end"""
    assert text_of_html(page) == (
        "Hi\u00a0there\n\nOne <two> link (https://a.example/x?y=1&z) 1 < 2\n\n- a\n- b\n\na\n  b".replace(
            "  b", "b"
        )
        + "\n\n1\t2\n\nend"
    )


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<",
        "</a ",
        "<a b='",
        "<a href=https://x>",
        "<p style='display:none'>",
        "&#",
        "<![CDATA[",
        "<script>",
    ],
)
def test_hostile_html_takes_time_for_its_length(piece: str) -> None:
    # what Python's own parser needs minutes for; a bound for the whole test is that of the runner
    text_of_html(piece * (1_000_000 // len(piece)))


# -- bombs ----------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    inner: bytes = PLAIN.encode()
    for number in range(depth):
        inner = parts(inner, boundary=f"b{number}").rstrip()
    return inner


BOMBS: dict[str, tuple[bytes, str]] = {
    "deep": (nested(500), "of its parts hold parts"),
    "messages": (b"Content-Type: message/rfc822\r\n\r\n" * 400 + b"x", "of its parts hold parts"),
    "many parts": (parts(*[PLAIN] * 20_000), "that may begin parts"),
    "some parts": (parts(*[PLAIN] * 1_000), f"over {MAX_PARTS} parts"),
    "headers": (b"X-A: " + b"y" * 300_000 + b"\r\n\r\nhi", "header fields have over"),
    "folded": (b"X-A: y\r\n" + b" y\r\n" * 100_000 + b"\r\nhi", "header fields have over"),
    "lines": (b"Content-Type: text/plain\r\n\r\n" + b"\n" * 2_500_000, "lines"),
    "long text": (b"Content-Type: text/plain\r\n\r\n" + b"x" * 900_000, "characters"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_cut_and_says_so(name: str) -> None:
    rest, told = BOMBS[name]
    found = drafted(mail(rest))
    assert any(told in one for one in found.event.data["problems"]), found.event.data
    assert found.event.person is not None
    assert found.event.person.person_id == "ada@example.com"
    assert len(found.event.text or "") <= MAX_TEXT_CHARS + 100
    assert len(found.files) <= MAX_PARTS
    expected = "message.received" if name in {"some parts", "long text"} else "platform.unreadable_mail"
    assert found.event.event_type == expected


def test_a_mail_that_is_cut_off_says_which_file_is_missing() -> None:
    whole = mail(parts(PLAIN, PICTURE, "Content-Type: application/zip; name=z.zip\n\n" + "z" * 5_000))
    raw = RawMail(1, 0, len(whole) + 9_999, whole[:-3_000])
    found = event_of(raw, 7, BOT, len(raw.content))
    assert [(one.name, one.reason is None) for one in found.files] == [("a.png", True), ("z.zip", False)]
    assert found.event.text == "A question\n\nplain"
    assert found.event.data["problems"] == ["the mail is larger than what is fetched, and was cut"]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_bytes_are_too_odd(data: st.DataObject) -> None:
    whole = bytearray(
        mail(parts(PLAIN, PICTURE, parts(PLAIN, HTML, kind="alternative", boundary="c")), Cc="B <b@x.y>")
    )
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(whole)))
        piece = data.draw(
            st.sampled_from([b"\x00", b"\xff", b"\r\n\r\n", b";", b'"', b"=?", b"?=", b"(", b"--b", b"*"])
        )
        whole[at : at + data.draw(st.integers(0, 3))] = piece
    drafted(bytes(whole))


# -- who wrote it ---------------------------------------------------------------------------------

MACHINES: list[tuple[dict[str, Any], str]] = [
    ({"Auto_Submitted": "auto-replied"}, "automatic_mail"),
    ({"Auto_Submitted": "Auto-Generated; type=x (c)"}, "automatic_mail"),
    ({"Auto_Submitted": "(no) auto-notified"}, "automatic_mail"),
    ({"Precedence": "bulk"}, "automatic_mail"),
    ({"Precedence": "Junk"}, "automatic_mail"),
    ({"X_Auto_Response_Suppress": "DR, OOF, AutoReply"}, "automatic_mail"),
    ({"X_Autoreply": "yes"}, "automatic_mail"),
    ({"From": "No-Reply+7@shop.example"}, "automatic_mail"),
    ({"Precedence": "list"}, "list_mail"),
    ({"List_Id": "<news.example.com>"}, "list_mail"),
    ({"List_Unsubscribe": "<https://x.example>"}, "list_mail"),
    ({"Return_Path": "<>"}, "bounce"),
    ({"From": "MAILER-DAEMON@mx.example"}, "bounce"),
    ({"X_Failed_Recipients": "bob@example.com"}, "bounce"),
]


@pytest.mark.parametrize(("fields", "kind"), MACHINES)
def test_mails_of_machines_are_no_messages(fields: dict[str, Any], kind: str) -> None:
    event = drafted(mail("I am away", **fields)).event
    assert (event.event_type, event.source_event_type) == (f"platform.{kind}", kind)
    assert event.person is not None
    assert event.person.is_bot
    # nothing that an agent says of it can go anywhere, and nothing of it is what somebody said
    assert (event.chat, event.text, event.addressed) == (None, None, [])
    assert event.data["mail"]["text"].endswith("I am away")


@pytest.mark.parametrize(
    "fields", [{"Auto_Submitted": "no"}, {"Auto_Submitted": " NO (a person) "}, {"Precedence": "first-class"}]
)
def test_mails_that_say_that_a_person_wrote_them_are_messages(fields: dict[str, Any]) -> None:
    assert drafted(mail("I am here", **fields)).event.event_type == "message.received"


def test_a_bounce_tells_which_mail_and_why() -> None:
    own = f"<hostler.{'a' * 32}.{'b' * 32}@example.org>"
    rest = parts(
        PLAIN,
        "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n"
        "Final-Recipient: rfc822; bob@example.com\nAction: failed\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 5.1.1 no such user",
        f"Content-Type: message/rfc822\n\nMessage-ID: {own}\nSubject: x\n\nhi",
        kind="report; report-type=delivery-status",
    )
    event = drafted(mail(rest, Return_Path="<>", From="Mail <mailer-daemon@mx.example>")).event
    assert event.event_type == "platform.bounce"
    assert event.data["report"] == {
        "recipient": "bob@example.com",
        "action": "failed",
        "status": "5.1.1",
        "reason": "550 5.1.1 no such user",
        "message_id": own,
    }
    assert event.reply_to == own


@pytest.mark.parametrize(
    "sender",
    [None, "", "nobody", "Ada <>", "<@example.com>", "a@b@c", "undisclosed:;", "x" * 70_000 + "@example.com"],
)
def test_a_mail_of_nobody_is_no_message(sender: str | None) -> None:
    event = drafted(mail("hi", From=sender)).event
    assert event.event_type == "platform.unreadable_mail"
    assert event.person is None


PASS = "mx.example.org; dmarc=pass (p=REJECT) header.from=example.com"
OK = "dmarc=pass header.from=example.com"
FORGED = f'mx.example.org; spf=pass smtp.mailfrom="; {OK} ;"@x'
ESCAPED = f'mx.example.org; spf=pass smtp.mailfrom="\\"; {OK}"'
FAILED = "mx.example.org; dmarc=fail header.from=example.com"
FOLDED = "mx.example.org 1;\r\n spf=fail;\r\n DMARC=pass action=none header.from=Example.com"
VOUCHED: list[tuple[bool, str | None, str | None]] = [
    (True, PASS, None),
    (True, FOLDED, None),
    (True, PASS, '"Eve <eve@evil.example>" <ada@example.com>'),
    (True, f"mx.evil.example; dmarc=fail\r\nAuthentication-Results: {PASS}", None),
    (False, None, None),
    (False, FAILED, None),
    (False, "mx.example.org; spf=pass smtp.mailfrom=example.com", None),
    (False, f"mx.evil.example; {OK}", None),
    (False, f"mx.example.org.evil; {OK}", None),
    (False, "mx.example.org; dmarc=pass header.from=evil.example", None),
    (False, "mx.example.org; dmarc=pass", None),
    (False, f"mx.example.org; dmarc=fail (; {OK})", None),
    (False, FORGED, None),
    (False, ESCAPED, None),
    (False, f"mx.example.org; {OK}; dmarc=fail", None),
    (False, "(" * 9_000 + PASS, None),
    (False, PASS, "ada@example.com, eve@evil.example"),
    (False, PASS, "ada@example.com\r\nFrom: eve@evil.example"),
    (False, PASS, "ada@example.com)eve@evil.example"),
    (False, PASS, "ada@example.com <eve@evil.example>"),
    (False, f"{FAILED}\r\nAuthentication-Results: {PASS}", None),
]


@pytest.mark.parametrize(("is_proved", "told", "sender"), VOUCHED)
def test_a_sender_is_known_if_the_named_server_says_so(
    is_proved: bool, told: str | None, sender: str | None
) -> None:
    fields: dict[str, Any] = {"Authentication_Results": told, **({"From": sender} if sender else {})}
    event = drafted(mail("hi", **fields), Account("help@example.org", vouching="MX.example.org")).event
    assert (event.event_type == "message.received") is is_proved, event.data
    if not is_proved and event.event_type != "platform.unreadable_mail":
        assert event.person is None
        assert event.event_type == "platform.unverified_mail"
        assert (event.chat, event.text) == (None, None)
        assert event.data["unverified"]


def test_a_machine_that_nobody_vouches_for_is_nobody() -> None:
    event = drafted(
        mail("hi", Precedence="bulk"), Account("help@example.org", vouching="mx.example.org")
    ).event
    assert (event.event_type, event.person) == ("platform.automatic_mail", None)
    assert event.data["unverified"]


def test_the_id_of_a_mail_is_made_of_what_stays() -> None:
    first = drafted(mail("hello")).event.event_id
    assert drafted(b"Received: by elsewhere\r\n" + mail("hello", Return_Path=None)).event.event_id == first
    others = [
        mail("hello!"),
        mail("hello", Message_ID="<2@example.com>"),
        mail("hello", From="eve@example.com"),
    ]
    assert first not in {drafted(one).event.event_id for one in others}
    odd = drafted(mail("hello", Message_ID="<" + "x" * 5_000 + "@example.com>")).event
    assert odd.message_id == "uid:7.1"


def test_words_and_names_are_read() -> None:
    fields = {
        "From": "=?utf-8?q?J=C3=BCrgen?= =?iso-8859-1?q?_M=FCller?= <j@example.com>",
        "Subject": "=?utf-8?b?8J+RiyBo?= =?x-none?q?i?= =?utf-8?b?###?=",
    }
    event = drafted(mail(base64.b64encode(b"x"), **fields)).event
    assert event.person is not None
    assert event.person.name == "Jürgen Müller"
    assert event.data["mail"]["subject"].startswith("👋 hi")


def test_reading_gives_headers_alone_of_what_is_too_much() -> None:
    found: Mail = read_mail(mail(nested(500)))
    assert found.text == ""
    assert found.fields.text("subject") == "A question"
