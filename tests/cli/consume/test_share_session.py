"""The end of a read as a member of a share group, against a scripted consumer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.cli.consume.share_session import print_shared
from kcli.consumer.share.share_session import AcknowledgeType
from kcli.errors import CorruptRecords
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment


class FakeShareConsumer:
    """A member whose first poll fails, with an acknowledgement that failed before."""

    group = "g"

    def __init__(self, error: BaseException, close_error: BaseException | None = None) -> None:
        self.failed = [(TopicPartition("t", 0), "2 to 3", CorruptRecords("no answer"))]
        self.closed: list[float] = []
        self._error, self._close_error = error, close_error

    def poll(self, timeout_ms: float, limit: int | None) -> Any:
        raise self._error

    def close(self, timeout_ms: float) -> None:
        self.closed.append(timeout_ms)
        if self._close_error is not None:
            raise self._close_error


@pytest.mark.parametrize(
    ("error", "close_error", "closed"),
    [
        (KeyboardInterrupt(), None, 500.0),
        (CorruptRecords("bad batch"), None, 30_000.0),
        (CorruptRecords("bad batch"), KeyboardInterrupt(), 30_000.0),
    ],
)
def test_a_second_signal_ends_at_once_and_failed_acknowledgements_are_reported(
    error: BaseException, close_error: BaseException | None, closed: float
) -> None:
    env, consumer = FakeEnvironment(), FakeShareConsumer(error, close_error)
    options = PrintOptions(make_renderer(RenderOptions()), quiet=True)
    client = SimpleNamespace(wakeup=lambda: None)
    with pytest.raises(type(close_error or error)):
        print_shared(env, client, consumer, options, AcknowledgeType.ACCEPT, 30_000.0)  # type: ignore[arg-type]
    assert consumer.closed == [closed]
    assert "2 to 3 records of t-0 were printed, and their acknowledgement failed" in env.result(0)[2]
