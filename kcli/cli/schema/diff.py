"""`kcli schema diff`: the fields that differ between two versions of a subject, or a version and a file."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Option
from kcli.cli.schema.options import References, SchemaFile, SchemaType, Subject
from kcli.errors import ConfigError

COLUMNS = ["change", "path", "old", "new"]


def run(
    env: Environment,
    common: Common,
    subject: Subject,
    from_version: Annotated[
        str | None,
        Option("--from", metavar="N", help="Compare this version. [the one before --to; with a file: latest]"),
    ] = None,
    to_version: Annotated[str | None, Option("--to", metavar="N", help="Compare with this version. [latest]")] = None,
    schema_file: SchemaFile = None,
    type: SchemaType = None,
    reference: References = None,
    fail_on_change: Annotated[bool, Option("--fail-on-change", help="Exit with 6 if anything differs.")] = False,
    schema_registry: RegistryOption = None,
) -> int:
    """Show the differences of two schemas, one line for each field: by default of the two newest versions of a subject.

    With --schema-file the file is compared with the newest version, or that of --from. A PATH names a field
    (items[].price: a field of the elements of an array; tags{}: the values of a map) or, with @, an attribute such as
    @default. The order of fields and the layout of the text are not compared. No line means that they do not differ.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.schema.options import outline_of, registry_of, schema_of_file, version_of
    from kcli.schemas.outline import changes

    if schema_file is not None and to_version is not None:
        raise ConfigError("--to cannot be combined with --schema-file; the file is what --from is compared with")
    if schema_file is None and (type is not None or reference):
        raise ConfigError(f"{'--type' if type is not None else '--reference'} needs --schema-file")
    old_version = None if from_version is None else version_of("--from", from_version)
    new_version = None if to_version is None else version_of("--to", to_version)
    registry = registry_of(common, schema_registry)
    if schema_file is not None:
        old = registry.version(subject, old_version or "latest")
        new = schema_of_file(env, registry, schema_file, type, reference, subject)
    else:
        new = registry.version(subject, new_version or "latest")
        if old_version is None:
            old_version = _before(registry.versions(subject), new.version, subject)
        old = registry.version(subject, old_version)
    if old.kind != new.kind:
        raise ConfigError(
            f"the types differ: {old.kind} and {new.kind}; choose versions of one type with --from and --to"
        )
    found = changes(outline_of(registry, old), outline_of(registry, new))
    items = [{"change": change.kind, "path": change.path, "old": change.old, "new": change.new} for change in found]
    against = schema_file if schema_file is not None else f"version {new.version}"
    if common.verbose or (not items and env.stderr_is_terminal):
        env.report(f"kcli: {subject}: version {old.version} and {against}: {len(items)} differences")
    print_report(env, Report("schema.diff", COLUMNS, items), common.output)
    return exit_status.THRESHOLD if items and fail_on_change else exit_status.DONE


def _before(versions: list[int], newest: int | None, subject: str) -> int:
    earlier = [version for version in versions if newest is None or version < newest]
    if not earlier:
        raise ConfigError(f"subject {subject} has no version before {newest}; use --schema-file FILE to compare a file")
    return earlier[-1]
