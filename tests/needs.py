"""What a machine lacks skips its tests with a reason; with CI=true nothing may be lacking, and it is a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

# A property recorded under this name is printed at the end of a run, if its test has passed.
TOLD = "told"


def lacking(reason: str) -> NoReturn:
    """Skip the test that asked, or fail it where the machine promised to have everything."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{reason}; with CI=true that is a failure", pytrace=False)
    pytest.skip(reason)
