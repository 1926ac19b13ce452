"""Random histories of brokers and partitions: Apache's controller and ours make the same decisions in each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.controller.quorum import Quorum, Scene
from tests.broker.controller.real_controller import RealScene, running_controller

NODES = (1, 2, 3, 4)
TOPICS = ("a", "b", "c")
STEPS = 200
KINDS = ["fence", "return", "stop", "restart", *["propose"] * 4, "elect", "reassign", "cancel", "set"]

Step = Callable[[Scene], Any]


class History:
    """Steps that are taken on both stages.

    A reassignment begins only without ELR and while there is no other one. There ours differ on purpose: a removed
    replica does not stay eligible as leader, and a reassignment to replicas that are all there has none that it adds.
    """

    def __init__(self, random: Random, *, elr: bool) -> None:
        self._random = random
        self._elr = elr
        self._incarnations = dict.fromkeys(NODES, 1)

    def next(self, scene: Scene) -> tuple[str, Step]:
        """Return a step that makes sense in this state, with its description."""
        random = self._random
        topic, node_id = random.choice(TOPICS), random.choice(NODES)
        state = scene.partition(topic)
        broker = scene.broker(node_id)
        some = random.sample(NODES, random.randint(1, 3))
        kind = random.choice(
            ["fence", "return", "stop", "restart", *["propose"] * 4, "elect", "reassign", "cancel", "set"]
        )
        if kind == "propose" and state.leader >= 0:
            isr = [one for one in state.replicas if one == state.leader or random.random() < 0.5]
            keeps = state.is_recovering and len(isr) == 1 and random.random() < 0.3
            return f"propose {topic} {isr} {keeps}", lambda on: _propose(on, topic, isr, keeps)
        if kind == "fence" and not broker.is_fenced:
            return f"fence {node_id}", lambda on: on.kill(node_id)
        if kind == "return" and broker.is_fenced and not broker.in_controlled_shutdown:
            return f"return {node_id}", lambda on: on.beat(node_id).is_fenced
        if kind == "stop" and not broker.is_fenced:
            return f"stop {node_id}", lambda on: _stop(on, node_id)
        if kind == "restart" and broker.is_fenced:
            self._incarnations[node_id] += 1
            new = self._incarnations[node_id]
            return f"restart {node_id}", lambda on: _restart(on, node_id, new)
        if kind == "elect":
            how = random.randint(0, 1)
            return f"elect {how} {topic}", lambda on: _elect(on, topic, how)
        if kind == "cancel" or (kind == "reassign" and not self._elr and not state.is_reassigning):
            replicas = some if kind == "reassign" else None
            return f"reassign {topic} {replicas}", lambda on: _reassign(on, topic, replicas)
        if kind == "set":
            name = random.choice(["unclean.leader.election.enable", "min.insync.replicas"])
            value = random.choice(["true", "false", None] if name.startswith("unclean") else ["1", "2", "3", None])
            return f"set {topic} {name} {value}", lambda on: _set(on, topic, name, value)
        return "beat", lambda on: None


def _propose(scene: Scene, topic: str, isr: list[int], is_recovering: bool) -> tuple[Any, ...]:
    row = scene.propose(topic, isr, is_recovering=is_recovering)
    return row.error_code, row.isr, row.leader_id, row.leader_epoch, row.leader_recovery_state


def _stop(scene: Scene, node_id: int) -> None:
    """Shut a broker down in a controlled way."""
    while not scene.beat(node_id, want_shut_down=True).should_shut_down:
        beat_all(scene, without=node_id)


def _restart(scene: Scene, node_id: int, incarnation: int) -> bool:
    """Start a new process of a broker that stopped uncleanly."""
    if isinstance(scene, Quorum):
        scene.pass_session(*(one.node_id for one in scene.image.brokers.values() if not one.is_fenced))
    assert scene.register(node_id, incarnation=incarnation).error_code == 0
    return scene.beat(node_id).is_fenced


def _elect(scene: Scene, topic: str, how: int) -> int:
    partitions = [TopicPartitions(topic=topic, partitions=[0])]
    response = scene.send(ElectLeadersRequest(election_type=how, topic_partitions=partitions))
    return response.replica_election_results[0].partition_result[0].error_code


def _reassign(scene: Scene, topic: str, replicas: list[int] | None) -> int:
    partitions = [ReassignablePartition(partition_index=0, replicas=replicas)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])
    return scene.send(request).responses[0].partitions[0].error_code


def _set(scene: Scene, topic: str, name: str, value: str | None) -> int:
    change = AlterableConfig(name=name, value=value, config_operation=int(value is None))
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    return scene.send(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code


def beat_all(scene: Scene, without: int | None = None) -> None:
    for broker in list(scene.image.brokers.values()):
        if not broker.is_fenced and broker.node_id != without:
            scene.beat(broker.node_id)


def facts(scene: Scene, *, elr: bool) -> dict[str, Any]:
    """Return what both controllers must agree on.

    The order of the ELR is not defined, and with ELR Apache's controller writes some changes more than once, so that
    the partition epoch rises more.
    """
    brokers = {one.node_id: (one.is_fenced, one.in_controlled_shutdown) for one in scene.image.brokers.values()}
    found: dict[str, Any] = {"brokers": dict(sorted(brokers.items()))}
    for name in TOPICS:
        state = scene.partition(name)
        epoch = 0 if elr else state.partition_epoch
        found[name] = state._replace(elr=tuple(sorted(state.elr)), partition_epoch=epoch)
    return found


@pytest.fixture(scope="module")
def apache(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealScene]:
    """A controller of its own.

    When a topic with an ELR is deleted, Apache Kafka 4.3.1 may keep a reference to it, and can then neither register
    nor unregister the broker. So this controller serves no other tests, and the history with ELR is its last one.
    """
    with running_controller(tmp_path_factory.mktemp("controller"), kafka_jars) as scene:
        yield scene


@pytest.mark.real_kafka
@pytest.mark.parametrize(("seed", "elr"), [(2, False), (1, True)])
def test_both_controllers_decide_alike(apache: RealScene, seed: int, elr: bool) -> None:
    apache.clear(elr=elr)
    ours = Quorum(elr=elr)
    scenes: list[Scene] = [ours, apache]
    for scene in scenes:
        scene.start(*NODES)
        for name, replicas in zip(TOPICS, ([1, 2, 3], [2, 3], [3, 4, 1]), strict=True):
            assert scene.create(name, replicas).error_code == 0
    history = History(Random(seed), elr=elr)
    told = []
    for _ in range(STEPS):
        description, step = history.next(ours)
        told.append(description)
        results = [step(scene) for scene in scenes]
        assert results[0] == results[1], told[-5:]
        assert facts(ours, elr=elr) == facts(apache, elr=elr), told[-5:]
        for scene in scenes:
            beat_all(scene)
