"""A rebalance storm: members of several clients join, leave, are killed and stopped while records flow.

After each event the group must become stable: every partition owned by one running member, and exactly these members in
the group as its coordinator reports it. `storm_account` judges all their events at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient

from kcli.structs import TopicPartition
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.interop.groups.storm_account import Account, Story, judge
from tests.limits import join
from tests.real_kafka import Kafka

BETWEEN_RECORDS_S = 0.005
VALUE = bytes(100)
WORK_MS = (0, 0, 30)
SMALL_FETCH = 4_000  # bytes of a partition, so that what was written at once is not fetched at once
MOST_OF_JAVA = 2  # on two cores


class Rest(NamedTuple):
    """An event, and the time until the group was stable again."""

    blow: str
    took_s: float


class Fighter:
    """One member, and what was done to it."""

    def __init__(self, name: str, process: MemberProcess, instance_id: str | None) -> None:
        self.name = name
        self.process = process
        self.instance_id = instance_id
        self.ended: int | None = None
        self._stops: list[tuple[int, int]] = []
        self._stopped_at = 0

    @property
    def runs(self) -> bool:
        return self.ended is None and not self.process.paused

    def stop(self) -> None:
        self._stopped_at = time.monotonic_ns()
        self.process.pause()

    def go_on(self) -> None:
        self.process.resume()
        self._stops.append((self._stopped_at, time.monotonic_ns()))

    def end(self, how: Callable[[], None]) -> None:
        if self.process.paused:
            self._stops.append((self._stopped_at, 2**63))
        how()
        self.ended = time.monotonic_ns()

    def story(self) -> Story:
        return Story(self.name, self.process.maker, self.process.events, self._stops, self.ended)


class Storm:
    """One group on one topic, and a producer that writes to it until the end. Use it in a `with`."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        assignor: str | None,
        seed: int,
        makers: Sequence[str] = ("kcli", "confluent", "java"),
        protocols: Sequence[str] = ("classic",),
        instance_ids: Sequence[str] = (),
        partitions: int = 12,
        backlog: int = 6_000,
        most: int = 5,
        session_ms: int = 4_000,
        crash: Callable[[], None] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """At most `most` members at a time; each uses one of `protocols`, and half of them an instance id if they can.

        `backlog` records are written at once at the beginning and before each stop: some members are slow, and a
        stopped member holds records that it must not return any more. `crash` kills the broker and restarts it.
        """
        self.kafka = kafka
        self.topic = kafka.new_topic(partitions=partitions, prefix="storm")
        self.group = kafka.new_name("storm")
        self.rests: list[Rest] = []
        self._all = {TopicPartition(self.topic, number) for number in range(partitions)}
        self._how = {"assignor": assignor}
        self._classic = {"session_timeout_ms": session_ms, "heartbeat_interval_ms": session_ms // 12}
        self._chance = random.Random(seed)
        self._makers, self._protocols, self._instance_ids = makers, protocols, instance_ids
        self._most, self._session_s, self._tell, self._backlog = most, session_ms / 1000, tell, backlog
        self._more = threading.Event()
        self._crash = crash
        self._fighters: list[Fighter] = []
        self._numbers = itertools.count(1)
        self._admin = self._new_admin()
        self._quiet = threading.Event()
        self._producer = kafka.ordered_producer(linger_ms=5)
        self._writer = threading.Thread(target=self._produce, daemon=True)

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})

    def __enter__(self) -> Storm:
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._quiet.set()
        for one in self._fighters:
            one.process.kill()
        join(self._writer)

    def _produce(self) -> None:
        at_once = self._backlog
        for n in itertools.count():
            if self._more.is_set():
                self._more.clear()
                at_once = self._backlog
            at_once -= 1
            if at_once < 0 and self._quiet.wait(BETWEEN_RECORDS_S):
                break
            self._producer.produce(self.topic, VALUE, partition=n % len(self._all))
            self._producer.poll(0)

    # --- blows

    def begin(self) -> None:
        """One member of each client joins."""
        for maker in self._makers:
            self._join(maker)
        self._rest("begin")

    def strike(self, *blows: str) -> None:
        """Apply these events to random members, one directly after the other; then wait until the group is stable."""
        self._rest("+".join(self._blow(wanted) for wanted in blows))

    def run(self, seconds: float) -> None:
        """Apply random events for this time, one to three at once, each time until the group is stable."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            self._rest("+".join(self._blow() for _ in range(self._chance.choice((1, 1, 2, 3)))))

    def _blow(self, wanted: str | None = None) -> str:
        possible = [(name, act) for name, act in self._possible() if wanted in (None, name)]
        name, act = self._chance.choice(possible)
        who = act()
        self._tell(f"{name} {who}")
        time.sleep(self._chance.choice((0, 0, 0.1, 0.5)))
        return name

    def _possible(self) -> Iterator[tuple[str, Callable[[], str]]]:
        runs = [one for one in self._fighters if one.runs]
        asleep = [one for one in self._fighters if one.process.paused and one.ended is None]
        if len(runs) + len(asleep) < self._most:
            yield from [("join", self._join)] * 2
        if len(runs) > 1:
            one = self._chance.choice(runs)
            yield "leave", lambda: self._end(one, one.process.leave)
            yield "kill", lambda: self._end(one, one.process.kill)
            yield "stop", lambda: self._stop(one)
            yield "nap", lambda: self._nap(one)
        if self._crash is not None:
            crash = self._crash
            yield "crash", lambda: str(crash() or "")
        if asleep:
            other = self._chance.choice(asleep)
            yield from [("resume", lambda: self._resume(other))] * 3
            yield "kill", lambda: self._end(other, other.process.kill)

    def _join(self, maker: str | None = None) -> str:
        alive = [one for one in self._fighters if one.ended is None]
        of_java = sum(one.process.maker == "java" for one in alive)
        wanted = [it for it in self._makers if it != "java" or of_java < MOST_OF_JAVA]
        maker = maker or self._chance.choice(wanted)
        free = sorted(set(self._instance_ids) - {one.instance_id for one in alive})
        instance_id = self._chance.choice(free) if free and self._chance.random() < 0.5 else None
        protocol = self._chance.choice(self._protocols)
        how: dict[str, Any] = {**self._how, "protocol": protocol, "instance_id": instance_id}
        how |= self._classic if protocol == "classic" else {}
        how |= {"work_ms": self._chance.choice(WORK_MS), "max_partition_fetch_bytes": SMALL_FETCH}
        how |= {"max_poll_records": 50} if maker == "java" else {}
        name = f"{maker}-{next(self._numbers)}"
        process = MAKERS[maker](self.kafka, self.group, self.topic, client_id=name, **how)
        self._fighters.append(Fighter(name, process, instance_id))
        return f"{name} {protocol} {instance_id or ''}"

    @staticmethod
    def _end(one: Fighter, how: Callable[[], None]) -> str:
        one.end(how)
        return one.name

    def _stop(self, one: Fighter) -> str:
        self._more.set()
        time.sleep(0.2)
        one.stop()
        return one.name

    def _nap(self, one: Fighter) -> str:
        """Stop a member for less than its session."""
        one.stop()
        time.sleep(self._chance.random() * self._session_s / 2)
        return self._resume(one)

    @staticmethod
    def _resume(one: Fighter) -> str:
        one.go_on()
        return one.name

    # --- rest

    def _rest(self, blow: str) -> None:
        began = time.monotonic()
        timeout_s = 3 * self._session_s + 20
        while unrest := self._unrest():
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"no rest {timeout_s} s after {blow}: {unrest}\n{self._words()}")
            time.sleep(0.05)
        self.rests.append(Rest(blow, time.monotonic() - began))
        self._tell(f"at rest after {self.rests[-1].took_s:.1f} s")
        if self.rests[-1].took_s > self._session_s + 2:
            self._tell(f"slow: what they said since {began:.1f}\n{self._words()}")

    def _unrest(self) -> str | None:
        """Return what is not stable yet."""
        runs = [one for one in self._fighters if one.runs]
        for one in runs:
            assert one.process.status is None, f"{one.name} ended by itself:\n{one.process.last_words()}"
        held = sorted(tp for one in runs for tp in one.process.assigned())
        if held != sorted(self._all):
            return f"held are {[str(tp) for tp in held]}"
        try:
            group = self._admin.describe_consumer_groups([self.group], request_timeout=2)[self.group].result()
        except KafkaException as error:
            self._admin = self._new_admin()  # librdkafka's does not find a coordinator again that was restarted
            return str(error)
        if group.state.name != "STABLE" or len(group.members) != len(runs):
            return f"the group is {group.state.name} with {[member.client_id for member in group.members]}"
        return None

    def _words(self) -> str:
        alive = [one for one in self._fighters if one.ended is None]
        words = []
        for one in alive:
            events = one.process.events_of("assigned", "revoked", "lost", "commit_failed", "error")[-6:]
            words.append(f"{one.name} {one.process!r}\n  " + "\n  ".join(str(event)[:300] for event in events))
            words.append("\n".join(line[:300] for line in one.process.lines[-200:] if not line.startswith('{"event"')))
        return "\n".join(words)

    # --- the end

    def finish(self, strict: frozenset[str] = frozenset()) -> Account:
        """Resume all members, let them read to the end and leave, and judge what happened."""
        for one in self._fighters:
            if one.process.paused and one.ended is None:
                one.go_on()
        self._rest("all go on")
        self._quiet.set()
        join(self._writer)
        assert self._producer.flush(30) == 0, "not all records were written"
        ends = self._ends()
        self._read_to(ends)
        for one in self._fighters:
            if one.ended is None:
                one.end(one.process.leave)
        return judge([one.story() for one in self._fighters], ends, strict)

    def _ends(self) -> dict[TopicPartition, int]:
        with contextlib.closing(Consumer({"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "x"})) as it:
            return {tp: it.get_watermark_offsets(RdTopicPartition(*tp), timeout=10)[1] for tp in self._all}

    def _read_to(self, ends: dict[TopicPartition, int]) -> None:
        request, deadline = ConsumerGroupTopicPartitions(self.group), time.monotonic() + 30
        while True:
            found = self._admin.list_consumer_group_offsets([request])[self.group].result().topic_partitions
            committed = {TopicPartition(it.topic, it.partition): it.offset for it in found}
            if committed == ends:
                return
            lagging = {str(tp): (committed.get(tp), end) for tp, end in ends.items() if committed.get(tp) != end}
            assert time.monotonic() < deadline, f"committed, end of log: {lagging}\n{self._words()}"
            time.sleep(0.1)
