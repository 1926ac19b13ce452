"""Fixtures of the log tests."""

from pathlib import Path

import pytest

from kcli.broker.testing.memory_files import MemoryFiles
from tests.broker.log.logs import Keeper


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    """A partition directory on disk."""
    return Keeper(str(tmp_path / "orders-0"))


@pytest.fixture
def memory_keeper() -> Keeper:
    """A partition directory in memory; tests can make its files fail."""
    return Keeper("/data/orders-0", MemoryFiles())
