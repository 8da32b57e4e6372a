"""Members from the shell, with a server and without one; and a provider that does not answer, in `doctor`."""

from __future__ import annotations

import pytest

from support.command_line import CommandLine


@pytest.mark.parametrize("served", [True, False])
def test_members_are_invited_listed_changed_and_removed(hostler: CommandLine, served: bool) -> None:
    def walk() -> None:
        assert "no members yet" in hostler("members", "list").err
        added = hostler("members", "add", "Bea@example.com", "approver", "--name", "Bea", "--json")
        assert (added.status, added.json["email"], added.json["role"]) == (0, "bea@example.com", "approver")
        again = hostler("members", "add", "bea@example.com", "reader")
        assert (again.status, "already" in again.error) == (1, True)
        wrong = hostler("members", "add", "ann@example.com", "king")
        assert (wrong.status, "role" in wrong.error) == (2, True)
        assert "Bea\tbea@example.com\tapprover" in hostler("members", "list").out
        changed = hostler("members", "set-role", "bea@example.com", "operator")
        assert (changed.status, "Bea is operator" in changed.err) == (0, True)
        assert hostler("members", "list", "--json").json[0]["role"] == "operator"
        missing = hostler("members", "remove", "nobody@example.com")
        assert (missing.status, "no member has the address" in missing.error) == (1, True)
        removed = hostler("members", "remove", added.json["member_id"])
        assert removed.status == 0, removed.err
        assert hostler("members", "list", "--json").json == []
        facts = hostler("audit", "list", "--json").json
        assert [fact["action"] for fact in facts if fact["target"] == added.json["member_id"]] == [
            "member.removed",
            "member.role_changed",
            "member.added",
        ]
        assert "member.role_changed" in hostler("audit", "list", "--limit", "2").out
        assert hostler("audit", "list", "--limit", "2").out.count("member.") == 2
        assert "nothing in the audit log matches" in hostler("audit", "list", "--action", "none").err

    if served:
        with hostler.serving():
            walk()
    else:
        walk()


def test_a_doctor_names_a_provider_that_cannot_be_reached(hostler: CommandLine) -> None:
    entry = (
        "issuer=http://127.0.0.1:1/realm",
        "client_id=c",
        "redirect_url=http://127.0.0.1:8420/v1/auth/callback",
        'network=["127.0.0.1:1"]',
    )
    assert hostler("config", "set", "sign_in", "corp", *entry).status == 0
    found = hostler("doctor", "--json")
    (problem,) = [one for one in found.json if one["what"] == "sign_in"]
    assert problem["verdict"] == "wrong"
    assert "cannot be reached" in problem["text"]
    bad = hostler("config", "set", "sign_in", "corp", "issuer=http://id.example.com")
    assert (bad.status, "expected https" in bad.err) == (2, True)
    second = hostler("config", "set", "sign_in", "copy", *entry)
    assert "has this issuer already" in second.err
