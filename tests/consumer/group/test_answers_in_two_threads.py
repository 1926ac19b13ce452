"""The heartbeat thread runs after a response has arrived and before its handler has run.

Found by `python -m tests.bench.consume_group_kills`: the response to SyncGroup was dropped, and the member waited
forever.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kcli.client.request_future import RequestFuture
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from tests.consumer.group.classic_cluster import ClassicCluster, Member


@pytest.mark.parametrize("request_type", [JoinGroupRequest, SyncGroupRequest])
def test_a_response_is_not_lost_when_a_beat_runs_before_its_handler(
    request_type: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ClassicCluster()
    cluster.topic("t", partitions=2).append("a", "b")
    member = Member(cluster)
    client = member.consumer._client
    beaten = []

    def beat(_: RequestFuture[Any]) -> None:
        def turn() -> None:
            member.consumer.membership._member.beat(cluster.clock.now_ms())  # type: ignore[union-attr]
            beaten.append(True)

        thread = threading.Thread(target=turn)
        thread.start()
        thread.join(10)

    send = client.send

    def send_and_beat(node: Any, request: Any, **how: Any) -> Any:
        future = send(node, request, **how)
        if isinstance(request, request_type):
            future.add_done_callback(beat)
        return future

    monkeypatch.setattr(client, "send", send_and_beat)
    assert member.poll() == ["a", "b"]
    assert beaten
