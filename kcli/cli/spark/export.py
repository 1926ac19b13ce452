"""`kcli spark export`: topics as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.batch_plan import OffsetMap
    from kcli.spark.pipelines.export import Export, ExportResult
    from kcli.spark.pipelines.source import KafkaSource


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    to: Annotated[str, Option("--to", metavar="DIR", help="Where the files go.")] = "",
    format: Annotated[
        str, Option("--format", metavar="FORMAT", help="parquet, orc, json, csv, or any that Spark has there.")
    ] = "parquet",
    once: Annotated[
        bool, Option("--once", help="Write what is new since the last time, then end: again to go on.")
    ] = False,
    follow: Annotated[bool, Option("--follow", help="Go on writing what comes, until Ctrl-C.")] = False,
    every: Annotated[str | None, Option("--every", metavar="DURATION", help="How often --follow writes. [5s]")] = None,
    checkpoint: Annotated[
        str | None, Option("--checkpoint", metavar="DIR", help="Where --once and --follow are. [DIR/_checkpoint]")
    ] = None,
    columns: Annotated[
        str | None, Option("--columns", metavar="NAME,...", help="Only these columns, see above.")
    ] = None,
    value: Annotated[
        str | None,
        Option("--value", metavar="raw|string|json[:DDL]", help="Values as bytes, text, or columns. [by format]"),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        Option("--partition-by", metavar="NAME,...", help="Directories by columns; dt and hour are UTC's."),
    ] = None,
    compression: Annotated[
        str | None, Option("--compression", metavar="CODEC", help="zstd, gzip, snappy, none... [the format's]")
    ] = None,
    mode: Annotated[
        str | None,
        Option("--mode", metavar="error|append|overwrite|ignore", help="If there are files already. [error]"),
    ] = None,
    files: Annotated[
        int | None, Option("--files", metavar="N", min=1, help="About so many files each time. [as partitions]")
    ] = None,
    commit_group: Annotated[
        str | None, Option("--commit-group", metavar="GROUP", help="A group that shows how far the export is.")
    ] = None,
) -> int:
    """Write topics as files, by Spark.

    Columns are key, value, topic, partition, offset, timestamp, timestampType and headers; on demand also key_size,
    value_size, headers_size, leader_epoch, producer_id, producer_epoch, sequence, base_offset, compression and
    is_transactional. --value json finds out the columns of the values from the first of them, json:DDL is told them:
    'json:id BIGINT, name STRING'; a value that is not like that is null, and its text stands in value_error.

    Where keys and values are text, as csv, json and text have them, bytes that are no UTF-8 become U+FFFD:
    not_utf8 counts such records. --value raw keeps the bytes, in csv, json and text as base64; json always has the
    values of headers so. In csv a null is nothing, and an empty text "".

    Without --once or --follow it writes the records of this moment. --once and --follow remember in the checkpoint how
    far they are, and write each record exactly once, whatever ends them; --from is for their first start. Ctrl-C ends
    with status 130, and the next run goes on.
    """

    wishes = Wishes(
        to=to,
        format=format,
        once=once,
        follow=follow,
        every=every,
        checkpoint=checkpoint,
        columns=columns,
        value=value,
        partition_by=partition_by or (),
        compression=compression,
        mode=mode,
        files=files,
        commit_group=commit_group,
    )
    return export(job, job.source(topic, stream=wishes.is_stream), wishes)


EVERY_S = 5.0
"""Spark's own default is no pause at all, and asks brokers all the time."""


class Wishes(NamedTuple):
    """The options of the command, as they were given."""

    to: str
    format: str = "parquet"
    once: bool = False
    follow: bool = False
    every: str | None = None
    checkpoint: str | None = None
    columns: str | None = None
    value: str | None = None
    partition_by: Sequence[str] = ()
    compression: str | None = None
    mode: str | None = None
    files: int | None = None
    commit_group: str | None = None

    @property
    def is_stream(self) -> bool:
        return self.once or self.follow


