"""The manual page kcli-spark(7): recipes for Spark, decoding, clusters, security, and every option of the source."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.cli.docs.page import Block, Item, Page, paragraphs, see_also
from kcli.settings import Setting, format_value
from kcli.spark.option_table import CONNECTORS, OURS

SECTIONS = {
    "DESCRIPTION": """\
kcli reads and writes Kafka in Apache Spark without a connector jar: as the commands kcli spark, and as the format
"kcli" in programs. It needs Java 17 and the extra of the package:

\b
pip install 'kcli-kafka[spark,schema]'
kcli spark doctor

The extra schema is for Avro, Protobuf and msgpack only. Lines with --master local[*], the default, start Spark in
this machine.""",
    "TOPICS TO FILES": """\
All present records as Parquet, whose files hold the bytes of the topic:

\b
kcli spark export orders --to lake/orders

Only records that are new since the last run, each exactly once, also after an interruption; then without end:

\b
kcli spark export orders --to lake/orders --once
kcli spark export orders --to lake/orders --follow --every 1m --partition-by dt,hour --commit-group lake

The fields of JSON values as columns, inferred or chosen, and folders of a field:

\b
kcli spark export orders --to lake/orders --value json --flatten
kcli spark export orders --to lake/orders --value 'json:id BIGINT, customer STRUCT<country: STRING>' \\
  --fields id,customer.country=country --partition-by dt,value.customer.country

Values that do not decode go to a folder of their own, unchanged, from where kcli spark load can write them back:

\b
kcli spark export orders --to lake/orders --value json --dead-letter lake/orders-dead
kcli spark load lake/orders-dead --topic orders-repaired

The newest record of each key, as compaction keeps it, in files of about 256 MB:

\b
kcli spark export customers --to lake/customers --dedup key --target-file-size 256MB

A stream writes at least one file in each batch. Stop it, and replace its small files:

\b
kcli spark compact lake/orders --target-file-size 256MB --dry-run
kcli spark compact lake/orders --target-file-size 256MB""",
    "FILES TO TOPICS": """\
The inverse of an export: keys, values, headers, timestamps, nulls, order and partitions are kept. The topic must exist
and be empty; --resume continues after an interruption:

\b
kcli topic create orders-restored --partitions 12 --config retention.ms=-1
kcli spark load lake/orders --topic orders-restored --dry-run
kcli spark load lake/orders --topic orders-restored
kcli spark load lake/orders --topic orders-restored --resume

Records of more than 1 MiB need -X max.request.size=BYTES. Spark has no times after the year 294246: a later timestamp,
such as one that a producer wrote in nanoseconds, becomes the last one.

To compare the two topics:

\b
kcli spark compare orders orders-restored --fail-if different""",
    "WRITING IN PROGRAMS": """\
The format "kcli" is a sink for batches and streams:

\b
from kcli.spark import register
register(spark)
kafka = {"kafka.bootstrap.servers": "localhost:9092"}
frame.write.format("kcli").options(**kafka).mode("append").save("orders")
frame.writeStream.format("kcli").options(**kafka, topic="orders", checkpointLocation="checkpoint").start()

Columns: value and key (string or binary), headers (array of struct of key string, value binary), topic, partition,
timestamp; all but value are optional. The option topic takes precedence over the column. offset, timestampType and
other columns of a read are ignored; any other column, and a wrong type, is an error before a record is sent.

Records are written with acks=all by idempotent producers, so no row of a successful query is lost. There are no
transactions. A task that is repeated (after a failure, a lost executor, or by speculation) stores again what its
earlier attempt has stored. A stream whose driver ends before a batch is committed writes that batch again at its next
start. The command kcli spark load counts what a partition has received, and stores each record once.

register is not needed where kcli is installed on the driver and the executors: Spark finds the module pyspark_kcli.
commitGroup, and the redaction of all passwords in plans, need the call.""",
    "KCLI OR THE CONNECTOR?": """\
The format "kcli" takes the options of spark-sql-kafka-0-10 and gives the same rows. The differences:

\b
                          "kcli"                               "kafka" (spark-sql-kafka-0-10)
install                   pip                                  jars of the same Spark and Scala
unknown options           an error                             ignored
a DataFrame, a view       its offsets are fixed at its first   latest is found again by each action
                          action: load it again for more
first batch of a stream   empty; Trigger.Once reads nothing    the first records
                          at first, AvailableNow all
