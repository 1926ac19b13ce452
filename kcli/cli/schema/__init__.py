"""The `kcli schema` family: subjects of a schema registry, their versions, differences, and the check before a deploy.

Each command is one page over `kcli.schemas.registry_client`. No command changes the registry; `kcli produce --register`
adds a schema. `options` has the registry and the schema file that the commands share.

**Non-obvious**

- The registry decides about compatibility. `check` asks it for each version that the rule of the subject covers,
  because a registry answers for one version.
- `diff` compares the fields (`kcli.schemas.outline`), not the texts: registries reformat a text, and order and white
  space mean nothing.
- A schema file without --reference gets the references of the newest version, with which it was most likely written.

Tests: `test_schema_commands` tests all commands, with a registry in the process.
"""
