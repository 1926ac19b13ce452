"""`kcli schema check`: the compatibility of a new schema, before a deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Option
from kcli.cli.schema.options import References, SchemaType, Subject, outline_of
from kcli.errors import ConfigError, KcliError, NotFound

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.schema import Schema

COLUMNS = ["subject", "version", "rule", "compatible", "reasons"]


def run(
    env: Environment,
    common: Common,
    subject: Subject,
    schema_file: Annotated[
        str | None, Option("--schema-file", metavar="FILE", help="Check the schema of this file: .avsc, .proto, .json.")
    ] = None,
    against: Annotated[
        str | None,
        Option("--against", metavar="N|latest|all", help="Check against these versions. [those of the subject's rule]"),
    ] = None,
    allow_new: Annotated[bool, Option("--allow-new", help="Pass if the subject does not exist.")] = False,
    type: SchemaType = None,
    reference: References = None,
    schema_registry: RegistryOption = None,
) -> int:
    """Check that the registry would accept a schema as the next version of a subject. Nothing is registered.

    Exit with 0 if it is compatible, with 6 if it is not; 1 or 2: it is not a valid schema; 3: the subject does not
    exist (unless --allow-new). The rule of the subject decides: a rule such as BACKWARD covers the
    newest version, one such as BACKWARD_TRANSITIVE all of them. NONE allows every schema, which is reported.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.schema.options import registry_of, schema_of_file, version_of

    if schema_file is None:
        raise ConfigError("--schema-file is missing; use --schema-file FILE")
    if against not in (None, "all", "latest"):
        version_of("--against", against or "", "latest or all")
    registry = registry_of(common, schema_registry)
    schema = schema_of_file(env, registry, schema_file, type, reference, subject)
    _check_file(registry, schema, schema_file)
    try:
        versions = registry.versions(subject)
    except NotFound:
        if not allow_new:
            raise NotFound(f"the registry has no subject {subject!r}; use --allow-new for a new one") from None
        env.report(f"kcli: subject {subject} is new: every schema is compatible")
        return exit_status.DONE
    rule = registry.config(subject)
    if rule == "NONE":
        env.report(f"kcli: warning: the rule of subject {subject} is NONE: the registry accepts every schema")
    items = []
    for version in _covered(versions, rule, against, subject):
        compatible, reasons = registry.compatibility(subject, schema, version)
        row = {"subject": subject, "version": version, "rule": rule, "compatible": compatible}
        items.append({**row, "reasons": [" ".join(reason.split()) for reason in reasons]})
    print_report(env, Report("schema.check", COLUMNS, items), common.output)
    known = _registered(registry, subject, schema)
    if known is not None:
        env.report(f"kcli: the subject has this schema already: version {known.version}, id {known.id}")
    return exit_status.DONE if all(item["compatible"] for item in items) else exit_status.THRESHOLD


def _check_file(registry: SchemaRegistry, schema: Schema, path: str) -> None:
    """Raise ConfigError if the schema of the file is not valid, as far as the installed libraries can tell."""
    from kcli.schemas.schema import RegistryError

    try:
        outline_of(registry, schema)
    except ConfigError:
        return  # a library is not installed; the registry decides
    except (NotFound, RegistryError):
        raise
    except KcliError as error:
        raise ConfigError(f"schema file {path}: {error}") from None


def _covered(versions: list[int], rule: str, against: str | None, subject: str) -> list[int]:
    """Return the versions to check: those of --against, else those that the rule covers."""
    if against is None:
        against = "all" if rule.endswith("_TRANSITIVE") else "latest"
    if against == "all":
        return versions
    if against == "latest":
        return versions[-1:]
    if int(against) not in versions:
        raise NotFound(f"the registry has no version {against} of subject {subject!r}")
    return [int(against)]


def _registered(registry: SchemaRegistry, subject: str, schema: Schema) -> Schema | None:
    try:
        return registry.lookup(subject, schema)
    except NotFound:
        return None