foreachBatch              batch 0 has no rows                  batch 0 has rows
outputMode("update")      refused by PySpark; use append, or   yes
                          foreachBatch
continuous, realTime      refused by PySpark                   yes
batch write               needs .mode("append")                append is the default
CREATE TABLE ... USING    refused: use a temporary view        yes
a void value column       written as nulls (tombstones)        refused
a timestamp column        is the time of the record            ignored
further columns           an error                             ignored
acks                      all                                  any
kafka.partitioner.class   refused: null key or murmur2         any class
start, relative           group:NAME, -1h                      no
commits to a group        commitGroup                          no
progress metrics          source_metrics(progress)             in the progress
small ranges              share a task above 32                a task each
maxRecordsPerPartition    batches and streams                  streams
patterns                  without &&, \\p{}, ++, named groups  all of Java
Kerberos tokens           no                                   yes

With failOnDataLoss=false both leave out lost offsets. A batch never reads outside the range that it was asked for; a
stream whose topic was recreated or truncated starts again at the log start.

In SQL, a temporary view has the options of a read. CREATE TABLE is refused, because Spark does not pass the options of
a table to a source in Python:

\b
CREATE TEMPORARY VIEW orders USING kcli
  OPTIONS (`kafka.bootstrap.servers` 'localhost:9092', subscribe 'orders');
SELECT * FROM orders;""",
    "MONITORING": """\
Without a terminal, kcli spark export and load report a line a minute on standard error. --metrics keeps a file for the
textfile collector of Prometheus's node exporter:

\b
kcli spark export orders --to lake/orders --follow --metrics /var/lib/node_exporter/orders.prom

Metrics: kcli_spark_running, kcli_spark_records, kcli_spark_records_per_second, kcli_spark_offsets_behind (streams),
kcli_spark_tasks and kcli_spark_tasks_completed (batches), kcli_spark_update_timestamp_seconds,
kcli_spark_last_success_timestamp_seconds; the label command is export or load. One file per command that runs.

In a program, source_metrics returns the offsets behind of each source of a stream, under the names of Spark's Kafka
connector. In the progress itself, metrics of a source in Python is always empty:

\b
from kcli.spark import source_metrics
source_metrics(query.lastProgress)""",
    "AVRO, PROTOBUF, JSON SCHEMA": """\
With a schema registry, values are typed columns. The columns are those of the newest schema of the subject TOPIC-value
when the query starts; records of older schemas are resolved to it (Avro by names, aliases and defaults, Protobuf by
field numbers). Fields that this schema does not
have are not written; --value raw keeps all bytes.

\b
kcli spark export orders --to lake/orders --value avro --schema-registry http://registry:8081
kcli spark export orders --to lake/orders --value protobuf --schema-registry http://registry:8081 --flatten --once

A value that does not decode is null. Its column value_error has the reason, value_raw the bytes. Only a registry that
cannot be reached fails the query. A value of json-schema must have the types of its columns; patterns, limits and
required properties of its schema are checked by kcli consume only.

A stream whose columns must not change names the version of the schema. Several topics need the subject. Without a
registry, a file has the schema:

\b
--option value.schema.version=3
--option value.subject=orders-value
--option value.schema.file=orders.avsc

In a program:

\b
from kcli.spark import register
register(spark)
orders = (spark.read.format("kcli")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("value.decode", "avro").option("key.decode", "string")
    .option("schema.registry.url", "http://registry:8081")
    .load("orders"))
orders.select("key", "value.*", "value_error").show()

Decoders without a schema have one column: string, hex and base64 a text, the letters of kcat's pack string a number,
json, msgpack and auto a JSON text. Recursive types, and unions of several types, are JSON text as well. The machines of
the executors need the package protobuf for Protobuf.""",
    "CLUSTERS": """\
kcli ships itself to the workers, which need Python, pyspark, pyarrow and numpy:

\b
kcli spark export orders --to hdfs:///lake/orders --master spark://master:7077
kcli spark export orders --to s3a://lake/orders --remote sc://connect:15002

YARN finds its cluster by HADOOP_CONF_DIR. An archive has the Python of the executors (venv-pack makes it):

\b
HADOOP_CONF_DIR=/etc/hadoop kcli spark export orders --to hdfs:///lake/orders --once --master yarn \\
  --conf spark.archives=python.tar.gz#python --conf spark.pyspark.python=./python/bin/python

On Kubernetes, an image has Spark, Python and these packages; the driver runs where kcli runs, at an address that the
executors reach:

