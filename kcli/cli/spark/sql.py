"""`kcli spark sql`: query topics, batches, groups and lag with SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import MAX_ROWS, Job, end_options, read_topics, start_options
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.sql_text import Relation, Statement
    from kcli.spark.pipelines.survey import Survey


def run(
    env: Environment,
    job: Job,
    statement: Annotated[str | None, Argument(metavar="[STATEMENT]", help="SQL statements, separated by ;.")] = None,
    file: Annotated[
        str | None, Option("--file", "-f", metavar="FILE", help="Read the statements from a file; - is standard input.")
    ] = None,
    show: Annotated[
        int, Option("--show", metavar="N", min=0, max=MAX_ROWS, help="Show at most N rows of each result; 0: all.")
    ] = 1000,
) -> int:
    """Run SQL with topics as tables.

    topic('orders') has the records; batches('orders') has a row for each record batch, from its header alone, which is
    much faster; gaps('orders') has the offsets without records. All take several topics, partitions as in 'orders:0,1',
    and a range: topic('orders', from => '-1h', until => 'latest'); the default range is that of --from and --until. The
    tables lag, groups, members, offsets and commits take no topic. Columns are those of the views of the same names;
    topic('orders') also has headers, key_size, value_size, leader_epoch, producer_id and others if they are named. Keys
    and values are bytes: CAST(value AS STRING).

    Only the columns that a statement names are read, and only the partitions, offsets and times that its WHERE permits.
    Each statement reads the records present at its start; a temporary view made from topics keeps its offsets.

    A statement without a result prints nothing. JSON output is one document: if several statements have a result, its
    items are the results, with their columns and rows. With -O FORMAT:FILE, the file has the last result.
    """

    return run_statements(job, read_statements(env, statement, file), show or None)


def read_statements(env: Environment, text: str | None, file: str | None) -> list[Statement]:
    """Return the statements of the argument or the file. ConfigError for both, for neither, and for an
    unreadable file.
    """
    from kcli.cli.offsets.options import read_text
    from kcli.spark.pipelines.sql_text import split_statements

    if (text is None) == (file is None):
        raise ConfigError("give either a STATEMENT or --file FILE")
    statements = split_statements(read_text(file, env.stdin_bytes) if file is not None else text or "")
    if not statements:
        raise ConfigError("no SQL statement given")
    return statements


def run_statements(job: Job, statements: Sequence[Statement], max_rows: int | None) -> int:
    """Run the statements and show their results; return an exit status."""
    from kcli.cli.spark import session
    from kcli.cli.spark.results import show_result
    from kcli.spark.pipelines import sql

    job.refuse("cannot be used; use topic('orders:0,1') in the statement", "--topic-partition")
    general = job.source(None, needs_topics=False)
    if general.where is not None:
        raise ConfigError("--where cannot be used; use WHERE in the statement")
    relations = sql.find_tables(statements)
    sources = {relation: source_of(job, general, relation) for relation in relations}
    if job.dry_run:
        return _dry_run(job, statements, sources)
    collected: list[Result] = []
    with session.spark_session(
        job.env, job.common, job.cluster, preflight=lambda: _single_survey(statements, sources)
    ) as spark:
        try:
            for result in sql.run(spark, statements, sources.__getitem__, max_rows=max_rows):
                collected.append(result.result)
                if job.output_file is None and job.output != "json":
                    show_result(job, "spark.sql", result.result)
                if result.more and job.output_file is None:
                    job.env.report(f"first {max_rows:,} rows shown; use --show N for more")
        finally:
            if collected and job.output_file is None and job.output == "json":
                show_result(job, "spark.sql", _joined(collected))
        if collected and job.output_file is not None:
            show_result(job, "spark.sql", collected[-1])
            if result.more:
                job.env.report(f"first {max_rows:,} rows written; use --show N for more")
    return exit_status.DONE


def _joined(results: Sequence[Result]) -> Result:
    """Return the results as one: a single one unchanged, several as a row each, because JSON output is one document."""
    from kcli.spark.pipelines.result import Result

    if len(results) == 1:
        return results[0]
    columns = ["result", "columns", "rows"]
    numbered = enumerate(results, start=1)
    return Result(
        columns, [dict(zip(columns, (n, result.columns, result.rows), strict=True)) for n, result in numbered]
    )


def source_of(job: Job, general: KafkaSource, relation: Relation) -> KafkaSource:
    """Return the source of a table; arguments in the statement take precedence over options. ConfigError."""
    from kcli.spark.options import parse_options

    if not relation.topics:
        return general._replace(topics={}, start={}, until={})
    now_ms = job.env.clock.wall_ms()
    start = general.start if relation.start is None else start_options(relation.start, now_ms)
    until = general.until if relation.until is None else end_options(relation.until, now_ms)
    source = general._replace(topics=read_topics(relation.topics), start=start, until=until)
    parse_options(source.options(relation.view))
    return source


def _survey_tables(
    statements: Sequence[Statement], sources: dict[Relation, KafkaSource]
) -> list[tuple[Relation, Survey]]:
    """Survey all tables: check that topics exist and options are valid, and plan the ranges."""
    from kcli.spark.pipelines.sql import columns_of, find_tables
    from kcli.spark.pipelines.survey import survey

    return [
        (relation, survey(sources[relation], relation.view, columns_of(statement, relation.view)))
        for statement in statements
        for relation in find_tables([statement])
    ]


def _single_survey(statements: Sequence[Statement], sources: dict[Relation, KafkaSource]) -> Survey | None:
    """Return the survey if there is a single table, for the progress line."""
    surveys = [survey for _, survey in _survey_tables(statements, sources)]
    return surveys[0] if len(surveys) == 1 else None


def _dry_run(job: Job, statements: Sequence[Statement], sources: dict[Relation, KafkaSource]) -> int:
    """Show one report for all tables; a table without ranges is one task."""
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report
    from kcli.cli.spark.dry_run import COLUMNS, range_items, survey_lines

    surveys = _survey_tables(statements, sources)
    items: list[Item] = []
    for relation, table_survey in surveys:
        ranges = [{"tasks": 1}] if table_survey.plan is None else range_items(table_survey)
        items += [{"table": _call(relation), **dict.fromkeys(COLUMNS), **item} for item in ranges]
    print_report(job.env, Report("spark.dry-run", ["table", *COLUMNS], items), job.output)
    if job.output in (None, "table"):
        for relation, table_survey in surveys:
            job.env.report(f"{_call(relation)}:")
            for line in survey_lines(table_survey, {}):
                job.env.report(line)
    return exit_status.DONE


def _call(relation: Relation) -> str:
    """Return a table as it is written in SQL."""
    if not relation.topics:
        return relation.view
    name = "topic" if relation.view == "records" else relation.view
    named = [
        (f"{keyword} => ", text) for keyword, text in (("from", relation.start), ("until", relation.until)) if text
    ]
    arguments = [f"{keyword}'{text}'" for keyword, text in [*(("", topic) for topic in relation.topics), *named]]
    return f"{name}({', '.join(arguments)})"
