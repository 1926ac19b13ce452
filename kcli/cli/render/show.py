"""Print a report in the output format that was asked for; only that format's module is imported."""

from kcli.cli.environment import Environment
from kcli.cli.render.report import Report, cell


def show(env: Environment, report: Report, output: str | None) -> None:
    """Print `report` on standard output; None means a table.

    Failures are part of it. Where the person does not see standard output, a line on standard error tells of them too.
    """
    if output == "json":
        from kcli.cli.render.json import as_document

        text = as_document(report)
    elif output == "jsonl":
        from kcli.cli.render.json import as_lines

        text = as_lines(report)
    elif output in ("csv", "tsv"):
        from kcli.cli.render.separated import as_csv, as_tsv

        text = as_csv(report) if output == "csv" else as_tsv(report)
    else:
        from kcli.cli.render.table import as_table

        text = as_table(env, report)
    env.stdout.write(text)
    failed = [cell(row["error"]) for row in report.rows if row.get("error")]
    if failed and not env.stdout_is_terminal:
        more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
        env.say(f"kcli: {failed[0]}{more}")
