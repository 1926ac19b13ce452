"""All of aiokafka in one run: topics, idempotent writing, reading, a group with a rebalance, offsets.

Usage: aiokafka_day.py BOOTSTRAP TOPIC GROUP. It creates the topic and prints its results as JSON.
"""

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, for_code

bootstrap, topic, group = sys.argv[1:]
results = {}


async def until(condition, what):
    deadline = time.monotonic() + 30
    while not await condition():
        if time.monotonic() > deadline:
            raise SystemExit("waited too long for " + what)
        await asyncio.sleep(0.02)


def consumer(*topics, **settings):
    own = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 200}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, session_timeout_ms=6000, **{**own, **settings})


async def topics(admin):
    await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"max.message.bytes": "100000"})])
    # This client has refusals in the answer, not as exceptions.
    again = await admin.create_topics([NewTopic(topic, 2, 1)])
    results["created twice"] = for_code(again.topic_errors[0][1]) is TopicAlreadyExistsError
    await admin.create_partitions({topic: NewPartitions(4)})

    async def four():
        return len((await admin.describe_topics([topic]))[0]["partitions"]) == 4

    await until(four, "four partitions")
    [described] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    results["config"] = {entry[0]: entry[1] for entry in described.resources[0][4]}["max.message.bytes"]


async def writing():
    for codec in (None, "gzip"):
        settings = {"enable_idempotence": True, "compression_type": codec, "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            headers = [("h", b"1")]
            sent = [await producer.send(topic, b"%d" % n, b"k", n % 4, headers=headers) for n in range(1000)]
            stored = await asyncio.gather(*sent)
            results["last offsets " + str(codec)] = [one.offset for one in stored[-4:]]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        try:
            await producer.send_and_wait(topic, b"x" * 200_000)
            results["too large"] = "was taken"
        except MessageSizeTooLargeError:
            results["too large"] = "refused"


async def reading():
    partitions = [TopicPartition(topic, number) for number in range(4)]
    async with consumer() as reader:
        reader.assign(partitions)
        results["ends"] = sorted((await reader.end_offsets(partitions)).values())
        records = []
        while len(records) < 2000:
            for found in (await reader.getmany(timeout_ms=10_000)).values():
                records += found
        results["each value twice"] = sorted(int(r.value) for r in records) == sorted([*range(1000)] * 2)
        results["headers"] = {(name, value.decode()) for r in records for name, value in r.headers} == {("h", "1")}
        reader.seek(partitions[0], 490)
        results["after a seek"] = (await reader.getone(partitions[0])).offset
        since = await reader.offsets_for_times({partitions[0]: records[0].timestamp - 1_000_000})
        results["by time"] = since[partitions[0]].offset


async def follow(member, values, leave):
    while not leave.is_set():
        for found in (await member.getmany(timeout_ms=50)).values():
            values += [int(record.value) for record in found]


async def groups(admin):
    members, values, leave = [], [], [asyncio.Event(), asyncio.Event()]
    tasks = []
    for n in range(2):
        members.append(consumer(topic, group_id=group, client_id="me"))
        await members[n].start()
        tasks.append(asyncio.create_task(follow(members[n], values, leave[n])))

    async def half_each():
        return [len(member.assignment()) for member in members] == [2, 2]

    async def all_read():
        positions = [await member.position(tp) for member in members for tp in member.assignment()]
        return positions == [500] * 4

    await until(half_each, "two partitions each")
    await until(all_read, "all records")
    results["all values"] = set(values) == set(range(1000))
    listed = await admin.list_consumer_groups()
    results["listed"] = (group, "consumer") in [tuple(one[:2]) for one in listed]
    for member in members:
        await member.commit()
    leave[0].set()
    await tasks[0]
    await members[0].stop()

    async def all_for_one():
        return len(members[1].assignment()) == 4

    await until(all_for_one, "four partitions for one")
    leave[1].set()
    await tasks[1]
    await members[1].stop()
    offsets = await admin.list_consumer_group_offsets(group)
    results["offsets"] = sorted(place.offset for place in offsets.values())


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await topics(admin)
        await writing()
        await reading()
        await groups(admin)
        await admin.delete_topics([topic])

        async def gone():
            return topic not in await admin.list_topics()

        await until(gone, "the topic to be gone")
    finally:
        await admin.close()
    print(json.dumps(results))


asyncio.run(main())
