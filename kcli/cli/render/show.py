"""Print a report in the output format that was asked for; only that format's module is imported."""

from kcli.cli.environment import Environment
from kcli.cli.render.report import Report, cell


def show(env: Environment, report: Report, output: str | None) -> None:
    """Print `report` on standard output; None means a table.

    Failures are part of it. Where the person does not see standard output, a line on standard error tells of them too.
    Names and brokers' words cannot command a terminal.
    """
    terminal = env.stdout_is_terminal
    if output in ("json", "jsonl"):
        from kcli.cli.records.escapes import visible_json
        from kcli.cli.render.json import as_document, as_lines

        text = as_document(report) if output == "json" else as_lines(report)
        text = visible_json(text) if terminal else text
    elif output in ("csv", "tsv"):
        from kcli.cli.render.separated import as_csv, as_tsv

        text = (as_csv if output == "csv" else as_tsv)(report, terminal=terminal)
    else:
        from kcli.cli.render.table import as_table

        text = as_table(env, report)
    env.stdout.write(text)
    failed = report.errors
    if failed and not env.stdout_is_terminal:
        more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
        env.say(f"kcli: {' '.join(cell(failed[0]).split())}{more}")
