"""Names of kafka-python, aiokafka and confluent-kafka for what kcli calls otherwise, with what to write here. Ground.

Texts only. The errors for an unknown setting, parameter or method show them after "use", so each name in a text exists;
the tests check it. Sources: the documentation of kafka-python 3.0, aiokafka 0.14 and confluent-kafka 2.16, and the file
CONFIGURATION.md of librdkafka.
"""

from __future__ import annotations

from collections.abc import Collection

_VERSIONS = "remove it, because the client and each broker agree on versions"
_SUBSCRIBE = "on_assigned, on_revoked and on_lost of subscribe()"
_OUTCOME = "add_done_callback() of the future that send() returns, or on_ack for all records"
_LOOP = "AsyncConsumer, AsyncProducer or AsyncAdmin, which use the running loop"
_LOGGER = 'the logger "kcli" of Python'
_TOKENS = "sasl_oauthbearer_token_endpoint_url, the address that gives tokens"
_NO_PROXY = "remove it, because kcli connects without a proxy"
_METRICS = "metrics(), which needs no setting"
_POLL = "poll(timeout_ms), which returns at most max_poll_records records"
_ENDS = "beginning_offsets() and end_offsets()"

#: Packages by the first part of the name of their modules.
PACKAGES = {
    "aiokafka": "aiokafka",
    "cimpl": "confluent_kafka",
    "confluent_kafka": "confluent_kafka",
    "kafka": "kafka",
}

#: Settings by Kafka's form of their name, with dots.
SETTINGS = {
    "api.version": _VERSIONS,
    "api.version.auto.timeout.ms": _VERSIONS,
    "api.version.request": _VERSIONS,
    "bootstrap.timeout.ms": "default_api_timeout_ms",
    "broker.version.fallback": _VERSIONS,
    "callback": _OUTCOME,
    "consumer.timeout.ms": "poll(timeout_ms), or records(to_end=True), which stops at the end offsets",
    "default.offset.commit.callback": "Consumer(on_commit=...)",
    "default.topic.config": "its settings as keywords, such as auto_offset_reset",
    "enable.auto.offset.store": "enable_auto_commit=False, and commit(offsets)",
    "enable.incremental.fetch.sessions": "remove it, because kcli always uses fetch sessions",
    "enable.partition.eof": "records(to_end=True), which stops at the end offsets",
    "error.cb": _LOGGER,
    "interceptors": "on_consume, on_commit, on_send or on_ack",
    "kafka.client": "from_config(config, client)",
    "log.cb": _LOGGER,
    "logger": _LOGGER,
    "loop": _LOOP,
    "max.batch.size": "batch_size",
    "metric.group.prefix": _METRICS,
    "metrics.enabled": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "oauth.cb": _TOKENS,
    "on.ack": "Producer(on_ack=...)",
    "on.assign": _SUBSCRIBE,
    "on.commit": "Consumer(on_commit=...)",
    "on.consume": "Consumer(on_consume=...)",
    "on.delivery": _OUTCOME,
    "on.revoke": _SUBSCRIBE,
    "on.send": "Producer(on_send=...)",
    "proxy.url": _NO_PROXY,
    "queue.buffering.max.kbytes": "buffer_memory, in bytes",
    "queue.buffering.max.messages": "buffer_memory, in bytes",
    "queued.max.messages.kbytes": "fetch_max_bytes",
    "queued.min.messages": "fetch_max_bytes",
    "rebalance.listener": _SUBSCRIBE,
    "rebalance.timeout.ms": "max_poll_interval_ms",
    "sasl.kerberos.domain.name": "the host names of bootstrap_servers",
    "sasl.kerberos.name": "sasl_kerberos_service_name",
    "sasl.oauth.token.provider": _TOKENS,
    "sasl.plain.password": "sasl_password",
    "sasl.plain.username": "sasl_username",
    "selector": "remove it, because kcli chooses it",
    "socket.options": "send_buffer_bytes and receive_buffer_bytes",
    "socks5.proxy": _NO_PROXY,
    "ssl.cafile": "ssl_ca_location",
    "ssl.cadata": "ssl_ca_pem",
    "ssl.certfile": "ssl_certificate_location",
    "ssl.check.hostname": 'ssl_endpoint_identification_algorithm="" for no check of the host name',
    "ssl.ciphers": "ssl_cipher_suites",
    "ssl.context": "ssl_ca_location, ssl_certificate_location and ssl_key_location",
    "ssl.crlfile": "remove it, because kcli does not check revocation lists",
    "ssl.keyfile": "ssl_key_location",
    "ssl.password": "ssl_key_password",
    "statistics.interval.ms": _METRICS,
    "stats.cb": _METRICS,
    "throttle.cb": _METRICS,
    "timeout": "Admin(timeout_ms=...), in milliseconds",
    "timeout.s": "Admin(timeout_ms=...), in milliseconds",
}

