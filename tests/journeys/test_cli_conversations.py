"""`hostler conversations`, as real commands beside a real server."""

from __future__ import annotations

from support.command_line import ECHO, CommandLine


def test_conversations_are_listed_found_named_forked_and_deleted(hostler: CommandLine) -> None:
    config = hostler.cwd / "hostler.yaml"
    config.write_text(
        f"plugins: [{{path: {ECHO}, level: trusted}}]\n"
        'agents: [{name: echo, runner: "plugin:acme/echo/default"}]\n'
    )
    with hostler.serving("--config", config):
        assert "no conversations yet" in (first := hostler("conversations", "list")).out + first.err
        for text in ("striped zebras", "spotted cats"):
            assert hostler("run", "echo", text, "--conversation", "zoo").status == 0
        named = hostler("conversations", "rename", "zoo", "The zoo")
        assert "is named 'The zoo'" in named.out + named.err
        assert "The zoo" in hostler("conversations", "list").out
        found = hostler("conversations", "search", "zebras", "--json").json
        assert [item["role"] for item in found] == ["assistant", "user"]
        made = hostler("conversations", "fork", "zoo", "--at", found[0]["cursor"], "--json").json
        assert (made["messages"], made["title"]) == (2, "The zoo")
        deleted = hostler("conversations", "delete", "zoo", "--yes")
        assert "conversation zoo is deleted" in deleted.out + deleted.err
        (left,) = hostler("conversations", "list", "--json").json
        assert left["conversation_id"] == made["conversation_id"]
        assert hostler("conversations", "rename", made["conversation_id"], "").status == 0
        assert "there is no conversation 'zoo'" in hostler("conversations", "delete", "zoo", "--yes").error
