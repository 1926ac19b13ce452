"""Decompression and checksums by kcli's own libraries, and by those that Spark's executors have."""

from __future__ import annotations

import pytest

from kcli.protocol.records import checksum_numpy, decompression, sections


@pytest.fixture(params=["own libraries", "pyarrow and numpy"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use these libraries to read; batches are always encoded by kcli's own."""
    if request.param != "own libraries":
        monkeypatch.setattr(decompression, "_library", lambda name: None)
        monkeypatch.setattr(sections, "crc32c", checksum_numpy.crc32c)
        monkeypatch.setattr(sections, "checksums", checksum_numpy.crc32c_many)
    name: str = request.param
    return name
