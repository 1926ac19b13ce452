"""Fixtures of the log's tests."""

from pathlib import Path

import pytest

from kcli.broker.memory_files import MemoryFiles
from tests.broker.log.logs import Keeper


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    """A partition's directory on the disk."""
    return Keeper(str(tmp_path / "orders-0"))


@pytest.fixture
def memory_keeper() -> Keeper:
    """A partition's directory in memory, whose files can be made to fail."""
    return Keeper("/data/orders-0", MemoryFiles())
