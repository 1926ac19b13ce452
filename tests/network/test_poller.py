"""The wait of a selector: bounded, so that a signal just before it is handled."""

from __future__ import annotations

from contextlib import closing
from unittest.mock import patch

import pytest

from kcli.network.poller import SocketPoller


@pytest.mark.parametrize(("asked_ms", "waited_s"), [(0, 0), (250, 0.25), (60_000, 1), (float("inf"), 1)])
def test_a_wait_ends_within_a_second_so_that_signals_are_heard(asked_ms: float, waited_s: float) -> None:
    with closing(SocketPoller()) as poller, patch.object(poller._select, "select", return_value=[]) as select:
        assert poller.wait(asked_ms) == []
    select.assert_called_once_with(waited_s)
