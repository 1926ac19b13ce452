"""Environments of foreign clients that cannot be fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import foreign


def test_a_client_that_cannot_be_fetched_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tests need the same client, and each would wait for the network."""
    monkeypatch.setenv("KCLI_TEST_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\necho no network >&2\nexit 1\n")
        program.chmod(0o755)
    for _ in range(3):
        with pytest.raises(pytest.skip.Exception, match=r"`npm install .* failed: no network"):
            foreign.node_with("nosuch@1.0.0")
    assert (tmp_path / "tries").read_text() == "tried\n"
