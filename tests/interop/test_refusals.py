"""Commands of users without rights, on Apache's broker and ours: the lacking operation and its resource are named."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from kcli.admin.groups.describe import describe_groups
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.certificates import Certificates
from tests.cli.fake import Result, run_kcli
from tests.interop.acl_scene import Acl, Scene, group, topic
from tests.secured_broker import secured_broker

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
PASSWORD = "marked-secret-4"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SCRAM_SHA_512 = 2


class Person(NamedTuple):
    """A user with a password, who runs commands; `topic` and `group` exist."""

    name: str
    scene: Scene
    properties: dict[str, str]
    folder: Path
    topic: str
    group: str

    def run(self, line: str, *acls: Acl) -> Result:
        """Run a command line with the names of the topic and the group filled in, after these ACLs were created."""
        self.scene.grant([(self.name, acl) for acl in acls])
        file = self.folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))
        words = line.format(topic=self.topic, group=self.group).split()
        environ = {"XDG_STATE_HOME": str(self.folder)}
        return run_kcli(*words, "--command-config", str(file), "--timeout", "20", stdin=b"a\n", environ=environ)

    def sentence(self, text: str) -> str:
        return text.format(topic=self.topic, group=self.group, user=f"User:{self.name}")


@pytest.fixture(scope="module")
def own_broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[tuple[Scene, dict[str, str]]]:
    quick = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
    with secured_broker(tmp_path_factory.mktemp("broker"), certificates, **quick) as broker:
        addresses = broker.broker.addresses
        yield (
            Scene(addresses["PLAINTEXT"], addresses["SASL"]),
            {"bootstrap.servers": f"localhost:{broker.ports['SASL']}"},
        )


@pytest.fixture(params=["kcli", "apache"])
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Person]:
    """A new user without any right, on either broker."""
    if request.param == "kcli":
        scene, properties = request.getfixturevalue("own_broker")
    else:
        kafka = request.getfixturevalue("secured_kafka")
        scene = Scene(kafka.servers("PLAINTEXT"), kafka.servers("SASL"))
        properties = {"bootstrap.servers": kafka.servers("SASL")}
    name, topic_name, group_name = scene.name("person"), scene.name("orders"), scene.name("billing")
    _set_password(scene, name)
    scene.topics(topic_name)
    scene.wait_for_coordinator()
    _commit(scene, topic_name, group_name)
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{MODULE} required username="{name}" password="{PASSWORD}";',
    }
    yield Person(name, scene, properties | login, tmp_path, topic_name, group_name)
    if request.param == "apache":
        scene.revoke(name)
        scene.close()


def _set_password(scene: Scene, user: str) -> None:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), salt, 4096)
    credential = ScramCredentialUpsertion(
        name=user, mechanism=_SCRAM_SHA_512, iterations=4096, salt=salt, salted_password=salted
    )
    results = scene.admin.ask(AlterUserScramCredentialsRequest(upsertions=[credential]), 0).results
    assert [result.error_code for result in results] == [0], results


def _commit(scene: Scene, topic_name: str, group_name: str) -> None:
    """Write a record, and let the group exist: an offset before that record is committed by the super user."""
    done = run_kcli(
        "offsets", "reset", group_name, "--to-latest", "--topic", topic_name, "--execute", "-b", scene.admin_address
    )
    assert done.status == 0, done.err
    done = run_kcli("produce", topic_name, "-b", scene.admin_address, stdin=b"a\n")
    assert done.status == 0, done.err


Rights = Callable[[Person], list[Acl]]


def nothing(_person: Person) -> list[Acl]:
    return []


def describe_both(person: Person) -> list[Acl]:
    return [topic(DESCRIBE, person.topic), group(DESCRIBE, person.group)]


def read_topic(person: Person) -> list[Acl]:
    return [topic(READ, person.topic)]


def read_topic_describe_group(person: Person) -> list[Acl]:
    return [topic(READ, person.topic), group(DESCRIBE, person.group)]


def configurable(person: Person) -> list[Acl]:
    return [topic(DESCRIBE, person.topic), topic(AclOperation.DESCRIBE_CONFIGS, person.topic)]


@pytest.mark.parametrize(
    ("line", "rights", "sentence"),
    [
        (
            "topic describe {topic}",
            nothing,
            "topic {topic}: DESCRIBE on the topic is denied for {user}, or the topic does not exist",
        ),
        ("topic create {topic}-2", nothing, "topic {topic}-2: CREATE on the topic is denied for {user}"),
        ("topic delete {topic} --execute", describe_both, "topic {topic}: DELETE on the topic is denied for {user}"),
        ("topic alter {topic} -p 2", configurable, "topic {topic}: ALTER on the topic is denied for {user}"),
        (
            "topic alter {topic} -c flush.ms=9",
            configurable,
            "topic {topic}: ALTER_CONFIGS on the topic is denied for {user}",
        ),
        (
            "topic alter {topic} -c flush.ms=9",
            describe_both,
            "topic {topic}: DESCRIBE_CONFIGS on the topic is denied for {user}",
        ),
        (
            "topic truncate {topic} --before end --execute",
            describe_both,
            "topic {topic}: DELETE on the topic is denied for {user}",
        ),
        (
            "topic describe {topic} --configs",
            describe_both,
            "topic {topic}: DESCRIBE_CONFIGS on the topic is denied for {user}",
        ),
        (
            "consume {topic} -e -o start",
            nothing,
            "topic {topic}: DESCRIBE on the topic is denied for {user}, or the topic does not exist",
        ),
        (
            "produce {topic}",
            describe_both,
            "WRITE on every topic, and IDEMPOTENT_WRITE on the cluster, are denied for {user}",
        ),
        (
            "produce {topic} -X enable.idempotence=false",
            describe_both,
            "topic {topic}: WRITE on the topic is denied for {user}",
        ),
        ("consume {topic} -e --group {group}", read_topic, "group {group}: READ on the group is denied for {user}"),
        (
            "consume {topic} -e --group {group}",
            read_topic_describe_group,
            "group {group}: READ on the group is denied for {user}",
        ),
        (
            "group describe {group}",
            nothing,
            "group {group}: DESCRIBE on the group is denied for {user}, or the group does not exist",
        ),
        ("group delete {group} --execute", describe_both, "group {group}: DELETE on the group is denied for {user}"),
        (
            "offsets reset {group} --to-latest --topic {topic} --execute",
            describe_both,
            "group {group}: READ on the group is denied for {user}",
        ),
        (
            "offsets delete {group} --topic {topic} --execute",
            describe_both,
            "group {group}: DELETE on the group is denied for {user}",
        ),
    ],
)
def test_a_refusal_names_the_operation_the_resource_and_the_user(
    person: Person, line: str, rights: Rights, sentence: str
) -> None:
    result = person.run(line, *rights(person))
    assert result.status == 4, result.text + result.err
    assert person.sentence(sentence) in " ".join((result.text + result.err).split())
    assert PASSWORD not in result.text + result.err


def test_a_fetch_that_is_refused_names_read(person: Person) -> None:
    """The coverage of the read has the reason."""
    result = person.run("consume {topic} -e -o 0:1", *describe_both(person))
    assert result.status == 4
    assert person.sentence("topic {topic}: READ on the topic is denied for {user}") in result.err


def test_each_error_names_the_user_of_its_own_client(person: Person) -> None:
    """Two clients in one thread, and one of them in two more threads, read refused responses that arrived together."""
    other = person.scene.name("person")
    _set_password(person.scene, other)

    def connected(name: str) -> ConsumerNetworkClient:
        entry = f'{MODULE} required username="{name}" password="{PASSWORD}";'
        return connect(ClientConfig.from_properties({**person.properties, "sasl.jaas.config": entry}))

    def refusals(client: ConsumerNetworkClient) -> list[str]:
        """The group is refused by its coordinator's response, the topic by metadata."""
        deadline_ms = client.clock.now_ms() + 20_000
        error = describe_groups(client, {person.group: None}, deadline_ms).errors[person.group]
        cluster = client.topics_metadata([person.topic], deadline_ms)
        return [str(error), str(cluster.topic_error(person.topic))]

    def expected(name: str) -> list[str]:
        denied = f"is denied for User:{name}, or the"
        return [
            f"GROUP_AUTHORIZATION_FAILED: group {person.group}: DESCRIBE on the group {denied} group does not exist"
            " (request FindCoordinator)",
            f"TOPIC_AUTHORIZATION_FAILED: topic {person.topic}: DESCRIBE on the topic {denied} topic does not exist",
        ]

    with connected(person.name) as ours, connected(other) as theirs:
        assert refusals(ours) == expected(person.name)
        assert refusals(theirs) == expected(other)
        request = DescribeGroupsRequest(groups=[person.group])
        futures = []
        for client in (ours, theirs):
            client.topics_metadata([], client.clock.now_ms() + 20_000)
            node = client.least_loaded_node()
            assert node is not None
            futures.append(client.send(node, request))
        for client, future in ((theirs, futures[1]), (ours, futures[0])):  # ours is the last that the thread polls
            client.wait(future, client.clock.now_ms() + 20_000)
        named = [future.value().broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED).detail for future in futures]
        assert named == [
            f"DESCRIBE on the group is denied for User:{name}, or the group does not exist"
            for name in (person.name, other)
        ]
        with ThreadPoolExecutor(2) as threads:
            for found in threads.map(refusals, [ours, ours]):
                assert found == expected(person.name)


