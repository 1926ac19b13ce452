"""Each public name of kafka-python and confluent-kafka exists in kcli, or its use says what to write instead."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import kcli
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.errors import ConfigError
from kcli.other_clients import METHODS

CONFIGS: dict[str, type[ClientConfig]] = {
    "Admin": ClientConfig,
    "Consumer": ConsumerConfig,
    "Producer": ProducerConfig,
}
CLASSES = [
    ("Admin", kafka.KafkaAdminClient),
    ("Admin", AdminClient),
    ("Consumer", kafka.KafkaConsumer),
    ("Consumer", confluent_kafka.Consumer),
    ("Producer", kafka.KafkaProducer),
    ("Producer", confluent_kafka.Producer),
]
#: What kcli cannot do, or does without being asked.
WITHOUT_COUNTERPART = {
    *("alter_partition_reassignments", "alter_replica_log_dirs", "alter_user_scram_credentials", "api_versions"),
    *("bootstrap", "bootstrap_connected", "cluster_id", "create_acls", "delete_acls", "describe_acls"),
    *("describe_configs", "describe_features", "describe_log_dirs", "describe_metadata_quorum", "describe_producers"),
    *("describe_user_scram_credentials", "elect_leaders", "get_broker_version_data", "list_config_resources"),
    *("list_partition_reassignments", "max_usable_produce_magic", "paused", "poll", "set_sasl_credentials"),
    *("subscription", "update_features", "wait_for_topics"),
}


def create(topics: Any) -> None:
    with kcli.Admin("127.0.0.1:1") as admin:  # it would connect with the first request
        admin.create_topics(topics)


@pytest.mark.parametrize(("owner", "foreign"), CLASSES)
def test_each_method_of_another_client_exists_or_says_what_to_use(owner: str, foreign: type) -> None:
    own = getattr(kcli, owner)
    names = [name for name in dir(foreign) if not name.startswith("_") and name.islower()]
    assert len(names) > 10
    unknown = [name for name in names if not hasattr(own, name) and name not in METHODS[owner]]
    assert set(unknown) - WITHOUT_COUNTERPART == set()


@pytest.mark.parametrize(("owner", "foreign"), [case for case in CLASSES if hasattr(case[1], "DEFAULT_CONFIG")])
def test_each_setting_of_kafka_python_is_a_setting_here_or_says_what_to_do(owner: str, foreign: Any) -> None:
    own, parameters = CONFIGS[owner], getattr(kcli, owner).__init__.__kwdefaults__
    assert len(foreign.DEFAULT_CONFIG) > 30
    for name in foreign.DEFAULT_CONFIG:
        if name in parameters or name.replace("_", ".") in own.SETTINGS:
            continue
        if owner == "Admin" and name.replace("_", ".") in {*ConsumerConfig.SETTINGS, *ProducerConfig.SETTINGS}:
            continue  # Admin(**properties) takes those of a file that all clients share
        with pytest.raises(ConfigError, match=r"(; use |; remove it)"):
            own.from_keywords({name: "1"})


@pytest.mark.parametrize(
    ("call", "ending"),
    [
        (lambda c: c.assign([kafka.TopicPartition("orders", 0)]), "got a list with a TopicPartition of kafka"),
        (
            lambda c: c.assign([confluent_kafka.TopicPartition("orders", 0)]),
            "got a list with a TopicPartition of confluent_kafka",
        ),
        (
            lambda c: c.seek(confluent_kafka.TopicPartition("orders", 0, 5), 5),
            "got a TopicPartition of confluent_kafka",
        ),
        (
            lambda c: c.commit({kcli.TopicPartition("orders", 0): kafka.OffsetAndMetadata(5, "", -1)}),
            "got a dict with an OffsetAndMetadata of kafka as a value",
        ),
        (lambda c: c.commit([confluent_kafka.TopicPartition("orders", 0, 5)]), "OffsetAndMetadata(100)}; got a list"),
        (lambda c: create([NewTopic("orders", 3)]), "got a list with a NewTopic of confluent_kafka"),
    ],
)
def test_a_struct_of_another_client_is_named_with_its_package(call: Any, ending: str) -> None:
    with kcli.Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as consumer, pytest.raises(TypeError) as caught:
        call(consumer)
    assert str(caught.value).endswith(ending)