_ADMIN = {
    "abort_transaction": "abort_transactions()",
    "alter_configs": "plan_alterations() and alter()",
    "alter_consumer_group_offsets": "plan_reset() and apply()",
    "alter_group_offsets": "plan_reset() and apply()",
    "alter_topics": "alter()",
    "create_partitions": "plan_alterations() and alter()",
    "delete_consumer_groups": "delete_groups()",
    "delete_group_offsets": "plan_delete() and apply()",
    "delete_records": "plan_truncation() and truncate()",
    "describe_consumer_groups": "describe_groups()",
    "describe_topic_partitions": "describe_topics()",
    "find_hanging_transactions": "open_transactions()",
    "incremental_alter_configs": "plan_alterations() and alter()",
    "list_consumer_group_offsets": "group_lag() or export_offsets()",
    "list_consumer_groups": "list_groups()",
    "list_group_offsets": "group_lag() or export_offsets()",
    "list_offsets": "Consumer.beginning_offsets() and Consumer.end_offsets()",
    "list_partition_offsets": "Consumer.beginning_offsets() and Consumer.end_offsets()",
    "remove_group_members": "plan_member_removal() and remove_members()",
    "reset_configs": "plan_alterations() and alter()",
    "reset_group_offsets": "plan_reset() and apply()",
}
_CONSUMER = {
    "consume": _POLL,
    "consumer_group_metadata": "group_metadata()",
    "get_watermark_offsets": _ENDS,
    "getmany": _POLL,
    "getone": "next(consumer.records())",
    "highwater": "end_offsets()",
    "incremental_assign": "assign()",
    "incremental_unassign": "assign()",
    "last_stable_offset": 'end_offsets(), with isolation_level="read_committed"',
    "list_topics": "Admin.list_topics()",
    "memberid": "group_metadata()",
    "partitions_for_topic": "Admin.describe_topics()",
    "seek_to_committed": "committed() and seek()",
    "store_offsets": "commit(offsets)",
    "topics": "Admin.list_topics()",
    "unassign": "unsubscribe()",
}
_PRODUCER = {
    "create_batch": "send_many()",
    "list_topics": "Admin.list_topics()",
    "partitions_for": "partitions()",
    "produce": "send()",
    "produce_batch": "send_many()",
    "purge": "close(flush=False)",
    "send_batch": "send_many()",
    "send_offsets_to_transaction": "send_offsets()",
}
_START_STOP = {"start": "`async with`, or the first call, which connects", "stop": "close()"}
#: Methods by class.
METHODS = {
    "Admin": _ADMIN,
    "AsyncAdmin": {**_ADMIN, **_START_STOP},
    "AsyncConsumer": {**_CONSUMER, **_START_STOP, "getone": "anext(consumer.records())"},
    "Consumer": {**_CONSUMER, "stop": "close()"},
    "AsyncProducer": {**_PRODUCER, **_START_STOP},
    "Producer": {
        **_PRODUCER,
        "send_and_wait": "result() of the future that send() returns",
        "stop": "close()",
    },
    "RequestFuture": {
        "add_both": "add_done_callback()",
        "add_callback": "add_done_callback()",
        "add_errback": "add_done_callback()",
        "get": "result(timeout_ms)",
    },
}

#: What else may be meant by text for a parameter that takes a function.
CALLABLES = {
    "partitioner": "; without it, the hash of the key selects the partition as in Java (murmur2_random of librdkafka)",
}

_TIMES = {"timeout", "timeout_s", "timeout_sec", "timeout_seconds", "deadline", "deadline_ms", "request_timeout"}
_INTERVALS = {"interval", "interval_s"}
#: Parameters of methods: one that a method needs for the advice, and the advice.
PARAMETERS = {
    **dict.fromkeys(sorted(_TIMES), ("timeout_ms", "timeout_ms, in milliseconds")),
    **dict.fromkeys(sorted(_INTERVALS), ("interval_ms", "interval_ms, in milliseconds")),
    "asynchronous": ("offsets", "commit_async(), which returns at once"),
    "listener": ("on_assigned", "on_assigned, on_revoked and on_lost"),
    "max_records": ("timeout_ms", "the setting max_poll_records"),
    "message": ("offsets", "offsets={TopicPartition(topic, partition): OffsetAndMetadata(offset + 1)}"),
    "new_topics": ("topics", "topics=[NewTopic(name, partitions)]"),
    "num_partitions": ("partitions", "partitions"),
    "on_assign": ("on_assigned", "on_assigned"),
    "on_revoke": ("on_revoked", "on_revoked"),
    "partition": ("tp", "tp=TopicPartition(topic, partition)"),
    "replication_factor": ("replication", "replication"),
    "timestamps": ("times_ms", "times_ms, in milliseconds since the epoch"),
    "validate_only": ("dry_run", "dry_run"),
}


def instead_of(name: str, parameters: Collection[str], owner: str) -> str | None:
    """Return what to write for a parameter that a method of the class `owner` does not have; None if unknown."""
    required, advice = PARAMETERS.get(name, ("", ""))
    if required in parameters:
        return advice
    if name in _TIMES and owner.endswith("Admin"):
        return f"{owner}(timeout_ms=...), which limits each call"
    return None
