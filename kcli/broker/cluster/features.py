"""The features of a cluster: the levels that kcli's brokers and controller support, and those of a new cluster."""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"

#: First and last level, as Apache Kafka 4.3.1 declares them. A broker must declare each feature of its cluster.
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (7, 30),
    KRAFT_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}

#: The levels of a cluster that kcli's controller makes: what kcli's nodes serve. 30 is 4.3-IV0.
FIRST_FEATURES: dict[str, int] = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS: 1,
    TRANSACTION_VERSION: 2,
    GROUP_VERSION: 1,
}

#: The levels of a new single broker. kraft.version is in no record of features; Apache Kafka returns it with them.
FIRST_FEATURES_OF_SINGLE: dict[str, int] = {KRAFT_VERSION: 1, **FIRST_FEATURES}
#: First and last level of the features that a single broker serves.
FEATURES_OF_SINGLE = {name: SUPPORTED_FEATURES[name] for name in FIRST_FEATURES_OF_SINGLE}
