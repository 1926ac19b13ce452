"""`AsyncAdmin`: the methods of `Admin` as coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.admin.client import Admin
from kcli.aio.threaded_client import ThreadedClient, changing, reading, with_parameters_of

if TYPE_CHECKING:
    from kcli.client.metrics import MetricGroups


class AsyncAdmin(ThreadedClient[Admin]):
    """`Admin` for asyncio: the same parameters, methods, results and errors; each method is a coroutine.

    >>> import asyncio
    >>> from kcli import AsyncAdmin, total_lag
    >>> async def known_lag(group: str) -> int | None:
    ...     async with AsyncAdmin(bootstrap) as admin:
    ...         return total_lag((await admin.group_lag(group))[group].partitions).known_lag
    >>> asyncio.run(known_lag("billing"))
    1

    One thread runs the calls of all tasks, one after the other. For calls side by side make several clients. The
    cancellation of a task ends a call that reads or plans. A call that changes the cluster goes on to its end if it has
    begun, and the next call waits for it.
    """

    @with_parameters_of(Admin)
    def __init__(self, *arguments: Any, **named: Any) -> None:
        admin = Admin(*arguments, **named)
        super().__init__(admin, admin._client)

    async def close(self) -> None:
        """Close the connections, after the calls of other tasks. A cancellation is raised after that."""
        await self._thread.close(self._client.close)

    def metrics(self) -> MetricGroups:
        """Return the metrics of requests and connections, see `Admin.metrics`. It does not wait."""
        return self._client.metrics()

    # Cluster and topics

    describe_cluster = reading(Admin.describe_cluster)
    list_topics = reading(Admin.list_topics)
    describe_topics = reading(Admin.describe_topics)
    create_topics = changing(Admin.create_topics)
    create_topic = changing(Admin.create_topic)
    plan_topic_deletion = reading(Admin.plan_topic_deletion)
    delete_topics = changing(Admin.delete_topics)
    check_cluster = reading(Admin.check_cluster)
    describe_configs = reading(Admin.describe_configs)
    plan_alterations = reading(Admin.plan_alterations)
    plan_setting_undo = reading(Admin.plan_setting_undo)
    alter = changing(Admin.alter)
    plan_truncation = reading(Admin.plan_truncation)
    truncate = changing(Admin.truncate)

    # Groups

    list_groups = reading(Admin.list_groups)
    describe_groups = reading(Admin.describe_groups)
    group_lag = reading(Admin.group_lag)
    wait_for_group = reading(Admin.wait_for_group)
    explain_groups = reading(Admin.explain_groups)
    plan_group_deletion = reading(Admin.plan_group_deletion)
    delete_groups = changing(Admin.delete_groups)
    plan_member_removal = reading(Admin.plan_member_removal)
    remove_members = changing(Admin.remove_members)

    # Transactions

    list_transactions = reading(Admin.list_transactions)
    describe_transactions = reading(Admin.describe_transactions)
    abort_transactions = changing(Admin.abort_transactions)
    open_transactions = reading(Admin.open_transactions)

    # Offsets

    plan_reset = reading(Admin.plan_reset)
    plan_copy = reading(Admin.plan_copy)
    plan_delete = reading(Admin.plan_delete)
    plan_undo = reading(Admin.plan_undo)
    apply = changing(Admin.apply)
    undo = changing(Admin.undo)
    snapshots = reading(Admin.snapshots)
    export_offsets = reading(Admin.export_offsets)

    # Assignments

    assignment = reading(Admin.assignment)
    forecast = reading(Admin.forecast)
