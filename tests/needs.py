"""Programs that tests need: a missing one skips the test with the reason, and fails it with CI=true."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from typing import NoReturn

import pytest

# The name of the recorded property that is printed at the end of a run, if its test passed.
SUMMARY = "summary"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test, or fail it with CI=true."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{reason}; with CI=true this is a failure", pytrace=False)
    pytest.skip(reason)


def needs_cryptography() -> None:
    """Skip the test, or fail it with CI=true, without the package `cryptography`."""
    if importlib.util.find_spec("cryptography") is None:
        skip_or_fail("no package cryptography; install kcli-kafka[tls]")


def needs_package(module: str, extra: str = "schema") -> None:
    """Skip the test, or fail it with CI=true, without this package of an extra of kcli."""
    try:
        importlib.import_module(module)
    except ImportError:
        skip_or_fail(f"no package {module}; install kcli-kafka[{extra}]")


def needs_kerberos_library() -> None:
    """Skip the test, or fail it with CI=true, without MIT's Kerberos library."""
    try:
        ctypes.CDLL("libgssapi_krb5.so.2")
    except OSError:
        skip_or_fail("no Kerberos library libgssapi_krb5.so.2")