def check_wishes(wishes: Wishes) -> Export:
    """The export that is meant. ConfigError for options that are malformed, or not for each other."""
    from kcli.spark.pipelines.export import MODES, Export
    from kcli.spark.pipelines.shape import FILES, parse_shape

    if not wishes.to:
        raise ConfigError("say where to: --to DIR")
    if wishes.once and wishes.follow:
        raise ConfigError("--once ends when all is written, --follow never: say one of them")
    for given, name in ((wishes.checkpoint, "--checkpoint"), (wishes.commit_group, "--commit-group")):
        if given is not None and not wishes.is_stream:
            raise ConfigError(f"{name} is for --once and --follow, which remember how far they are")
    if wishes.every is not None and not wishes.follow:
        raise ConfigError("--every is for --follow")
    if wishes.mode is not None and wishes.is_stream:
        raise ConfigError("--mode is for plain batches: --once and --follow add to what they have written")
    if wishes.mode is not None:
        check_choice("--mode", wishes.mode, MODES)
    form = wishes.format.lower() if wishes.format.lower() in FILES else wishes.format  # else it may be a class
    shape = parse_shape(form, wishes.columns, wishes.value, wishes.partition_by)
    if shape.value == "json" and shape.schema is None and wishes.is_stream:
        raise ConfigError("--once and --follow need the DDL of JSON values, so that all runs write the same columns")
    return Export(
        wishes.to,
        shape,
        wishes.compression,
        wishes.mode or "error",
        wishes.files,
        wishes.checkpoint,
        wishes.commit_group,
    )


def export(job: Job, source: KafkaSource, wishes: Wishes) -> int:
    """Carry the command out; an exit status."""
    from kcli.cli.spark.session import spark_session
    from kcli.cli.spark.survey import show_survey
    from kcli.text import parse_duration_option

    wanted = check_wishes(wishes)
    every_ms = EVERY_S * 1000 if wishes.every is None else parse_duration_option("--every", wishes.every, at_least=0)
    _refuse_to_mix(job, wanted, wishes)
    if job.dry_run:
        return show_survey(job, _look(source, wanted, wishes), _told(wanted, wishes))
    started_ms = job.env.clock.now_ms()
    with spark_session(job.env, job.common, job.cluster, look=lambda: _look(source, wanted, wishes)) as spark:
        if wishes.is_stream:
            done = _stream(job, spark, source, wanted, every_ms / 1000 if wishes.follow else None)
        else:
            done = _batch(job, spark, source, wanted)
        _tell(job, wanted, done, (job.env.clock.now_ms() - started_ms) / 1000)
    return exit_status.DONE


def _look(source: KafkaSource, wanted: Export, wishes: Wishes) -> Survey:
    from kcli.cli.spark.survey import survey
    from kcli.spark.pipelines.export import export_source
    from kcli.spark.pipelines.shape import columns_to_read

    columns = columns_to_read(wanted.shape, source.where)
    resumed = _resumed(wanted) if wishes.is_stream else None
    return survey(export_source(source, wanted), "records", columns, stream=wishes.is_stream, resumed=resumed)


def _resumed(wanted: Export) -> OffsetMap | None:
    """Where the checkpoint says that the stream goes on, if it can be read here: --from is for the first start."""
    from kcli.spark.stream_checkpoint import last_position, local_path

    folder = local_path(wanted.checkpoint_location)
    position = None if folder is None else last_position(folder)
    return None if position is None else position.offsets


