"""ACLs by kafka-acls, confluent-kafka and kafka-python, and the errors of clients without rights, on both brokers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kcli.protocol.acls import AclOperation
from tests.interop.acl_scene import Scene, group, topic
from tests.real_kafka import Kafka

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@pytest.fixture
def kafka(acl_scene: Scene) -> Kafka:
    """Kafka's tools for the broker, as its super user."""
    return Kafka(acl_scene.admin_address, None)


# ---- kafka-acls ----


def acl_tool(kafka: Kafka, *arguments: str) -> str:
    return kafka.tool("AclCommand", "--bootstrap-server", kafka.bootstrap_servers, *arguments).stdout


def listed(kafka: Kafka, principal: str) -> list[str]:
    """Return the ACLs of a principal as `kafka-acls --list` prints them, one line each."""
    found, resource = [], ""
    for line in acl_tool(kafka, "--list", "--principal", principal).splitlines():
        if match := re.search(r"ResourcePattern\(resourceType=(\w+), name=(\S+), patternType=(\w+)\)", line):
            resource = " ".join(match.groups())
        elif match := re.search(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)", line):
            assert match[1] == principal
            found.append(f"{resource}: {match[4]} {match[3]} from {match[2]}")
    return sorted(found)


@pytest.mark.slow
def test_kafka_acls_adds_lists_and_removes(acl_scene: Scene, kafka: Kafka) -> None:
    name, user = acl_scene.name("topic"), acl_scene.user().name
    principal = f"User:{user}"
    acl_tool(kafka, "--add", "--allow-principal", principal, "--producer", "--topic", name)
    acl_tool(kafka, "--add", "--allow-principal", principal, "--consumer", "--topic", name, "--group", name)
    denial = ("--deny-principal", principal, "--deny-host", "10.0.0.1", "--operation", "All")
    acl_tool(kafka, "--add", *denial, "--topic", name, "--resource-pattern-type", "prefixed")
    acl_tool(kafka, "--add", "--allow-principal", principal, "--operation", "IdempotentWrite", "--cluster")
    everything = [
        "CLUSTER kafka-cluster LITERAL: ALLOW IDEMPOTENT_WRITE from *",
        f"GROUP {name} LITERAL: ALLOW READ from *",
        f"TOPIC {name} LITERAL: ALLOW CREATE from *",
        f"TOPIC {name} LITERAL: ALLOW DESCRIBE from *",
        f"TOPIC {name} LITERAL: ALLOW READ from *",
        f"TOPIC {name} LITERAL: ALLOW WRITE from *",
        f"TOPIC {name} PREFIXED: DENY ALL from 10.0.0.1",
    ]
    acl_scene.until(lambda: listed(kafka, principal) == everything, "all ACLs")
    acl_tool(kafka, "--remove", "--force", *denial, "--topic", name, "--resource-pattern-type", "prefixed")
    acl_tool(kafka, "--remove", "--force", "--group", name)
    kept = [line for line in everything if "GROUP" not in line and "PREFIXED" not in line]
    acl_scene.until(lambda: listed(kafka, principal) == kept, "the remaining ACLs")


@pytest.mark.slow
def test_the_console_consumer_reports_its_missing_right(acl_scene: Scene, kafka: Kafka) -> None:
    name = acl_scene.name("topic")
    acl_scene.topics(name)
    user = acl_scene.user([topic(DESCRIBE, name), group(READ, name)])
    login = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=OAUTHBEARER",
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'unsecuredLoginStringClaim_sub="{user.name}";',
    ]
    options = [word for setting in login for word in ("--command-property", setting)]
    at = ("--bootstrap-server", acl_scene.sasl_address, "--topic", name, "--group", name, "--timeout-ms", "20000")
    done = kafka.tool("ConsoleConsumer", *at, *options, check=False)
    assert f"TopicAuthorizationException: Not authorized to access topics: [{name}]" in done.stdout + done.stderr


# ---- confluent-kafka ----


