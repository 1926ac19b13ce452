"""The wait of a selector: bounded, so that a signal just before it is handled."""

from __future__ import annotations

import selectors
import socket
from contextlib import closing
from unittest.mock import patch

import pytest

from kcli.network.channel import READY, KafkaChannel
from kcli.network.framing import FrameReader
from kcli.network.poller import Poller
from kcli.network.transport import PlainTransport


@pytest.mark.parametrize(("asked_ms", "waited_s"), [(0, 0), (250, 0.25), (60_000, 1), (float("inf"), 1)])
def test_a_wait_ends_within_a_second_so_that_signals_are_heard(asked_ms: float, waited_s: float) -> None:
    with closing(Poller()) as poller, patch.object(poller._select, "select", return_value=[]) as select:
        assert poller.wait(asked_ms) == []
    select.assert_called_once_with(waited_s)


def test_a_channel_whose_removal_a_signal_interrupted_is_removed_again() -> None:
    """The selector has forgotten the socket, and the signal came before the channel was marked."""
    near, far = socket.socketpair()
    with closing(near), closing(far), closing(Poller()) as poller:
        channel = KafkaChannel("a", PlainTransport(near), "peer", FrameReader(1024), state=READY)
        poller.watch(channel)
        unregister = poller._select.unregister

        def interrupted(transport: object) -> selectors.SelectorKey:
            unregister(transport)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        with patch.object(poller._select, "unregister", interrupted), pytest.raises(KeyboardInterrupt):
            poller.unwatch(channel)
        poller.unwatch(channel)
        assert channel.watched_events == 0


def test_a_kqueue_that_a_fork_has_not_copied_does_not_keep_the_wakeup_sockets_open() -> None:
    poller = Poller()
    poller._select.close()
    with patch.object(poller._select, "close", side_effect=OSError(9, "Bad file descriptor")):
        poller.close()
    assert (poller._wake_in.fileno(), poller._wake_out.fileno()) == (-1, -1)
