"""Elections in all partitions that one event concerns, such as a broker that was fenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.cluster.decide.elections import ONLINE, UNCLEAN, Election, Target
from kcli.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS
from kcli.broker.cluster.image import BROKER_CONFIG, NO_LEADER, TOPIC_CONFIG, MetadataImage, PartitionState
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.config import BrokerConfig

#: Ids in the place of a log directory (KIP-858): of a broker without directories, not known yet, and lost.
MIGRATING, UNASSIGNED, LOST = UUID(int=0), UUID(int=1), UUID(int=2)
RESERVED = 100  # ids below are not those of directories


def topic_setting(image: MetadataImage, config: BrokerConfig, topic: str, name: str) -> Any:
    """Return a setting that topics and brokers have under one name: the topic's, that of all brokers, or ours."""
    for key in ((TOPIC_CONFIG, topic), (BROKER_CONFIG, "")):
        if (text := image.configs.get(key, {}).get(name)) is not None:
            with suppress(ConfigError):  # brokers check what they forward; the log may still have other values
                return TOPIC_OPTIONS[name].parse(text)
    return config.value(name)


def election_for(
    image: MetadataImage,
    config: BrokerConfig,
    topic: str,
    *,
    kind: str | None = None,
    is_active: Callable[[int], bool] | None = None,
    lost: Sequence[int] = (),
) -> Election:
    """Return the circumstances of elections in a topic.

    The kind is by default what unclean.leader.election.enable says. `is_active` replaces what the image says.
    """
    is_active = is_active or image.is_active

    def is_acceptable(replica: int, state: PartitionState) -> bool:
        return is_active(replica) and has_online_directory(image, replica, state)

    if kind is None:
        kind = UNCLEAN if topic_setting(image, config, topic, "unclean.leader.election.enable") else ONLINE
    replicas = len(next(iter(image.topics[topic].partitions.values())).replicas)
    return Election(
        is_acceptable,
        min(topic_setting(image, config, topic, "min.insync.replicas"), replicas),
        image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0,
        lambda broker: default_directory(image, broker),
        kind,
        lost,
    )


def has_online_directory(image: MetadataImage, replica: int, state: PartitionState) -> bool:
    """Return whether the log directory of this replica is not known to be offline."""
    directory = dict(zip(state.replicas, state.directories, strict=False)).get(replica, UNASSIGNED)
    broker = image.brokers.get(replica)
    if broker is None or directory == LOST:
        return False
    return directory in (MIGRATING, UNASSIGNED) or not broker.log_dirs or directory in broker.log_dirs


def default_directory(image: MetadataImage, node_id: int) -> UUID:
    """Return the log directory of a new replica: the broker's only one, or UNASSIGNED until the broker tells it."""
    broker = image.brokers.get(node_id)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED
    return broker.log_dirs[0] if broker.log_dirs else MIGRATING


def remove_from_isrs(
    draft: Draft, config: BrokerConfig, node_id: int, *, directories: Sequence[UUID] | None = None
) -> None:
    """Remove a broker that stops from all ISRs and leaderships, or only the replicas in these directories."""
    image = draft.image

    def concerns(state: PartitionState) -> bool:
        if directories is None:
            return node_id in state.isr
        return (node_id, True) in (
            (replica, directory in directories)
            for replica, directory in zip(state.replicas, state.directories, strict=False)
        )

    elect_where(draft, config, concerns, lambda broker: broker != node_id and image.is_active(broker), without=node_id)


def remove_after_unclean_stop(draft: Draft, config: BrokerConfig, node_id: int) -> None:
    """Remove a broker that may have lost its last records from all ISRs, ELRs and leaderships (KIP-966)."""
    _remove_everywhere(draft, config, node_id, lost=(node_id,))


def remove_unregistered(draft: Draft, config: BrokerConfig, node_id: int) -> None:
    """Remove a broker that will not come back from all ISRs and leaderships; it stays eligible where it was (Kafka)."""
    _remove_everywhere(draft, config, node_id)


def _remove_everywhere(draft: Draft, config: BrokerConfig, node_id: int, *, lost: Sequence[int] = ()) -> None:
    image = draft.image
    elect_where(
        draft,
        config,
        lambda state: node_id in state.isr or node_id in state.elr,
        lambda broker: broker != node_id and image.is_active(broker),
        without=node_id,
        lost=lost,
    )


def elect_where_leaderless(draft: Draft, config: BrokerConfig, node_id: int) -> None:
    """Elect leaders of partitions without one, after a broker was unfenced."""
    image = draft.image
    elect_where(
        draft,
        config,
        lambda state: state.leader == NO_LEADER,
        lambda broker: broker == node_id or image.is_active(broker),
    )


def elect_where(
    draft: Draft,
    config: BrokerConfig,
    concerns: Callable[[PartitionState], bool],
    is_active: Callable[[int], bool] | None = None,
    *,
    kind: str | None = None,
    only: str | None = None,
    without: int | None = None,
    lost: Sequence[int] = (),
) -> None:
    """Hold an election in each partition that it concerns; arguments as of `election_for`.

    `without` is removed from the ISRs. `only`: in topics whose elections are of this kind.
    """
    image = draft.image
    for name, topic in list(image.topics.items()):
        election = None
        for number, state in list(topic.partitions.items()):
            if not concerns(state):
                continue
            if election is None:
                election = election_for(image, config, name, kind=kind, is_active=is_active, lost=lost)
            if only not in (None, election.kind):
                break
            isr = [replica for replica in state.isr if replica != without]
            if (record := election.change(topic.topic_id, number, state, Target(isr=isr))) is not None:
                draft.write(record)
