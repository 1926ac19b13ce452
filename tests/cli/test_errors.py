"""Errors of all families, as the user sees them:

each is one line that says what is wrong, the value, and what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import run_kcli

FILES = {"empty.json": "", "bad.json": '{"kcli": 1', "bad.csv": "orders,0,x\n"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic `orders` (3 partitions), read by the group `billing`."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        broker.create_topic("orders", 3)
        where = ("-b", broker.address)
        assert run_kcli("produce", "orders", *where, stdin=b"a record\n").status == 0
        assert run_kcli("consume", "orders", "--group", "billing", "-o", "start", "-e", *where).status == 0
        yield broker.address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with files that cannot be applied."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


ERRORS = [
    # the command line
    ("tpic list", 2, "kcli: there is no command 'kcli tpic'; did you mean 'kcli topic'?"),
    # topic
    ("topic lst", 2, "kcli: there is no command 'kcli topic lst'; did you mean 'kcli topic list'?"),
    ("topic", 2, "kcli: the command is missing (see kcli topic --help)"),
    ("topic list --lnog", 2, "kcli: there is no option --lnog; did you mean --long? (see kcli topic list --help)"),
    ("topic list --timeout soon", 2, "kcli: --timeout: 'soon' is not a number (see kcli topic list --help)"),
    (
        "topic list --timeout 0",
        2,
        "kcli: --timeout: '0' is not valid; use a number of seconds above 0 and below 1e9, such as 30",
    ),
    ("topic list --output yaml", 2, "kcli: --output: 'yaml' is not valid; use table, json, jsonl, csv or tsv"),
    ("topic list extra", 2, "kcli: unexpected argument: extra (see kcli topic list --help)"),
    (
        "topic list -X fetch.min.bytes",
        2,
        "kcli: -X: value 1 is not valid; write key=value (it is not shown: it may contain a password)",
    ),
    (
        "topic list -X security.protocol=SASL",
        2,
        "kcli: security.protocol: 'SASL' is not valid; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    ),
    (
        "topic list -X request.timeout.ms=soon",
        2,
        "kcli: request.timeout.ms: the value is not valid; use a whole number from 0 to 2147483647",
    ),
    (
        "topic list --command-config /nowhere.properties",
        2,
        "kcli: cannot read properties file /nowhere.properties: No such file or directory",
    ),
    ("topic list -b nohost", 2, "kcli: --bootstrap-server: 'nohost' is not valid; use host:port"),
    ("topic list -b host:99999", 2, "kcli: --bootstrap-server: 'host:99999' is not valid; use a port from 1 to 65535"),
    (
        "topic list -b 127.0.0.1:1 --timeout 1",
        5,
        "kcli: no broker answered at 127.0.0.1:1: connection refused by 127.0.0.1:1 (while it waited for metadata)",
    ),
    (
        "topic describe ordres",
        3,
        "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic ordres (did you mean orders?)",
    ),
    (
        "topic delete ordres --execute",
        3,
        "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic ordres (did you mean orders?)\nnothing was deleted",
    ),
    (
        "topic describe 'or ders'",
        3,
        (
            "kcli: INVALID_TOPIC_EXCEPTION: the topic name is not legal, or the operation may not touch an "
            "internal topic (topic or ders)"
        ),
    ),
    ("topic create", 2, "kcli: TOPIC... is missing (see kcli topic create --help)"),
    ("topic create orders", 1, "kcli: TOPIC_ALREADY_EXISTS: Topic 'orders' already exists. (topic orders)"),
    (
        "topic create a/b",
        1,
        (
            "kcli: INVALID_TOPIC_EXCEPTION: The topic name 'a/b' is not valid; use ASCII letters, digits, "
            "'.', '_' and '-' (topic a/b)"
        ),
    ),
    (
        "topic create new -p 0",
        2,
        "kcli: --partitions: 0 is out of range; use 1 to 2147483647 (see kcli topic create --help)",
    ),
    (
        "topic create new -r 3",
        1,
        "kcli: INVALID_REPLICATION_FACTOR: The replication factor is 3, but there is only 1 broker (topic new)",
    ),
    (
        "topic create new -c retention.ms",
        2,
        "kcli: -c: value 1 is not valid; write key=value (it is not shown: it may contain a password)",
    ),
    (
        "topic create new -c retention.ms=soon",
        1,
        (
            "kcli: INVALID_CONFIG: retention.ms: the value is not valid; use a whole number from -1 to "
            "9223372036854775807 (topic new)"
        ),
    ),
    # cluster
    ("cluster api-versions --node 9", 2, "kcli: --node: there is no broker 9; the brokers are 1"),
    # produce
    (
        "produce orders --input jsonl bad.json",
        1,
        "kcli: 1 record not stored: line 1 is not a record in JSON: Expecting ',' delimiter at column 11",
    ),
    ("produce orders -k a -K :", 2, "kcli: -k cannot be combined with -K; -k sets one key for all records"),
    (
        "produce 'a b'",
        3,
        "kcli: INVALID_TOPIC_EXCEPTION: 'a b' is not a valid topic name; use letters, digits, '.', '_' and '-'",
    ),
    ("produce orders nofile.txt", 1, "kcli: cannot read nofile.txt: No such file or directory"),
    ("produce", 2, "kcli: TOPIC is missing (see kcli produce --help)"),
    ("produce gone", 3, "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic gone"),
    (
        "produce orders --compression foo",
        2,
        "kcli: --compression: 'foo' is not valid; use none, gzip, snappy, lz4 or zstd",
    ),
    ("produce orders --acks 7", 2, "kcli: --acks: '7' is not valid; use all, -1, 0 or 1"),
    ("produce orders -K ''", 2, "kcli: -K must not be empty; give the delimiter between key and value"),
    ("produce orders --transactional-id ' '", 2, "kcli: --transactional-id must not be empty"),
    ("produce orders --partition 9", 3, "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic orders has partitions 0 to 2, not 9"),
    ("produce orders --input foo", 2, "kcli: --input: 'foo' is not valid; use raw or jsonl"),
    (
        "produce orders --timestamp 1700000000000000",
        2,
        (
            "kcli: --timestamp: '1700000000000000' is not a valid time; seconds since 1970 have 9 or 10 digits, "
            "milliseconds 12 or 13, without a fraction"
        ),
    ),
    # consume
    ("consume orders --invert -e", 2, "kcli: --invert requires --grep, --key or --header"),
    ("consume orders --group a -p 1", 2, "kcli: -p cannot be combined with --group: the group assigns the partitions"),
    (
        "consume orders --group a --merge",
        2,
        "kcli: --merge cannot be combined with --group: a member reads only its assigned partitions",
    ),
    ("consume --topics 'zz.*' -e", 3, "kcli: --topics: no topic matches 'zz.*'"),
    ("consume orders --topics 'o.*' -e", 2, "kcli: --topics cannot be combined with topic orders"),
    ("consume --topics 'o.*' -p 1 -e", 2, "kcli: --topics cannot be combined with -p"),
    (
        "consume --topics '(' -e",
        2,
        "kcli: --topics: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0",
    ),
    (
        "consume topic -e",
        2,
        "kcli: the topic is missing; use TOPIC or --topics REGEX (see kcli consume topic --help)",
    ),
    (
        "consume orders --checkpoint f --output json -e",
        2,
        "kcli: --checkpoint cannot be combined with --output json: its document ends with the read; use --output jsonl",
    ),
    (
        "consume orders --checkpoint f --group a",
        2,
        "kcli: --checkpoint cannot be combined with --group: a member goes on at the committed offsets",
    ),
    ("consume gone1 gone2 -e", 3, "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic gone1; there is no topic gone2"),
    ("consume ordres -e", 3, "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic ordres (did you mean orders?)"),
    ("consume orders:7 -e", 3, "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic orders has partitions 0 to 2, not 7"),
    ("consume orders:x -e", 2, "kcli: 'x' is not a valid list of partitions; write it like 0,2,5-7"),
    (
        "consume orders -o middle",
        2,
        (
            "kcli: -o: 'middle' is not a valid range; use one of start, end, 100, +100, -100, 100:200, :end, "
            "@TIME, @TIME:TIME"
        ),
    ),
    (
        "consume orders -o @yesterday",
        2,
        (
            "kcli: -o: '@yesterday' is not a valid range; a valid time is seconds (9 or 10 digits) or "
            "milliseconds (12 or 13 digits) since 1970, 2024-01-31, 2024-01-31T10:00[:00[.000]] with Z or +02:00 "
            "(none: UTC), or -1h30m"
        ),
    ),
    (
        "consume orders -o @2024-13-01",
        2,
        "kcli: -o: '@2024-13-01' is not a valid range; '2024-13-01' is not on the calendar",
    ),
    ("consume orders -o 5:2 -e", 2, "kcli: -o: '5:2' is not a valid range; it ends before it starts"),
    (
        "consume orders -n 0",
        2,
        "kcli: --max-messages: 0 is out of range; use at least 1 (see kcli consume topic --help)",
    ),
    (
        "consume orders -f %{value.id}",
        2,
        "kcli: -f: a part or the error of a value requires a decoder, such as -s value=json",
    ),
    (
        "consume orders -s value=avro",
        2,
        "kcli: value: avro needs a schema: use --schema-registry URL, or --schema-file FILE",
    ),
    (
        "consume orders -s value=json --columns id --output csv",
        2,
        "kcli: --columns: 'id' is not a valid column; use time, value, value:hex, value:base64, key, key:hex, "
        "key:base64, value:error, key:error, headers, topic, partition, offset, timestamp, value.PATH, "
        "key.PATH or headers.NAME",
    ),
    (
        "consume orders -s value=json --columns offset --output jsonl",
        2,
        "kcli: --columns requires --output table, csv or tsv",
    ),
    (
        "produce orders -s value=json --schema-id 3",
        2,
        "kcli: --schema-id for the value requires a format with a schema, such as -s value=avro",
    ),
    ("produce orders --register", 2, "kcli: --register requires --schema-file, the schema to register"),
    (
        "consume orders -f %y",
        2,
        (
            "kcli: -f: '%y' is not a valid verb; use %s %S %R %k %K %h %t %p %o %T %% %{time} %{value} "
            "%{value:hex} %{value:base64} %{key} %{key:hex} %{key:base64} %{value:error} %{key:error} %{headers} "
            "%{topic} %{partition} %{offset} %{timestamp} %{value.PATH} %{key.PATH} %{headers.NAME}"
        ),
    ),
    ("consume orders -f %p --output json", 2, "kcli: -f cannot be combined with --output json; it is for raw output"),
    ("consume orders -D '\\q'", 2, "kcli: -D: '\\q' is not a valid escape; use \\n \\r \\t \\0 \\xNN or \\\\"),
    (
        "consume orders --grep '('",
        2,
        "kcli: --grep: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0",
    ),
    ("consume orders --header x -e", 2, "kcli: --header: 'x' is not valid; use NAME=REGEX"),
    (
        "consume orders --isolation-level comitted",
        2,
        "kcli: --isolation-level: 'comitted' is not valid; use read_uncommitted or read_committed",
    ),
    (
        "consume orders --group g -o 100",
        2,
        (
            "kcli: -o 100 cannot be combined with --group: a member starts at the committed offsets; use -o "
            "start or -o end for partitions without one"
        ),
    ),
    (
        "consume orders --group g --assignor fair",
        2,
        "kcli: --assignor: 'fair' is not a known assignor; use one of range, roundrobin, sticky, cooperative-sticky",
    ),
    ("consume orders --no-commit", 2, "kcli: --no-commit requires --group"),
    ("consume orders --group ''", 2, "kcli: --group: the group name must not be empty"),
    ("consume orders --group ' '", 2, "kcli: --group: the group name must not be empty"),
    ("consume orders --group g --instance-id ''", 2, "kcli: --instance-id: the id must not be empty"),
    ("consume orders --group g --instance-id ' '", 2, "kcli: --instance-id: the id must not be empty"),
    ("consume orders --share ' '", 2, "kcli: --share: the group name must not be empty"),
    ("consume orders --share g --ack ''", 2, "kcli: --ack: '' is not valid; use accept, release or reject"),
    ("consume --topics ''", 2, "kcli: --topics: the regular expression must not be empty: no topic has an empty name"),
    ("consume orders --checkpoint ''", 2, "kcli: --checkpoint: the path must not be empty"),
    ("consume orders --group g --protocol new", 2, "kcli: --protocol: 'new' is not valid; use classic or consumer"),
    # group
    (
        "group delete --match ''",
        2,
        "kcli: --match: the regular expression must not be empty: it would match every name",
    ),
    ("offsets copy billing --to-group ' '", 2, "kcli: --to-group: the group name must not be empty"),
    ("group explain billing --fail-on bad", 2, "kcli: --fail-on: 'bad' is not valid; use problem, warning or note"),
    ("group lag", 2, "kcli: select groups in exactly one form: group names, --all, or --match REGEX"),
    ("group lag gone", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    ("group lag billing --all", 2, "kcli: select groups in exactly one form: group names, --all, or --match REGEX"),
    (
        "group lag --match '('",
        2,
        "kcli: --match: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0",
    ),
    (
        "group lag billing --fail-if 'lag>'",
        2,
        "kcli: --fail-if: 'lag>' is not a valid condition: expected a value after 'lag>', but the text ends",
    ),
    (
        "group lag billing --fail-if 'foo>1'",
        2,
        (
            "kcli: --fail-if: 'foo>1' is not a valid condition: 'foo' is unknown; use one of lag, max-lag, "
            "members, partitions, unknown, uncommitted, beyond-end, age, time-lag, state, type"
        ),
    ),
    (
        "group lag billing --fail-if 'lag>-1'",
        2,
        "kcli: --fail-if: 'lag>-1' is not a valid condition: lag takes a whole number, got '-1'",
    ),
    ("group describe billing --sort size", 2, "kcli: --sort: 'size' is not valid; use topic, lag, time-lag or member"),
    ("group describe billing --members --state", 2, "kcli: --members and --state cannot be combined"),
    (
        "group list --state Foo",
        2,
        (
            "kcli: --state: 'Foo' is not valid; use Stable, Empty, PreparingRebalance, CompletingRebalance, "
            "Dead, Assigning, Reconciling, NotReady"
        ),
    ),
    (
        "group list -b é..b:9092 --timeout 0.5",
        5,
        (
            "kcli: no broker answered at é..b:9092: the host name é..b cannot be resolved: Name or service not known "
            "(while it waited for metadata)"
        ),
    ),
    # An empty value, such as "$CONFIG" of a script, is not an option that was not given.
    ("group list --command-config ''", 2, "kcli: --command-config: the path must not be empty"),
    ("group list --output ''", 2, "kcli: --output: '' is not valid; use table, json, jsonl, csv or tsv"),
    ("profile list --output ''", 2, "kcli: --output: '' is not valid; use table, json, jsonl, csv or tsv"),
    (
        "group list -X ''",
        2,
        "kcli: -X: value 1 is not valid; write key=value (it is not shown: it may contain a password)",
    ),
    ("group list --type foo", 2, "kcli: --type: 'foo' is not valid; use classic, consumer, share, streams"),
    (
        "group remove-members billing",
        2,
        "kcli: select members with --member, --instance-id and --client-id, or all of them with --all",
    ),
    (
        "group remove-members billing --member x --all",
        2,
        "kcli: select members with --member, --instance-id and --client-id, or all of them with --all",
    ),
    ("group wait billing", 2, "kcli: --until is missing (see kcli group wait --help)"),
    (
        "group wait billing --until foo",
        2,
        (
            "kcli: --until: use empty, stable, or a condition such as lag<=0; 'foo' is not a valid "
            "condition: 'foo' is unknown; use one of lag, max-lag, members, partitions, unknown, "
            "uncommitted, beyond-end, age, time-lag, state, type"
        ),
    ),
    ("group watch billing --interval 0", 2, "kcli: --interval: 0 is not valid; use a number of seconds above 0"),
    ("group explain gone", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    # offsets
    ("offsets undo nope --last", 2, "kcli: give either the ID of a snapshot (see --list), or --last"),
    ("offsets reset billing --to-group-of gone --topic orders", 3, "kcli: group gone has no committed offsets"),
    ("offsets export billing --topic gone", 3, "kcli: the selection has no committed offsets in gone"),
    ("offsets show gone", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    ("offsets export gone", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    (
        "offsets reset billing",
        2,
        (
            "kcli: give exactly one target: --to-earliest, --to-latest, --to-current, --to-offset, "
            "--shift-by, --to-datetime, --by-duration, --from-file, --to-group-of"
        ),
    ),
    (
        "offsets reset billing --to-earliest --to-latest --topic orders",
        2,
        "kcli: give exactly one target; got --to-earliest and --to-latest",
    ),
    (
        "offsets reset billing --to-offset 1h --topic orders",
        2,
        "kcli: --to-offset: '1h' is not valid; a time in the past begins with '-' or '@-', like @-1h",
    ),
    (
        "offsets reset billing --to-datetime yesterday --topic orders",
        2,
        (
            "kcli: --to-datetime: 'yesterday' is not a valid time; use seconds (9 or 10 digits) or "
            "milliseconds (12 or 13 digits) since 1970, 2024-01-31, 2024-01-31T10:00[:00[.000]] with Z or +02:00 "
            "(none: UTC), or -1h30m"
        ),
    ),
    (
        "offsets reset billing --by-duration 1x --topic orders",
        2,
        (
            "kcli: --by-duration: '1x' is not a valid duration; write it like 1h30m, 90s, 7d, or in ISO's "
            "form PT1H30M, P7D"
        ),
    ),
    (
        "offsets reset billing --to-latest",
        2,
        "kcli: give either --topic TOPIC[:0,1,2] or --all-topics (all topics in which the group has committed)",
    ),
    (
        "offsets reset billing --to-latest --topic :1",
        2,
        "kcli: ':1' is not a valid topic; write it like orders or orders:0,2,5-7",
    ),
    ("offsets apply /nowhere.json", 2, "kcli: cannot read /nowhere.json: No such file or directory"),
    ("offsets apply empty.json", 2, "kcli: empty.json is empty"),
    ("offsets apply bad.json", 2, "kcli: bad.json, line 1, column 11: not JSON: Expecting ',' delimiter"),
    ("offsets apply bad.csv --group billing", 2, "kcli: bad.csv, line 1: offset: 'x' is not valid"),
    (
        "offsets copy billing --to-group billing --all-topics",
        2,
        "kcli: there is no option --all-topics; did you mean --topic? (see kcli offsets copy --help)",
    ),
    ("offsets copy gone --to-group new", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    ("offsets delete billing --topic gone", 3, "kcli: group billing has no committed offsets in gone"),
    ("offsets undo", 2, "kcli: give either the ID of a snapshot (see --list), or --last"),
    # assignor
    ("assignor show -s range -m a=orders -m a=bills", 2, "kcli: --member a=bills: member a is given twice"),
    ("assignor show -s rang -m a", 2, "kcli: --strategy: 'rang' is not a known assignor; did you mean range?"),
    ("assignor diff billing --to range --remove w", 3, "kcli: there is no member w; the group is empty"),
    ("assignor show -s range", 2, "kcli: the members are missing; give --member NAME=TOPIC,TOPIC for each"),
    (
        "assignor show -s range -m a=orders@",
        2,
        "kcli: --member: 'a=orders@' is not valid; write NAME[=TOPIC,TOPIC...[@RACK][:INSTANCE]]",
    ),
    (
        "assignor diff",
        2,
        "kcli: GROUP is missing; give a group of the cluster, or describe one with --member NAME=TOPIC,TOPIC",
    ),
    ("assignor diff gone", 3, "kcli: GROUP_ID_NOT_FOUND: there is no such group (group gone)"),
    (
        "assignor diff billing",
        4,
        "kcli: group billing has no members and therefore no assignor; give one with --to NAME",
    ),
    (
        "assignor diff billing --members 3",
        2,
        "kcli: --members: '3' is not valid; use +N to add N members or -N to remove N",
    ),
    # broker
    (
        "broker run --ephemeral --data-dir x --port 0",
        2,
        "kcli: --data-dir and --ephemeral cannot be combined; choose one",
    ),
    (
        "broker run --data-dir empty.json --port 0",
        1,
        "kcli: the data directory empty.json cannot be used: Not a directory",
    ),
    ("broker run --port 99999", 2, "kcli: --port: 99999 is out of range; use 0 to 65535 (see kcli broker run --help)"),
    ("broker run -c foo=1 --port 0", 2, "kcli: -c foo is not a broker setting"),
    (
        "broker run -c node.id=x --port 0",
        2,
        "kcli: -c node.id: the value is not valid; use a whole number from 0 to 2147483647",
    ),
    (
        "broker run -c num.partitions=x --port 0",
        2,
        "kcli: -c num.partitions: the value is not valid; use a whole number from 1 to 2147483647",
    ),
    ("broker run --topic a:x --port 0", 2, "kcli: --topic: 'a:x' is not valid; use NAME or NAME:PARTITIONS"),
    # spark
    ("spark sql --file nofile.sql", 2, "kcli: cannot read nofile.sql: No such file or directory"),
    ("spark load out", 2, "kcli: no topic to write to; use --topic TOPIC"),
    (
        "spark load out -t t --value raw",
        2,
        "kcli: --value is for --format json and csv; parquet has the type of the values",
    ),
    (
        "schema check s --schema-file f.avsc --against old",
        2,
        "kcli: --against: 'old' is not a version; use a number from 1, latest or all",
    ),
    ("spark load out -t t --format csv --value hex", 2, "kcli: --value: 'hex' is not valid; use raw or string"),
    ("spark load out -t t --partitions all", 2, "kcli: --partitions: 'all' is not valid; use keep or by-key"),
    ("spark load out -t t --append --resume", 2, "kcli: --append and --resume cannot be combined"),
    ("spark export orders", 2, "kcli: no output folder; use --to DIR"),
    ("spark export orders --to out --format ''", 2, "kcli: --format must not be empty"),
    ("spark export orders --to out --once --checkpoint ''", 2, "kcli: --checkpoint must not be empty"),
    ("spark export orders --to out --once --commit-group ' '", 2, "kcli: --commit-group must not be empty"),
    (
        "spark export orders --to out --from bad",
        2,
        (
            "kcli: --from: 'bad' is not valid; use one of earliest, latest, group:GROUP, 100, +100, -100, a time "
            "(2024-01-31T10:00:00Z, -1h30m), JSON"
        ),
    ),
    (
        "spark throughput orders --window soon",
        2,
        "kcli: --window: 'soon' is not valid; use a duration of at least 1ms, such as 30s or 1m30s",
    ),
    ("spark skew orders --by value", 2, "kcli: --by: 'value' is not valid; use key, partition or topic"),
    # Spark would refuse them after its start, by "An error occurred while calling o202.limit. Trace:".
    (
        "spark skew orders --top 99999999999",
        2,
        "kcli: --top: 99999999999 is out of range; use 1 to 2147483646 (see kcli spark skew --help)",
    ),
    (
        "spark sql 'select 1' --show 99999999999",
        2,
        "kcli: --show: 99999999999 is out of range; use 0 to 2147483646 (see kcli spark sql --help)",
    ),
    (
        "spark gaps orders --min 9999999999999999999",
        2,
        "kcli: --min: 9999999999999999999 is out of range; use 1 to 9223372036854775807 (see kcli spark gaps --help)",
    ),
    ("spark skew a,b", 2, "kcli: topic 'a,b' is not valid; separate topics by spaces: a b"),
    ("spark group-offsets --groups ,", 2, "kcli: --groups must not be empty"),
]


@pytest.mark.parametrize(("command", "status", "line"), ERRORS, ids=[command for command, _, _ in ERRORS])
def test_an_error_is_one_line_with_its_cause_and_remedy(
    address: str, folder: Path, command: str, status: int, line: str
) -> None:
    environ = {"KCLI_BOOTSTRAP_SERVER": address, "KCLI_TIMEOUT": "20", "HOME": str(folder)}
    result = run_kcli(*shlex.split(command), environ=environ)
    assert (result.status, result.err) == (status, line + "\n")


USERS = {"alice": "a password"}


@pytest.fixture(scope="module")
def listeners(address: str) -> Iterator[dict[str, str]]:
    """The address of a broker by the protocol of its listener."""
    with (
        EmbeddedBroker(security="SASL_PLAINTEXT", users=USERS) as sasl,
        EmbeddedBroker(security="SSL") as tls,
        EmbeddedBroker(security="SASL_SSL", users=USERS) as both,
    ):
        named = {"SSL": tls, "SASL_PLAINTEXT": sasl, "SASL_SSL": both}
        yield {"PLAINTEXT": address, **{name: broker.address for name, broker in named.items()}}


LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "a password"}
NO_SASL = "the listener does not use SASL; use the port of a SASL listener, or set security.protocol="
NO_TRUST = (
    "TLS failed: the issuer 'CN=kcli embedded broker CA' of the broker's certificate is not trusted; "
    "set ssl.truststore.location to a store with its certificate"
)
NO_TLS = (
    "TLS failed: this is a listener without TLS; use its TLS port, or set security.protocol to PLAINTEXT or "
    "SASL_PLAINTEXT"
)
AT_FIRST_REQUEST = "at the first request, as listeners with SASL do; set security.protocol="
SCRAM = {**LOGIN, "sasl.mechanism": "SCRAM-SHA-512"}

AUTHENTICATION_ERRORS: list[tuple[str, str, dict[str, str], str]] = [
    ("PLAINTEXT", "SASL_PLAINTEXT", LOGIN, f"{NO_SASL}PLAINTEXT"),
    ("PLAINTEXT", "SSL", {}, NO_TLS),
    ("PLAINTEXT", "SASL_SSL", LOGIN, NO_TLS),
    ("SSL", "PLAINTEXT", {}, "the listener expects TLS; set security.protocol=SSL or SASL_SSL"),
    ("SSL", "SASL_PLAINTEXT", LOGIN, "the listener expects TLS; set security.protocol=SASL_SSL"),
    ("SSL", "SSL", {}, NO_TRUST),
    ("SSL", "SASL_SSL", {**LOGIN, "trusted": "yes"}, f"{NO_SASL}SSL"),
    ("SASL_PLAINTEXT", "PLAINTEXT", {}, f"{AT_FIRST_REQUEST}SASL_PLAINTEXT"),
    (
        "SASL_PLAINTEXT",
        "SASL_PLAINTEXT",
        {**LOGIN, "sasl.password": "wrong"},
        "SASL PLAIN: Authentication failed: Invalid username or password; check username and password",
    ),
    (
        "SASL_PLAINTEXT",
        "SASL_PLAINTEXT",
        {**SCRAM, "sasl.username": "bob"},
        "SASL SCRAM-SHA-512: Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-512; check username and password, and that the user has a SCRAM-SHA-512 credential",
    ),
    (
        "SASL_PLAINTEXT",
        "SASL_PLAINTEXT",
        {"sasl.mechanism": "AWS_MSK_IAM"},
        "the broker does not offer the SASL mechanism AWS_MSK_IAM; set sasl.mechanism to one that it offers: "
        "SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER",
    ),
    ("SASL_SSL", "SSL", {"trusted": "yes"}, f"{AT_FIRST_REQUEST}SASL_SSL"),
    ("SASL_SSL", "SASL_SSL", LOGIN, NO_TRUST),
]


@pytest.mark.parametrize(("listener", "protocol", "properties", "ending"), AUTHENTICATION_ERRORS)
def test_a_failed_authentication_ends_a_command_at_once_with_cause_and_cure(
    listeners: dict[str, str], tmp_path: Path, listener: str, protocol: str, properties: dict[str, str], ending: str
) -> None:
    given = {"security.protocol": protocol, **properties}
    if given.pop("trusted", None):
        from kcli.broker.security.own_certificates import authority

        given["ssl.truststore.certificates"] = authority().certificate_pem.strip().replace("\n", "\\n")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    address = listeners[listener]
    result = run_kcli("topic", "list", "-b", address, "--command-config", str(file), "--timeout", "60")
    assert result.status == 4
    assert result.err.startswith(f"kcli: {address}: ")
    assert result.err.endswith(f"{ending}\n")
    assert result.err.count("\n") == 1
    assert USERS["alice"] not in result.err