def _refuse_to_mix(job: Job, wanted: Export, wishes: Wishes) -> None:
    """What Spark would refuse as well, seconds later or batches later; and what would lose records without a word: a
    file sink passes over batches whose numbers it has had from another checkpoint, its readers pass over files it has
    not written, and it fails for good at the first compaction of a list that lacks earlier batches.
    """
    from kcli.spark.pipelines.shape import FILES
    from kcli.spark.stream_checkpoint import local_path, newest_batch

    to = local_path(wanted.to)
    if to is None or job.cluster.remote is not None or not job.cluster.master.startswith("local"):
        return
    written = newest_batch(to / "_spark_metadata")
    if not wishes.is_stream and wanted.mode == "error" and to.exists():
        raise Refused(f"{wanted.to} is there already: choose another --to, or --mode append or overwrite")
    if not wishes.is_stream and wanted.mode == "append" and written >= 0:
        raise Refused(f"{wanted.to} is of --once or --follow, whose readers would not see what is added: another --to")
    checkpoint = local_path(wanted.checkpoint_location)
    if not wishes.is_stream or checkpoint is None:
        return
    planned = newest_batch(checkpoint / "offsets")
    if written > planned:
        raise Refused(
            f"{wanted.to} was written with another checkpoint than {wanted.checkpoint_location}, so that Spark would "
            "leave records out: choose that --checkpoint, or another --to"
        )
    if wanted.shape.format not in FILES:
        return
    if newest_batch(checkpoint / "commits") > written:
        raise Refused(
            f"{wanted.to} does not have the batches that {wanted.checkpoint_location} has written: choose the folder "
            "they are in, or another --checkpoint and an empty --to"
        )
    if planned < 0 and to.is_dir() and any(map(_is_data, to.iterdir())):
        raise Refused(
            f"{wanted.to} has files already, which Spark's readers would not see beside a stream's: another --to"
        )


def _is_data(path: Path) -> bool:
    """Readers of files pass over the others."""
    return not path.name.startswith(("_", "."))


def _batch(job: Job, spark: SparkSession, source: KafkaSource, wanted: Export) -> ExportResult:
    from kcli.spark.pipelines.export import export_batch
    from kcli.spark.pipelines.shape import find_schema

    shape = wanted.shape
    if shape.value == "json" and shape.schema is None:
        shape = shape._replace(schema=find_schema(spark, source))
        job.env.say(f"the values look like json:{shape.schema}")
    return export_batch(spark, source, wanted._replace(shape=shape))


def _stream(job: Job, spark: SparkSession, source: KafkaSource, wanted: Export, every_s: float | None) -> ExportResult:
    from kcli.spark.pipelines.export import export_stream

    last: ExportResult | None = None

    def on_progress(now: ExportResult) -> None:
        nonlocal last
        last = now

    try:
        return export_stream(spark, source, wanted, every_s=every_s, on_progress=on_progress)
    except KeyboardInterrupt:
        if last is not None:
            job.env.say(f"{last.records:,} records written to {wanted.to}; the next run goes on there")
            _tell_not_utf8(job, last)
        raise


def _tell(job: Job, wanted: Export, done: ExportResult, seconds: float) -> None:
    from kcli.cli.spark.results import show_result
    from kcli.spark.pipelines.result import Result

    row: dict[str, Any] = {"to": wanted.to, "format": wanted.shape.format, "records": done.records}
    row["seconds"] = round(seconds, 1)
    columns = list(row)
    row["not_utf8"] = done.not_utf8
    if done.ends is not None:
        row["ends"] = done.ends
    show_result(job, "spark.export", Result(columns, [row]))
    _tell_not_utf8(job, done)


def _tell_not_utf8(job: Job, done: ExportResult) -> None:
    if done.not_utf8:
        job.env.say(f"records with bytes that are no UTF-8: {done.not_utf8:,}; U+FFFD is there, --value raw keeps them")


def _told(wanted: Export, wishes: Wishes) -> dict[str, str]:
    """What a dry run tells besides what will be read."""
    told = {"to": wanted.to, "format": wanted.shape.format}
    if wishes.is_stream:
        told["checkpoint"] = wanted.checkpoint_location
    else:
        told["mode"] = wanted.mode
    return told
