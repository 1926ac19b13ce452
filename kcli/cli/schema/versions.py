"""`kcli schema versions`: the versions of a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Option
from kcli.cli.schema.options import Subject, outline_of
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.schema import Schema

COLUMNS = ["version", "id", "type", "bytes", "references"]
CHANGES = ["added", "removed", "changed"]


def run(
    env: Environment,
    common: Common,
    subject: Subject,
    long: Annotated[bool, Option("--long", "-l", help="Show how much each version changed, too.")] = False,
    schema_registry: RegistryOption = None,
) -> int:
    """List the versions of a subject, with their ids, types, sizes and references.

    With --long, ADDED, REMOVED and CHANGED count the lines by which `kcli schema diff` describes the change from the
    version before.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.schema.options import item_of, registry_of

    registry = registry_of(common, schema_registry)
    schemas = [registry.version(subject, number) for number in registry.versions(subject)]
    items = [{**item_of(schema), "bytes": len(schema.text.encode())} for schema in schemas]
    if long:
        _add_changes(registry, schemas, items)
    rows = [{**item, "references": [reference["name"] for reference in item["references"]]} for item in items]
    report = Report("schema.versions", COLUMNS + CHANGES if long else COLUMNS, items, rows)
    print_report(env, report, common.output)
    return exit_status.FAILED if report.failed else exit_status.DONE


def _add_changes(registry: SchemaRegistry, schemas: list[Schema], items: list[Item]) -> None:
    """Add the number of changes to each item; one whose schema is not valid has an error, and the next no numbers."""
    from kcli.cli.output.report import error_field
    from kcli.schemas.outline import Outline, changes

    before: Outline | None = None
    for schema, item in zip(schemas, items, strict=True):
        outline: Outline | None = None
        try:
            outline = outline_of(registry, schema)
        except KcliError as error:
            item["error"] = error_field(error)
        if before is not None and outline is not None:
            kinds = [change.kind for change in changes(before, outline)]
            item.update((kind, kinds.count(kind)) for kind in CHANGES)
        before = outline
