"""Directories of the versions that kept the state of a broker alone in JSON files. The files are of commit 8c14e00a."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kcli.broker.data_dir import parse_uuid
from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.errors import ConfigError
from kcli.security.sasl.scram import ScramCredential
from tests.broker.single_broker import DATA, Node
from tests.broker.test_alone import DyingFiles, Killed, copy_directory

TOPICS = b"""{
"topics": [
{"name": "orders", "id": "x5h0bf_LRZ-6ZnBzqXwLZg", "partitions": 3, "configs": {"retention.ms": "5000000"}},
{"name": "other", "id": "W_1vJaKNS8myR85ydN7HbQ", "partitions": 1, "configs": {}}
],
"version": 1,
"deleted": {"1rXzoBCHRkW-Q9JcQ8ekXQ": "gone"},
"broker_configs": {"": {"min.insync.replicas": "1"}, "1": {"log.retention.ms": "7000000"}},
"features": {"kraft.version": 1, "metadata.version": 30, "eligible.leader.replicas.version": 1, "transaction.version": 2, "group.version": 0},
"features_epoch": 1,
"quotas": [{"entity": [["user", null]], "limits": {"producer_byte_rate": 100000.0}}],
"resource_configs": {"32": {"g1": {"consumer.session.timeout.ms": "46000"}}}
}"""  # noqa: E501
ACLS = b"""{
 "version": 1,
 "acls": [
  {
   "resource_type": "TOPIC",
   "resource_name": "or",
   "pattern_type": "PREFIXED",
   "principal": "User:bob",
   "host": "10.0.0.1",
   "operation": "WRITE",
   "permission_type": "DENY"
  }
 ]
}"""
USERS = b"""{
 "version": 1,
 "scram": {
  "SCRAM-SHA-256": {
   "alice": {
    "salt": "f4pjiIWzK5pxdBh0eUEE3G+xAII=",
    "iterations": 4096,
    "stored_key": "XMG0r1Mcmh6hm1GFuXNRL+2L0PFnrKyI4UO0Xf+v8KQ=",
    "server_key": "vaRblChXeh+7T1qF2knkYORRy+Az9fcwa2tevNuJ1UE="
   }
  },
  "SCRAM-SHA-512": {}
 }
}"""
TOKENS = b"""{
 "version": 1,
 "tokens": [
  {
   "id": "aAepjH4RTNOVeNWk7dyQVQ",
   "owner": "User:alice",
   "requester": "User:admin",
   "renewers": [
    "User:bob"
   ],
   "issued_ms": 1795865468688,
   "max_ms": 1796470268688,
   "expires_ms": 1795951868688
  }
 ]
}"""
EARLIER = {
    "kcli-topics.json": TOPICS,
    "kcli-acls.json": ACLS,
    "kcli-credentials.json": USERS,
    "kcli-delegation-tokens.json": TOKENS,
    "producer-ids.json": b'{"version": 1, "next_producer_id": 3000}',
}


class Secured(Node):
    """A broker alone with an authorizer and delegation tokens."""

    def start(self) -> None:
        self.authorizer = Authorizer()
        super().start()
        self.security = self.alone.security


def earlier_disk() -> MemoryFiles:
    """Return a disk of the version before: a topic with a record, and a directory of a deleted one."""
    disk = MemoryFiles()
    disk.make_dir(DATA)
    for name, data in EARLIER.items():
        disk.write_atomically(f"{DATA}/{name}", data)
    node = _Copies(disk)
    copy_directory(node, "orders-0", parse_uuid("x5h0bf_LRZ-6ZnBzqXwLZg"))  # type: ignore[arg-type]
    copy_directory(node, "gone-0", parse_uuid("1rXzoBCHRkW-Q9JcQ8ekXQ"))  # type: ignore[arg-type]
    return disk


class _Copies:
    def __init__(self, files: MemoryFiles) -> None:
        self.files = files


def check(node: Secured) -> None:
    """Check that everything in the files is there."""
    cluster = node.cluster
    assert {name: (len(topic.partitions), cluster.topic_configs(name)) for name, topic in cluster.topics.items()} == {
        "orders": (3, {"retention.ms": "5000000"}),
        "other": (1, {}),
    }
    assert cluster.topics["orders"].topic_id == parse_uuid("x5h0bf_LRZ-6ZnBzqXwLZg")
    assert node.log_of("orders").log_end_offset == 1
    assert node.directories() == {"orders-0", "orders-1", "orders-2", "other-0"}
    assert cluster.dynamic.changed == {"": {"min.insync.replicas": "1"}, "1": {"log.retention.ms": "7000000"}}
    assert node.log_of("other").config.retention_ms == 7_000_000
    assert cluster.features == {
        "kraft.version": 1,
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
    assert cluster.image.quotas == {(("user", None),): {"producer_byte_rate": 100000.0}}
    assert cluster.image.resource_configs(32) == {"g1": {"consumer.session.timeout.ms": "46000"}}
    assert node.authorizer.bindings == (AclBinding(2, "or", 4, "User:bob", "10.0.0.1", 4, 2),)
    alice = node.security.credentials.credential("SCRAM-SHA-256", "alice")
    assert isinstance(alice, ScramCredential)
    assert (alice.iterations, len(alice.salt), len(alice.stored_key)) == (4096, 20, 32)
    [token] = node.security.tokens.current(0)
    assert (token.token_id, token.owner, token.renewers, token.expiration_timestamp) == (
        "aAepjH4RTNOVeNWk7dyQVQ",
        "User:alice",
        ["User:bob"],
        1795951868688,
    )


def test_everything_is_converted_once_and_the_files_are_kept() -> None:
    node = Secured(earlier_disk())
    check(node)
    assert node.alone.next_producer_id() == 3000
    assert len(node.logged) == 1
    assert "/data was converted: topics, settings, ACLs, users and tokens are in __cluster_metadata-0" in node.logged[0]
    names = set(node.files.list(DATA))
    assert {f"{name}.converted" for name in EARLIER} <= names
    assert not EARLIER.keys() & names
    assert node.files.read_bytes(f"{DATA}/kcli-topics.json.converted") == TOPICS
    node.restart()
    check(node)
    assert node.alone.next_producer_id() == 4000
    assert len(node.logged) == 1


def test_an_interrupted_conversion_is_made_again() -> None:
    for step in range(1000):
        disk = earlier_disk()
        dying = DyingFiles(disk, step)
        try:
            Secured(dying)
            has_ended = True
        except Killed:
            has_ended = False
        disk._locked.clear()
        check(Secured(disk))
        if has_ended:
            assert step > 10
            return


def test_a_metadata_log_that_the_earlier_version_did_not_read_is_set_aside() -> None:
    disk = MemoryFiles()
    other = Secured(disk)
    other.cluster.create_topic("of-another-life")
    other.close()
    for name, data in EARLIER.items():
        disk.write_atomically(f"{DATA}/{name}", data)

    node = Secured(disk)

    assert list(node.cluster.topics) == ["orders", "other"]
    names = disk.list(DATA)
    assert [name for name in names if name.startswith("__cluster_metadata-0.") and name.endswith("-stray")]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("kcli-topics.json", lambda text: text[:-5]),
        ("kcli-topics.json", lambda text: b""),
        ("kcli-topics.json", lambda text: text.replace(b'"partitions": 1', b'"partitions": 0')),
        ("kcli-topics.json", lambda text: text.replace(b'"version": 1', b'"version": 2')),
        ("kcli-topics.json", lambda text: text.replace(b'"topics"', b'"tropics"')),
        ("kcli-topics.json", lambda text: text.replace(b'"transaction.version": 2', b'"transaction.version": "2"')),
        ("kcli-topics.json", lambda text: text.replace(b'"id"', b'"ID"')),
        ("kcli-topics.json", lambda text: b"[]"),
        ("kcli-topics.json", lambda text: b"\xff\xfe"),
        ("kcli-acls.json", lambda text: b"{"),
        ("kcli-acls.json", lambda text: b'{"version": 2, "acls": []}'),
        ("kcli-acls.json", lambda text: b'{"version": 1, "acls": [{}]}'),
        ("kcli-credentials.json", lambda text: b"{}"),
        ("kcli-credentials.json", lambda text: b'{"version": 1, "scram": []}'),
        ("kcli-delegation-tokens.json", lambda text: text.replace(b'"owner"', b'"of"')),
        ("producer-ids.json", lambda text: b'{"version": 1, "next_producer_id": "7"}'),
        ("producer-ids.json", lambda text: b'{"version": 2, "next_producer_id": 7}'),
    ],
)
def test_a_damaged_file_is_named_and_nothing_is_changed(name: str, damage: Callable[[bytes], bytes]) -> None:
    disk = earlier_disk()
    disk.write_atomically(f"{DATA}/{name}", damage(EARLIER[name]))
    assert damage(EARLIER[name]) != EARLIER[name]

    with pytest.raises(ConfigError, match=f"/data/{name} is damaged"):
        Secured(disk)

    disk.write_atomically(f"{DATA}/{name}", EARLIER[name])
    check(Secured(disk))


def test_a_file_without_features_quotas_and_groups_is_one_of_the_first_version() -> None:
    document: dict[str, Any] = json.loads(TOPICS)
    for later in ("features", "features_epoch", "quotas", "resource_configs"):
        del document[later]
    disk = earlier_disk()
    disk.write_atomically(f"{DATA}/kcli-topics.json", json.dumps(document).encode())

    node = Secured(disk)

    assert node.cluster.features["transaction.version"] == 2
    assert node.log_of("orders").log_end_offset == 1