def test_an_empty_list_says_that_topics_may_be_hidden(person: Person) -> None:
    result = person.run("topic list")
    assert (result.status, result.text) == (0, "")
    assert result.err == person.sentence("kcli: note: topics without DESCRIBE for {user} are not listed\n")


def test_the_check_counts_the_authorized_operations(person: Person) -> None:
    result = person.run("profile check", topic(WRITE, person.topic), group(READ, person.group))
    assert result.status == 0, result.text
    assert "operations on the cluster: none" in result.text
    assert "1 topic visible; DESCRIBE on 1, READ on 0, WRITE on 1" in result.text
    assert "1 group visible; DESCRIBE on 1, READ on 1, DELETE on 0" in result.text


def test_a_check_of_the_cluster_reports_each_fact_that_is_refused(person: Person) -> None:
    result = person.run("cluster check --output json", *describe_both(person))
    found = json.loads(result.text)["items"]
    assert result.status == 4
    assert {finding["finding"] for finding in found} == {"unchecked"}
    evidence = {finding["subject"]: finding["evidence"] for finding in found}
    assert set(evidence) == {"topic settings", "broker settings", "log directories"}
    assert (
        person.sentence("topic {topic}: DESCRIBE_CONFIGS on the topic is denied for {user}")
        in evidence["topic settings"]
    )
    assert person.sentence("DESCRIBE_CONFIGS on the cluster is denied for {user}") in evidence["broker settings"]
    assert person.sentence("DESCRIBE on the cluster is denied for {user}") in evidence["log directories"]
    note = "kcli: note: topics without DESCRIBE for {user} are not listed, so they are not checked"
    assert person.sentence(note) in result.err
    assert PASSWORD not in result.text + result.err

    kinds = "unclean-election,under-min-isr,unlike-settings,uneven-disk,disk-nearly-full,log-dir-offline"
    assert person.run(f"cluster check --fail-on warning --ignore {kinds}").status == 0
    assert person.run("cluster check --fail-on unchecked").status == 6


