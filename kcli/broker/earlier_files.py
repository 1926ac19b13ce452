"""The state of a broker alone in the files of earlier versions, as records for the metadata log.

A broker alone kept its topics, settings, quotas and features in `kcli-topics.json`, and its ACLs, SCRAM users,
delegation tokens and producer ids in a file each. They are read once, at the first start of this version, and then
renamed: they remain as a copy.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.cluster.features import FIRST_FEATURES, KRAFT_VERSION
from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG
from kcli.broker.data_dir import EARLIER_TOPICS, parse_uuid, random_uuid
from kcli.errors import ConfigError
from kcli.protocol import metadata_records as records
from kcli.protocol.acls import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.security.sasl.scram import MIN_ITERATIONS

if TYPE_CHECKING:
    from kcli.broker.files import Files

_OTHERS = ("kcli-acls.json", "kcli-credentials.json", "kcli-delegation-tokens.json", "producer-ids.json")
_COPY = ".converted"
_VERSION = 1
_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

NewPartition = Callable[[UUID, int], records.PartitionRecord]


def read_earlier(files: Files, data_dir: str, new_partition: NewPartition) -> list[Any]:
    """Return the records that stand for these files. ConfigError with the path of a damaged one.

    `new_partition` makes the record of a partition that this broker leads.
    """
    readers: tuple[Callable[[Any], Iterator[Any]], ...] = (
        lambda document: _topics(document, new_partition),
        _acls,
        _users,
        _tokens,
        _producer_ids,
    )
    found: list[Any] = []
    for name, read in zip((EARLIER_TOPICS, *_OTHERS), readers, strict=True):
        path = f"{data_dir}/{name}"
        if not files.exists(path):
            continue
        try:
            document = json.loads(files.read_bytes(path))
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']} is not {_VERSION}")
            found += read(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is damaged ({error}); restore it, or move it away to start without it") from None
    return found


def keep_copies(files: Files, data_dir: str) -> None:
    """Rename the files. After the first one, that of the topics, no start reads the others."""
    for name in (EARLIER_TOPICS, *_OTHERS):
        path = f"{data_dir}/{name}"
        if files.exists(path):
            files.rename(path, path + _COPY)
            files.sync_dir(data_dir)


def _topics(document: Any, new_partition: NewPartition) -> Iterator[Any]:
    levels = {**FIRST_FEATURES, **document.get("features", {})}  # the first versions had no features
    for name, level in levels.items():
        if name != KRAFT_VERSION and level:
            yield records.FeatureLevelRecord(name=name, feature_level=_level(level))
    for topic in document["topics"]:
        name, topic_id = topic["name"], parse_uuid(topic["id"])
        yield records.TopicRecord(name=name, topic_id=topic_id)
        yield from _configs(TOPIC_CONFIG, name, topic["configs"])
        for number in range(_count(topic["partitions"])):
            yield new_partition(topic_id, number)
    for text, name in document["deleted"].items():  # directories of deleted topics may be left
        yield records.TopicRecord(name=_text(name), topic_id=parse_uuid(text))
        yield records.RemoveTopicRecord(topic_id=parse_uuid(text))
    for broker, configs in document["broker_configs"].items():
        yield from _configs(BROKER_CONFIG, broker, configs)
    for quota in document.get("quotas", ()):
        entity = [
            records.EntityData(entity_type=_text(kind), entity_name=None if name is None else _text(name))
            for kind, name in quota["entity"]
        ]
        for key, value in quota["limits"].items():
            yield records.ClientQuotaRecord(entity=entity, key=_text(key), value=float(value))
    for kind, by_name in document.get("resource_configs", {}).items():
        for name, configs in by_name.items():
            yield from _configs(int(kind), name, configs)


def _configs(kind: int, resource: str, configs: Any) -> Iterator[records.ConfigRecord]:
    for name, value in configs.items():
        yield records.ConfigRecord(resource_type=kind, resource_name=resource, name=_text(name), value=_text(value))


def _acls(document: Any) -> Iterator[Any]:
    for row in document["acls"]:
        yield records.AccessControlEntryRecord(
            id=random_uuid(),
            resource_type=ResourceType[row["resource_type"]],
            resource_name=_text(row["resource_name"]),
            pattern_type=PatternType[row["pattern_type"]],
            principal=_text(row["principal"]),
            host=_text(row["host"]),
            operation=AclOperation[row["operation"]],
            permission_type=AclPermissionType[row["permission_type"]],
        )


def _users(document: Any) -> Iterator[Any]:
    for mechanism, users in document["scram"].items():
        for user, row in users.items():
            yield records.UserScramCredentialRecord(
                name=user,
                mechanism=_MECHANISMS[mechanism],
                salt=a2b_base64(row["salt"]),
                iterations=max(int(row["iterations"]), MIN_ITERATIONS),
                stored_key=a2b_base64(row["stored_key"]),
                server_key=a2b_base64(row["server_key"]),
            )


def _tokens(document: Any) -> Iterator[Any]:
    for row in document["tokens"]:
        yield records.DelegationTokenRecord(
            owner=_text(row["owner"]),
            requester=_text(row["requester"]),
            renewers=[_text(renewer) for renewer in row["renewers"]],
            issue_timestamp=int(row["issued_ms"]),
            max_timestamp=int(row["max_ms"]),
            expiration_timestamp=int(row["expires_ms"]),
            token_id=_text(row["id"]),
        )


def _producer_ids(document: Any) -> Iterator[Any]:
    yield records.ProducerIdsRecord(
        broker_id=-1, broker_epoch=-1, next_producer_id=_level(document["next_producer_id"])
    )


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is not a number of partitions")
    return value


def _level(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
