"""`kcli spark sql`: topics, batches, groups and their lag as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import Job
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.sql_text import Relation, Statement


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

    return answer(job, read_statements(env, statement, file), show or None)


def read_statements(env: Environment, text: str | None, file: str | None) -> list[Statement]:
    """Those of the argument or of the file. ConfigError for both, for none, for a file that cannot be read."""
    from kcli.cli.offsets.files import load_text
    from kcli.spark.pipelines.sql_text import split_statements

    if (text is None) == (file is None):
        raise ConfigError("say what to carry out: either a STATEMENT, or --file FILE")
    found = split_statements(load_text(file, env.stdin_bytes) if file is not None else text or "")
    if not found:
        raise ConfigError("there is no statement")
    return found


def answer(job: Job, statements: Sequence[Statement], most: int | None) -> int:
    """Carry them out and show their results; an exit status."""
    from kcli.cli.spark import session
    from kcli.cli.spark.results import show_result
    from kcli.spark.pipelines import sql

    job.refuse("is not for SQL: say it in the statement, as in topic('orders:0,1')", "--topic-partition")
    general = job.source(None, needs_topics=False)
    if general.where is not None:
        raise ConfigError("--where is not for SQL: say it in the statement")
    relations = sql.find_tables(statements)
    sources = {relation: source_of(job, general, relation) for relation in relations}
    if job.dry_run:
        return _dry_run(job, statements, sources)
    last = None
    with session.spark_session(job.env, job.common, job.cluster, look=lambda: _first(statements, sources)) as spark:
        for found in sql.run(spark, statements, sources.__getitem__, most=most):
            last = found
            if job.output_file is None:
                show_result(job, "spark.sql", found.result)
                if found.more:
                    job.env.say(f"the first {most:,} rows; there are more: --show N")
        if last is not None and job.output_file is not None:
            show_result(job, "spark.sql", last.result)
            if last.more:
                job.env.say(f"these are the first {most:,} rows; there are more: --show N")
    return exit_status.DONE


def source_of(job: Job, general: KafkaSource, relation: Relation) -> KafkaSource:
    """Where the rows of a table come from: what the statement says goes before the options. ConfigError."""
    from kcli.cli.spark.options import end_options, read_topics, start_options

    if not relation.topics:
        return general._replace(topics={}, start={}, until={})
    now_ms = job.env.clock.wall_ms()
    start = general.start if relation.start is None else start_options(relation.start, now_ms)
    until = general.until if relation.until is None else end_options(relation.until, now_ms)
    source = general._replace(topics=read_topics(relation.topics), start=start, until=until)
    source.options(relation.view)
    return source


def _look(statements: Sequence[Statement], sources: dict[Relation, KafkaSource]) -> list[tuple[Relation, Survey]]:
    """Whether the topics are there, and what there is to read; and those options that only a look can refuse."""
    from kcli.cli.spark.survey import survey
    from kcli.spark.pipelines.sql import columns_of, find_tables

    return [
        (relation, survey(sources[relation], relation.view, columns_of(statement, relation.view)))
        for statement in statements
        for relation in find_tables([statement])
    ]


def _first(statements: Sequence[Statement], sources: dict[Relation, KafkaSource]) -> Survey | None:
    """The same, as the progress line has use for it: how much there is, if all is one table."""
    found = [survey for _, survey in _look(statements, sources)]
    return found[0] if len(found) == 1 else None


def _dry_run(job: Job, statements: Sequence[Statement], sources: dict[Relation, KafkaSource]) -> int:
    """One report, however many tables there are; a table without ranges is one task."""
    from kcli.cli.output.report import Item, Report, show
    from kcli.cli.spark.survey import COLUMNS, range_items, words

    looks = _look(statements, sources)
    items: list[Item] = []
    for relation, found in looks:
        ranges = [{"tasks": 1}] if found.plan is None else range_items(found)
        items += [{"table": _call(relation), **dict.fromkeys(COLUMNS), **item} for item in ranges]
    show(job.env, Report("spark.dry-run", ["table", *COLUMNS], items), job.output)
    if job.output in (None, "table"):
        for relation, found in looks:
            job.env.say(f"{_call(relation)}:")
            for line in words(found, {}):
                job.env.say(line)
    return exit_status.DONE


def _call(relation: Relation) -> str:
    """A table as it is written in SQL."""
    if not relation.topics:
        return relation.view
    name = "topic" if relation.view == "records" else relation.view
    given = [(f"{word} => ", text) for word, text in (("from", relation.start), ("until", relation.until)) if text]
    arguments = [f"{word}'{text}'" for word, text in [*(("", topic) for topic in relation.topics), *given]]
    return f"{name}({', '.join(arguments)})"
