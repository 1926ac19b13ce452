"""Write a record with aiokafka and read it back. Usage: aiokafka_secured.py JSON; see test_foreign_clients."""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context

asked = json.loads(sys.argv[1])
tls, sasl = asked["ca"] is not None, asked["mechanism"] is not None
protocol = {(0, 0): "PLAINTEXT", (0, 1): "SASL_PLAINTEXT", (1, 0): "SSL", (1, 1): "SASL_SSL"}[tls, sasl]
settings = {"bootstrap_servers": asked["servers"], "security_protocol": protocol}
if tls:
    client = asked["client"]
    settings["ssl_context"] = create_ssl_context(cafile=asked["ca"], certfile=client, keyfile=client)
if sasl:
    settings |= {"sasl_mechanism": asked["mechanism"], "sasl_plain_username": asked["user"]}
    settings["sasl_plain_password"] = asked["password"]


async def main():
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(asked["topic"], b"hello")
    async with AIOKafkaConsumer(asked["topic"], auto_offset_reset="earliest", **settings) as consumer:
        record = await asyncio.wait_for(consumer.getone(), 30)
    print(json.dumps(record.value.decode()))


asyncio.run(main())
