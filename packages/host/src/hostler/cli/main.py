"""`hostler`: the entry point of the command line."""

from __future__ import annotations

import atexit
import gc
import sys

from hostler.version import VERSION

YOUNG_OBJECTS = 100_000
"""New objects before Python collects cycles among them: most commands end before."""


def main() -> None:
    """Run the command line. An error ends it with one line; the traceback of a bug is written to a file."""
    if sys.argv[1:] == ["--version"]:  # programs ask this often: answer without imports
        sys.stdout.write(f"hostler {VERSION}\n")
        return
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)  # the collections at the end would visit all that was imported, for nothing
    from hostler.cli.commands import app
    from hostler.cli.output import INTERRUPTED, show_error
    from hostler_protocol.errors import HostlerError

    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except HostlerError as error:
        show_error(error.message)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)  # the reader of our output has closed it
    except Exception:  # noqa: BLE001 - the top of the program: one line, and where the traceback is
        sys.exit(_report())


def _report() -> int:
    import tempfile
    import traceback
    from pathlib import Path

    from hostler.cli.output import show_error
    from hostler.secrets.known_values import redact

    arguments = [
        "***" if before == "--key" or one.startswith("--key=") else one
        for before, one in zip(["", *sys.argv], sys.argv, strict=False)
    ]
    with tempfile.NamedTemporaryFile(
        "w", prefix="hostler-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(redact(f"{arguments}\n{traceback.format_exc()}"))
    show_error(f"this is a bug in hostler: please report it with {Path(file.name)}, which has the details")
    return 1


if __name__ == "__main__":
    main()
