"""`kcli schema show`: the text of a schema, by subject and version, by id or by GUID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.schema import Schema

COLUMNS = ["subject", "version", "id", "guid", "type", "references", "schema"]


def run(
    env: Environment,
    common: Common,
    subject: Annotated[
        str | None, Argument(metavar="[SUBJECT]", help="Subject, such as orders-value; or use --id.")
    ] = None,
    version: Annotated[str, Option("--version", metavar="N", help="Show this version.")] = "latest",
    id: Annotated[int | None, Option("--id", metavar="N", help="Show the schema with this id.")] = None,
    guid: Annotated[str | None, Option("--guid", metavar="GUID", help="Show the schema with this GUID.")] = None,
    fields: Annotated[bool, Option("--fields", help="Show one line per field and attribute, not the text.")] = False,
    raw: Annotated[bool, Option("--raw", help="Print the text as registered, not indented.")] = False,
    schema_registry: RegistryOption = None,
) -> int:
    """Print the text of a schema: the newest version of a subject, or another one, or the schema with an id.

    Without --output only the text is printed, so that it can be saved: `kcli schema show orders-value > orders.avsc`.
    JSON is indented. Stderr names the references. With --output json the registry's fields are printed too. --fields
    shows the lines that `kcli schema diff` compares; it reads the descriptors that Python's serialisers register, too.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.schema.options import item_of, outline_of, registry_of, version_of

    if sum(given is not None for given in (subject, id, guid)) != 1:
        raise ConfigError("give exactly one of SUBJECT, --id and --guid")
    if subject is None and version != "latest":
        raise ConfigError("--version needs a SUBJECT")
    wanted = version_of("--version", version)
    registry = registry_of(common, schema_registry)
    schema = _find(registry, subject, wanted, id, guid)
    if fields:
        lines = [{"path": path, "type": text} for path, text in outline_of(registry, schema).items()]
        print_report(env, Report("schema.fields", ["path", "type"], lines), common.output)
        return exit_status.DONE
    text = schema.text if raw else _indented(schema)
    if common.output in (None, "table"):
        if env.stdout_is_terminal:
            text = "\n".join(map(visible, text.split("\n")))
        env.stdout.write(text if text.endswith("\n") else f"{text}\n")
        for reference in schema.references:
            env.report(f"kcli: note: {reference.name} is subject {reference.subject}, version {reference.version}")
        return exit_status.DONE

    item = {**item_of(schema), "schema": schema.text}
    print_report(env, Report("schema.show", COLUMNS, [item]), common.output)
    return exit_status.DONE


def _find(
    registry: SchemaRegistry, subject: str | None, version: int | str, id: int | None, guid: str | None
) -> Schema:
    if subject is not None:
        return registry.version(subject, version)
    if id is not None:
        if not 0 <= id < 2**31:
            raise ConfigError(f"--id: {id} is not an id; use a number from 0")
        return registry.schema(id)
    assert guid is not None
    return registry.by_guid(guid)


def _indented(schema: Schema) -> str:
    import json

    if schema.kind == "PROTOBUF":
        return schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text
