"""An engine of filters that takes long to load, as after an installation, when all is compiled first."""

from __future__ import annotations

from pathlib import Path

import cel
import pytest

_CODE = """
import time
while time.process_time() < 0.8:
    pass
__path__ = [{real!r}]
exec(compile(open({real!r} + "/__init__.py").read(), {real!r} + "/__init__.py", "exec"))
"""


def load_slowly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes that are started from here load the engine for longer than a filter may take."""
    (folder / "cel").mkdir(parents=True)
    (folder / "cel" / "__init__.py").write_text(_CODE.format(real=cel.__path__[0]))
    monkeypatch.syspath_prepend(str(folder))
