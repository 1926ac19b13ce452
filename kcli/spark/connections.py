"""Connections that outlive a task: Spark reuses its workers, so the next task in a process need not connect anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient

_MOST_IDLE = 4
# By process, too: workers are forked, and a socket must not be shared with a child.
_idle: dict[tuple[int, frozenset[tuple[str, object]]], ConsumerNetworkClient] = {}


@contextmanager
def borrowed(config: ConsumerConfig, tp: TopicPartition) -> Iterator[ConsumerNetworkClient]:
    """A client to read `tp` with; kept for the next task if this one ends well, closed otherwise.

    TimeoutExpired when it is a used one and no broker answers it within default.api.timeout.ms.
    """
    from kcli.client.connect import connect

    key = os.getpid(), frozenset(config.given.items())
    used = _idle.pop(key, None)
    client = used or connect(config)
    try:
        if used is not None:
            _refresh(used, tp, config.default_api_timeout_ms)
        yield client
    except BaseException:  # a reader that is left early, too: an answer may be on its way that nobody wants
        client.close()
        raise
    if key in _idle or len(_idle) >= _MOST_IDLE:
        client.close()
    else:
        _idle[key] = client


def _refresh(client: ConsumerNetworkClient, tp: TopicPartition, timeout_ms: float) -> None:
    """The topic may have been deleted and made anew since: what is known of it is no evidence."""
    metadata = client.metadata
    metadata.drop_topics([topic for topic in metadata.wanted if topic != tp.topic])
    metadata.add_topics([tp.topic])
    client.ensure_fresh_metadata(client.clock.now_ms() + timeout_ms)
