"""`kcli spark export`: topics as files."""

from __future__ import annotations

from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.options import Job, Topics


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
    from kcli.cli.spark.exporting import Wishes, export

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
