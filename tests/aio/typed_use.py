"""A typed program with the clients for asyncio, for mypy and pyright. Each ignore is an error that they must find."""

from typing_extensions import assert_type

from kcli import AsyncAdmin
from kcli.admin.groups.survey import GroupSurvey
from kcli.admin.topics import CreatedTopic
from kcli.client.metadata import TopicInfo
from kcli.client.requests import Results


async def administer() -> None:
    async with AsyncAdmin("localhost:9092") as admin:
        assert_type(admin, AsyncAdmin)
        assert_type(await admin.list_topics(), list[TopicInfo])
        assert_type(await admin.create_topic("orders", 3, replication=1), CreatedTopic)
        assert_type(await admin.group_lag("billing", time_lag=True), Results[str, GroupSurvey])
        await admin.create_topic(3)  # type: ignore[arg-type]
        await admin.forecast()  # type: ignore[call-arg]
        await admin.close()
    AsyncAdmin(client_id=None, bootstrap_servers=3)  # type: ignore[arg-type]
