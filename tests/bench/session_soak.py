"""Follow a topic while the broker ends sessions every three seconds (KIP-368): no record is lost or doubled.

A session that is renewed on its connection costs no new connection. Run it with `python -m tests.bench.session_soak`;
the suite runs a short form of it.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.interop.process import kcli
from tests.our_secured_kafka import our_secured_broker
from tests.real_kafka import fetch_jars
from tests.secured_kafka import SecuredKafka, start_secured

RECORDS_PER_S = 20
_CONNECTIONS = re.compile(r"(\d+) requests? over (\d+) connections?")


class Followed(NamedTuple):
    """Lines that one follower has read, and the number of its connections."""

    expected: list[bytes]
    lines: list[bytes]
    connections: int
    requests: int

    @property
    def lost(self) -> int:
        return len(set(self.expected) - set(self.lines))

    @property
    def doubled(self) -> int:
        return len(self.lines) - len(set(self.lines))


def follow(kafka: SecuredKafka, seconds: float, *, group: bool) -> Followed:
    """Follow a topic on the listener REAUTH while records are written to it, with kcli as a reader or as a member."""
    topic = kafka.new_topic()
    values = [b"%06d" % number for number in range(max(1, int(seconds * RECORDS_PER_S)))]
    member = ("--group", kafka.new_name("group")) if group else ()
    at = ("-b", kafka.servers("REAUTH"), *kafka.command_config(kafka.properties("REAUTH")))
    with ThreadPoolExecutor(1) as pool:
        command = ("consume", topic, "-o", "start", "-n", str(len(values)), "-v", *member, *at)
        reading = pool.submit(kcli, *command, timeout_s=seconds + 60)
        _write(kafka, topic, values, reading)
        done = reading.result()
    assert done.status == 0, done.err
    counted = _CONNECTIONS.search(done.err)
    assert counted, done.err
    return Followed(values, done.lines, int(counted[2]), int(counted[1]))


def _write(kafka: SecuredKafka, topic: str, values: list[bytes], reading: Future[object]) -> None:
    producer = kafka.ordered_producer(topic)
    for value in values:
        producer.produce(topic, value)
        producer.flush(30)
        if reading.done():
            return
        time.sleep(1 / RECORDS_PER_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as scratch, our_secured_broker(Path(scratch, "ours")) as ours:
        address, stop = start_secured(fetch_jars(), Path(scratch, "apache"))
        try:
            apache = SecuredKafka.at(address, fetch_jars())
            os.environ.update(apache.environment)
            with ThreadPoolExecutor(4) as pool:
                running = {
                    (name, group): pool.submit(follow, kafka, seconds, group=group)
                    for name, kafka in (("ours", ours), ("apache", apache))
                    for group in (False, True)
                }
            for (name, group), future in running.items():
                seen = future.result()
                print(
                    f"{name:7}{'member' if group else 'reader'}: {len(seen.lines)} records in {seconds:g} s, "
                    f"{seen.lost} lost, {seen.doubled} doubled, {seen.connections} connections, "
                    f"{seen.requests} requests"
                )
        finally:
            stop()


if __name__ == "__main__":
    main()
