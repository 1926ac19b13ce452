"""Apache's group tool, one process for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.compat.both_tools import GroupTool


@pytest.fixture(scope="session")
def tool(kafka_jars: Path) -> Iterator[GroupTool]:
    with GroupTool(kafka_jars) as running:
        yield running