def test_a_plan_says_that_groups_may_be_hidden(person: Person) -> None:
    """The group has not read the record, and the user may not know of it."""
    result = person.run("topic truncate {topic} --before end", topic(DESCRIBE, person.topic))
    assert result.status == 0
    assert person.sentence("groups without DESCRIBE for {user} are not listed, so they are not compared") in result.err
    assert "not read by" not in result.err
    seen = person.run("topic truncate {topic} --before end", group(DESCRIBE, person.group))
    assert person.sentence("1 record of 1 partition to delete; not read by: {group} (1)") in seen.err


@pytest.mark.parametrize("person", ["apache"], indirect=True)
def test_a_transaction_that_the_user_may_not_see_is_not_advised_to_be_aborted_at_once(person: Person) -> None:
    """Coordinators leave transactional ids without DESCRIBE out of their lists, so it looks like a hanging one."""
    settings = {"bootstrap.servers": person.scene.admin_address, "transactional.id": person.scene.name("tx")}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(person.topic, b"open")
    producer.flush(30)
    try:
        result = person.run("cluster check --output json", topic(READ, person.topic))
    finally:
        producer.abort_transaction(30)
    found = {finding["finding"]: finding for finding in json.loads(result.text)["items"]}
    assert found["hanging-transaction"]["subject"] == f"{person.topic}-0"
    assert found["hanging-transaction"]["advice"].startswith(
        "Check with a principal that may describe all transactional ids."
    )
