"""Fixtures that tests of every package may ask for, and what all tests run under."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from support.chromium import chromium_of_the_process
from support.coroutines import anyio_backend, pytest_pyfunc_call
from support.databases import (
    database,
    database_url,
    postgres_server,
    postgres_template,
    pytest_generate_tests,
)
from support.known_secrets import secrets_of_the_module, secrets_of_the_test
from support.memory import memory, pytest_runtest_protocol, tmp_path
from support.order import pytest_collection_modifyitems, pytest_xdist_auto_num_workers
from support.ready_plugins import pytest_runtest_setup

__all__ = [
    "anyio_backend",
    "chromium_of_the_process",
    "database",
    "database_url",
    "memory",
    "postgres_server",
    "postgres_template",
    "pytest_collection_modifyitems",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_xdist_auto_num_workers",
    "secrets_of_the_module",
    "secrets_of_the_test",
    "tmp_path",
]

# A shell that starts tests in the background has them ignore Ctrl-C, and all that they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests start processes of Python: compiling the host anew for each would be most of what they do.
# Where bytecode is kept, as it is on users' machines, what they import is compiled once.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# No example is judged by the clock, and the same examples are tried each time; new ones in the long form.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=not os.environ.get("HOSTLER_SOAK"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("steady")
if not os.environ.get("HOSTLER_SOAK"):
    # Hypothesis also tries constants of all modules that happen to be imported: examples would not be the
    # same each time, and each worker would read the whole code once more, which takes 8 s of its processor.
    setattr(providers, "is_local_module_file", lambda path: False)  # noqa: B010 - no name that they export


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage after the collection only, and never in what it made: that took a fifth of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


UMASK = os.umask(0o022)
os.umask(UMASK)


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Commands change the umask of their process, which here is that of many other tests and fixtures."""
    os.umask(UMASK)
    yield
    os.umask(UMASK)