\b
kcli spark export orders --to s3a://lake/orders --once --master k8s://https://kubernetes:6443 \\
  --conf spark.kubernetes.container.image=registry/spark-kcli:4.3.0 --conf spark.kubernetes.namespace=lake \\
  --conf spark.executor.instances=4 --conf spark.driver.host=10.0.0.5

Jobs of your own, with kcli as one file:

\b
kcli spark archive kcli-spark.zip
spark-submit --master yarn --py-files kcli-spark.zip job.py

Local masters, standalone clusters and Spark Connect are tested with each release. The lines for YARN and Kubernetes
follow Spark's documentation, "Running on YARN" and "Running on Kubernetes", and were not run on such a cluster.""",
    "OBJECT STORES AND TABLES": """\
Spark loads further file systems and formats as packages. Their versions belong to that of Spark: see their
documentation.

S3, with the version of the Hadoop jars of PySpark; credentials come from the environment or the machine:

\b
kcli spark export orders --to s3a://lake/orders --once --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0

Delta, and Iceberg, whose --to is a path of its catalog:

\b
kcli spark export orders --format delta --to s3a://lake/orders --once \\
  --conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION \\
  --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \\
  --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
kcli spark export orders --format iceberg --to lake.sales.orders --mode append \\
  --conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION \\
  --conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog \\
  --conf spark.sql.catalog.lake.type=hadoop --conf spark.sql.catalog.lake.warehouse=s3a://lake

kcli spark compact is for files of a local or mounted file system. Tables have OPTIMIZE (Delta) and rewrite_data_files
(Iceberg). These lines were not run with the packages.""",
    "TLS AND SASL": """\
The commands take the client properties of kcli-configuration(7), from -X, a profile or a file, also those of the schema
registry:

\b
kcli spark export orders --to lake/orders --command-config client.properties
kcli spark export orders --to lake/orders -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 \\
  -X sasl.username=lake -X sasl.password=env:KAFKA_PASSWORD -X ssl.truststore.location=/etc/kafka/ca.pem

In a program they are options with the prefix kafka.; those of the registry also without it:

\b
.option("kafka.security.protocol", "SASL_SSL").option("kafka.sasl.mechanism", "SCRAM-SHA-512")
.option("kafka.sasl.username", "lake").option("kafka.sasl.password", "env:KAFKA_PASSWORD")
.option("kafka.ssl.truststore.location", "/etc/kafka/ca.pem")
.option("schema.registry.url", "https://registry:8081").option("basic.auth.user.info", "file:/run/secrets/registry")

Options are sent with each task. env:NAME and file:PATH are resolved by the process that connects, so a password stays
out of plans, of the UI and of event logs; files and certificates must exist on each executor. kafka.config.file names a
properties file there.""",
    "INTERRUPTIONS": """\
--once and --follow continue at their checkpoint, DIR/_checkpoint; each record is written exactly once. With
--dead-letter, a second query with a checkpoint of its own writes the dead letters, so both folders have each record
once; it reads the topic again, from the same offsets.

A batch export that fails or is interrupted leaves no folder. Dead letters of a batch are written after the other
records.

kcli spark compact writes a new file completely, notes it and the files that it replaces in DIR/_compact, and only then
exchanges them. The next run finishes an interrupted exchange. Until then, readers may see records of one exchange
twice, never too few. Spark's readers of a stream's folder see each record once, because Spark's list of files is
replaced by one rename. Stop the streams of a folder first.""",
}


def page() -> Page:
    """Return the manual page."""
    sections = {
        **{title: paragraphs(text) for title, text in SECTIONS.items()},
        "OPTIONS OF SPARK'S CONNECTOR": _options(CONNECTORS.values()),
        "OPTIONS OF KCLI": _options(OURS.values()),
        "SEE ALSO": see_also(
            ("kcli-configuration(7)", "kcli-spark-export(1)", "kcli-spark-compact(1)", "kcli-spark-load(1)")
        ),
    }
    return Page("kcli-spark", "Recipes for Apache Spark, and the options of the data source.", sections, 7)


def _options(options: Iterable[Setting]) -> list[Block]:
    return [Item((("B", option.name), ("R", f" ({option.kind.lower()})")), _meaning(option)) for option in options]


def _meaning(option: Setting) -> str:
    parts = [option.doc]
    if option.choices:
        parts.append(f"Values: {', '.join(map(str, option.choices))}.")
    if option.at_least is not None:
        parts.append(f"At least {format_value(option.at_least)}.")
    return " ".join(parts)
