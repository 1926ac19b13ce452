"""Output of a pipeline's result: on standard output, or to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.cli.output.report import Report
    from kcli.cli.spark.options import Job
    from kcli.spark.pipelines.result import Result


def show_result(job: Job, kind: str, result: Result) -> None:
    """Print or save the result. OSError for a file that cannot be written."""
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    report = Report(kind, result.columns, result.rows)
    if job.output_file is None:
        print_report(job.env, report, job.output)
    else:
        form, path = job.output_file
        _save(report, result, form, path)
        job.env.report(f"{len(result.rows):,} rows in {path}")


def _save(report: Report, result: Result, form: str, path: str) -> None:
    from kcli.cli.spark.files import output_file, write_text

    if form == "parquet":
        from kcli.spark.pipelines.result import write_parquet

        with output_file(path) as file:
            write_parquet(result.columns, result.rows, file)
    else:
        from kcli.cli.output.printer import as_text

        write_text(path, as_text(report, form))


_DIGITS = {"share": 4, "hottest_share": 4, "gini": 4, "max_over_mean": 3, "key_avg": 1, "value_avg": 1, "per_s": 3}
_RATE = "_per_s"


def rounded(result: Result) -> Result:
    """Return the result with shares, means and rates rounded for output."""
    return result._replace(rows=[{name: _rounded(name, value) for name, value in row.items()} for row in result.rows])


def _rounded(name: str, value: Any) -> Any:
    digits = 3 if name.endswith(_RATE) else _DIGITS.get(name)
    return value if digits is None or not isinstance(value, float) else round(value, digits)
