"""`python -m hostler_langbot.child`: the plugin's process, with LangBot's own command in it.

Only this process imports LangBot's SDK, and nothing of the host's.
"""

from __future__ import annotations

import runpy
import sys

from hostler_langbot import generations, proxied

COMMAND = "langbot_plugin.cli.__init__"
ARGUMENTS = ("run", "-s", "--prod")
"""As LangBot's runtime starts a plugin: over standard input and output, with a registration of one use."""


def main() -> None:
    """Run the plugin in the current folder until standard input is closed."""
    proxied.install()
    generations.install()
    sys.argv = [COMMAND, *ARGUMENTS]
    runpy.run_module(COMMAND, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
