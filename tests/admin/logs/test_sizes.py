"""Sizes of partitions on disk, from DescribeLogDirs."""

from __future__ import annotations

from typing import Any

from kcli.admin.logs.sizes import log_sizes
from kcli.protocol.messages import describe_log_dirs
from kcli.structs import TopicPartition
from tests.admin.test_topics import asking
from tests.cli.loopback import loopback_broker

TP = TopicPartition("orders", 0)


def test_the_size_of_a_future_log_is_not_counted() -> None:
    """A future log is the copy that a broker makes when it moves a partition to another directory (KIP-113)."""

    def describe(_request: Any) -> Any:
        def directory(size: int, is_future: bool) -> Any:
            partition = describe_log_dirs.DescribeLogDirsPartition(
                partition_index=0, partition_size=size, is_future_key=is_future
            )
            topic = describe_log_dirs.DescribeLogDirsTopic(name="orders", partitions=[partition])
            return describe_log_dirs.DescribeLogDirsResult(log_dir="/d", topics=[topic])

        return describe_log_dirs.DescribeLogDirsResponse(results=[directory(900, False), directory(5, True)])

    responses = {describe_log_dirs.DescribeLogDirsRequest: describe}
    with loopback_broker(responses, topics={"orders": 1}) as broker, asking(broker) as (client, deadline):
        assert log_sizes(client, [TP], deadline).values == {TP: 900}
