"""`kcli spark sql`: topics, batches, groups and their lag as tables."""

from __future__ import annotations

from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import Job


def run(
    env: Environment,
    common: Common,
    job: Job,
    statement: Annotated[str | None, Argument(metavar="[STATEMENT]", help="SQL; several with ; between.")] = None,
    file: Annotated[
        str | None, Option("--file", "-f", metavar="FILE", help="Statements from a file; - is standard input.")
    ] = None,
    show: Annotated[int, Option("--show", metavar="N", min=0, help="Most rows of each result; 0: all.")] = 1000,
) -> int:
    """Carry out SQL in which topics are tables.

    topic('orders') has the records, batches('orders') a row for each record batch from its header alone, which is much
    faster, gaps('orders') the offsets without records. All take several topics, partitions as in 'orders:0,1', and a
    span: topic('orders', from => '-1h', until => 'latest'); else that of --from and --until. The tables lag, groups,
    members, offsets and commits need no topic. Columns are those of the views of the same names; topic('orders') also
    has headers, key_size, value_size, leader_epoch, producer_id and others when they are named. Keys and values are
    bytes: CAST(value AS STRING).

    Only the columns that a statement names are read, and only the partitions, offsets and times that its WHERE allows.
    Each statement reads what is there when it begins, and for as long as it runs nothing newer; a temporary view that
    one has made from topics stays as it was then.

    A statement that only does something shows nothing. With -o FORMAT:FILE, the file has the last result.
    """
    from kcli.cli.spark.statements import answer, read_statements

    return answer(job, read_statements(env, statement, file), show or None)
