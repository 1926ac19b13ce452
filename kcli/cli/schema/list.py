"""`kcli schema list`: the subjects of a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Option
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.schemas.registry_client import SchemaRegistry

COLUMNS = ["subject", "type", "versions", "newest", "id", "compatibility"]


def run(
    env: Environment,
    common: Common,
    match: Annotated[
        str | None, Option("--match", metavar="REGEX", help="Only subjects whose name contains a match.")
    ] = None,
    long: Annotated[bool, Option("--long", "-l", help="Show type, versions, newest version, id, rule.")] = False,
    schema_registry: RegistryOption = None,
) -> int:
    """List the subjects of the schema registry, sorted, one per line.

    Without --long and without another output format, only the names are printed, without a heading. VERSIONS is their
    number, ID that of the newest schema, COMPATIBILITY the rule for the next version. --long asks the registry three
    times per subject.
    """
    from kcli.cli.group.selection import pattern
    from kcli.cli.output.printer import print_names, print_report
    from kcli.cli.output.report import Report
    from kcli.cli.schema.options import registry_of

    registry = registry_of(common, schema_registry)
    expression = pattern(match)
    subjects = [name for name in registry.subjects() if expression is None or expression.search(name)]
    if not long and common.output in (None, "table"):
        return print_names(env, [{"subject": subject} for subject in subjects], "subject")

    errors: list[KcliError | None] = []
    items = [_item(registry, subject, errors) for subject in subjects]
    print_report(env, Report("schema.list", COLUMNS, items), common.output)
    return exit_status.status_of_all(errors)


def _item(registry: SchemaRegistry, subject: str, errors: list[KcliError | None]) -> Item:
    """Return the row of a subject; one that fails, as one deleted in the meantime does, has an error."""
    from kcli.cli.output.report import error_field

    try:
        versions, newest, rule = registry.versions(subject), registry.latest(subject), registry.config(subject)
    except KcliError as error:
        if error.retriable:  # the registry is away: no other subject would do better
            raise
        errors.append(error)
        return {"subject": subject, "error": error_field(error)}
    return {
        "subject": subject,
        "type": newest.kind,
        "versions": len(versions),
        "newest": newest.version,
        "id": newest.id,
        "compatibility": rule,
    }