def librdkafka(scene: Scene, user: str, **more: Any) -> dict[str, Any]:
    """Return the properties of a user of librdkafka."""
    return {
        "bootstrap.servers": scene.sasl_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": f"principal={user}",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_confluent_kafka_creates_describes_and_deletes(acl_scene: Scene) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
    )
    from confluent_kafka.admin import AclOperation as Operation
    from confluent_kafka.admin import ResourceType as Resource

    admin = AdminClient({"bootstrap.servers": acl_scene.admin_address})
    name, principal = acl_scene.name("topic"), f"User:{acl_scene.user().name}"
    literal = AclBinding(
        Resource.TOPIC, name, ResourcePatternType.LITERAL, principal, "*", Operation.READ, AclPermissionType.ALLOW
    )
    prefixed = AclBinding(
        Resource.GROUP, name, ResourcePatternType.PREFIXED, principal, "10.0.0.1", Operation.ALL, AclPermissionType.DENY
    )
    for done in admin.create_acls([literal, prefixed]).values():
        assert done.result(30) is None
    wrong = AclBinding(
        Resource.BROKER, "1", ResourcePatternType.LITERAL, principal, "*", Operation.READ, AclPermissionType.ALLOW
    )
    [refused] = admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException, match="kafka-cluster"):
        refused.result(30)
    everything = AclBindingFilter(
        Resource.ANY, None, ResourcePatternType.ANY, principal, None, Operation.ANY, AclPermissionType.ANY
    )
    acl_scene.until(lambda: set(admin.describe_acls(everything).result(30)) == {literal, prefixed}, "both ACLs")
    of_topic = AclBindingFilter(
        Resource.TOPIC, name, ResourcePatternType.MATCH, principal, None, Operation.ANY, AclPermissionType.ANY
    )
    [deleted] = admin.delete_acls([of_topic]).values()
    assert deleted.result(30) == [literal]
    acl_scene.until(lambda: admin.describe_acls(everything).result(30) == [prefixed], "the remaining ACL")


def test_librdkafka_gets_the_errors_of_missing_rights(acl_scene: Scene) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    name = acl_scene.name("topic")
    acl_scene.topics(name)
    acl_scene.wait_for_coordinator()
    user = acl_scene.user([topic(DESCRIBE, name)])

    admin = AdminClient(librdkafka(acl_scene, user.name))
    assert set(admin.list_topics(timeout=30).topics) == {name}
    [created] = admin.create_topics([NewTopic(f"{name}-new", 1, 1)]).values()
    with pytest.raises(KafkaException) as refused:
        created.result(30)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def produced() -> list[int]:
        errors: list[int] = []
        producer = Producer(librdkafka(acl_scene, user.name))
        producer.produce(name, b"v", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
        producer.flush(30)
        return errors

    assert produced() == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    def first_error() -> int:
        consumer = Consumer(librdkafka(acl_scene, user.name, group_id=name, auto_offset_reset="earliest"))
        consumer.subscribe([name])
        try:
            message = consumer.poll(30)
            assert message is not None, "no message and no error"
            return message.error().code() if message.error() else 0
        finally:
            consumer.close()

    assert first_error() == KafkaError.GROUP_AUTHORIZATION_FAILED
    acl_scene.grant([(user.name, topic(WRITE, name)), (user.name, group(READ, name))])
    assert produced() == [0]
    assert first_error() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    acl_scene.grant([(user.name, topic(READ, name))])
    assert first_error() == 0


def test_librdkafka_may_produce_with_idempotence_if_it_may_write_to_a_topic(acl_scene: Scene) -> None:
    from confluent_kafka import Producer

    name = acl_scene.name("topic")
    acl_scene.topics(name)
    user = acl_scene.user([topic(WRITE, name)])
    errors: list[Any] = []
    producer = Producer(librdkafka(acl_scene, user.name, enable_idempotence=True))
    producer.produce(name, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors == [None]


# ---- kafka-python ----


def test_kafka_python_creates_describes_and_deletes(acl_scene: Scene) -> None:
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as Resource

    admin = KafkaAdminClient(bootstrap_servers=acl_scene.admin_address)
    name, principal = acl_scene.name("topic"), f"User:{acl_scene.user().name}"
    pattern = ResourcePattern(Resource.TOPIC, name, ACLResourcePatternType.PREFIXED)
    made = ACL(principal, "*", ACLOperation.WRITE, ACLPermissionType.DENY, pattern)
    assert admin.create_acls([made])["succeeded"] == [made]
    searched = ACLFilter(
        principal,
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(Resource.ANY, f"{name}-longer", ACLResourcePatternType.MATCH),
    )
    acl_scene.until(lambda: [one for one in admin.describe_acls(searched)[0] if one == made] == [made], "the ACL")
    [(_, matching, error)] = admin.delete_acls([searched])
    assert matching == [made]
    assert error.errno == 0
    acl_scene.until(lambda: admin.describe_acls(searched)[0] == [], "the ACL to be gone")
    admin.close()
