"""The table of all commands, and the command that a command line names.

A command has the path of its module: `kcli group lag` is `kcli.cli.group.lag`, and a command of one word, such as `kcli
demo`, is `kcli.cli.demo.demo`. The table holds help lines only, so that `kcli --help` imports no command.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.errors import ConfigError

GROUPS = {
    "topic": "List, describe, create, alter and delete topics.",
    "consume": "Read records: kcli consume [topic] TOPIC.",
    "group": "Inspect groups and their lag; delete groups and members.",
    "transaction": "List, describe and abort transactions; find hanging ones.",
    "offsets": "Plan, preview, apply and undo changes of committed offsets.",
    "assignor": "Show and forecast the partition assignment of groups.",
    "compat": "Run command lines of Apache Kafka's own tools.",
    "cluster": "Describe and check the cluster and its brokers.",
    "schema": "Show and compare schemas of a registry; check new ones.",
    "profile": "Show, choose and check the profiles of clusters.",
    "broker": "Run an embedded Kafka broker for tests and demos.",
    "spark": "Export and analyse topics with Apache Spark.",
}
COMMANDS: dict[tuple[str, ...], str] = {
    ("demo",): "Run the main commands on a broker with example data.",
    ("topic", "list"): "List topics.",
    ("topic", "describe"): "Show partitions, leaders, replicas, offsets, settings.",
    ("topic", "create"): "Create topics.",
    ("topic", "alter"): "Add partitions, and set or delete settings.",
    ("topic", "undo"): "Restore settings that a command changed.",
    ("topic", "truncate"): "Delete the records before an offset or a time.",
    ("topic", "delete"): "Delete topics and all their records.",
    ("consume", "topic"): "Read a range of a topic, follow it, or join a group.",
    ("produce",): "Write each line of standard input as a record.",
    ("group", "list"): "List groups: type, state, coordinator, members.",
    ("group", "describe"): "Show the lag, the members or the state of groups.",
    ("group", "lag"): "Show the total lag of each group, one line per group.",
    ("group", "metrics"): "Serve the lag of groups to Prometheus.",
    ("group", "watch"): "Show lag, rates and drain time, updated live.",
    ("group", "explain"): "Explain why groups make no progress.",
    ("group", "wait"): "Wait until a group is empty, stable, or has caught up.",
    ("group", "delete"): "Delete groups and their committed offsets.",
    ("group", "remove-members"): "Remove members from a group.",
    ("transaction", "list"): "List transactional ids: state, producer, age.",
    ("transaction", "describe"): "Show the state of transactional ids.",
    ("transaction", "hanging"): "Find open transactions that no coordinator knows.",
    ("transaction", "abort"): "Abort open or hanging transactions.",
    ("offsets", "show"): "Show committed offsets and their positions in the log.",
    ("offsets", "export"): "Save committed offsets to a file.",
    ("offsets", "reset"): "Move committed offsets to a time, a log end, or an offset.",
    ("offsets", "apply"): "Apply a saved plan, or commit exported offsets.",
    ("offsets", "copy"): "Copy the committed offsets of one group to another.",
    ("offsets", "delete"): "Delete committed offsets of a group for some topics.",
    ("offsets", "undo"): "Restore committed offsets that a command changed.",
    ("undo",): "Restore what a command changed: offsets or settings.",
    ("assignor", "show"): "Show the assignment for a group that you describe.",
    ("assignor", "diff"): "Show what the next rebalance of a group would change.",
    ("compat", "consumer-groups"): "Run a command line of kafka-consumer-groups.sh.",
    ("cluster", "describe"): "Show cluster id, controller and brokers.",
    ("cluster", "check"): "Report faults of the cluster, with evidence and advice.",
    ("cluster", "api-versions"): "Show the API versions of brokers, and those that kcli uses.",
    ("schema", "list"): "List the subjects of the schema registry.",
    ("schema", "show"): "Print the text of a schema.",
    ("schema", "versions"): "List the versions of a subject.",
    ("schema", "diff"): "Show the fields that differ between two schemas.",
    ("schema", "check"): "Check that a new schema is compatible, before a deploy.",
    ("profile", "list"): "List the profiles.",
    ("profile", "show"): "Show the settings of a profile, and where each comes from.",
    ("profile", "use"): "Make a profile the current one.",
    ("profile", "check"): "Connect step by step, and show where it stops and why.",
    ("spark", "export"): "Write topics to files: Parquet, JSON, CSV and others.",
    ("spark", "compact"): "Replace small files of an export by larger ones.",
    ("spark", "load"): "Write exported files back to a topic.",
    ("spark", "archive"): "Write kcli as one file for spark-submit --py-files.",
    ("spark", "doctor"): "Check that everything that Spark needs is installed.",
    ("spark", "throughput"): "Show records and bytes over time, read from batch headers.",
    ("spark", "skew"): "Show hot keys, and how evenly partitions are filled.",
    ("spark", "profile"): "Show nulls, tombstones, sizes, time order, JSON fields.",
    ("spark", "gaps"): "Show offsets without a record, and the reason.",
    ("spark", "duplicates"): "Show records that occur more than once.",
    ("spark", "compare"): "Compare the records of two topics.",
    ("spark", "lag-history"): "Show the lag of groups over time, from their commits.",
    ("spark", "group-offsets"): "Save or compare the committed offsets of all groups.",
    ("spark", "sql"): "Run SQL over topics, batches, groups and their lag.",
    ("broker", "run"): "Run a broker in this terminal. Not for production.",
    ("completion",): "Print the completion script of a shell.",
    ("help",): "Show a page of the manual.",
}
#: The commands that change the cluster, with the parameters that make them do so; none: always, except with --dry-run.
CHANGES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("topic", "create"): (),
    ("topic", "alter"): ("execute",),
    ("topic", "undo"): ("execute",),
    ("topic", "truncate"): ("execute",),
    ("topic", "delete"): ("execute", "yes"),
    ("consume", "topic"): ("group", "share"),  # a member takes partitions away from the others, also without commits
    ("produce",): (),
    ("group", "delete"): ("execute",),
    ("group", "remove-members"): ("execute",),
    ("transaction", "abort"): ("execute",),
    ("offsets", "reset"): ("execute",),
    ("offsets", "apply"): ("execute",),
    ("offsets", "copy"): ("execute",),
    ("offsets", "delete"): ("execute",),
    ("offsets", "undo"): ("execute",),
    ("undo",): ("execute",),
    ("spark", "export"): ("commit_group",),
    ("spark", "load"): (),
}
SHORT_FOR = {"consume": "topic"}  # `kcli consume orders` is `kcli consume topic orders`


def module_of(path: tuple[str, ...]) -> str:
    """Return the name of the module that holds this command's `run`."""
    family, command = path[0], path[-1]
    return f"kcli.cli.{family}.{command.replace('-', '_')}"


def changes_cluster(path: tuple[str, ...], given: Mapping[str, object]) -> bool:
    """Return whether a command with these values of its parameters changes the cluster.

    `kcli compat` has its own parser, and decides by itself.
    """
    parameters = CHANGES.get(path)
    if parameters is None or given.get("dry_run"):
        return False
    return not parameters or any(given.get(name) for name in parameters)


def find_command(argv: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Return the words to parse and the command that they name; None for help, or when the command is missing.

    The word that a short form leaves out is inserted. A mistyped name raises `ConfigError` with a suggestion. No word
    at all asks for help, as with kubectl and gh (status 0); a family without a command is wrong usage, because a
    script may have lost a word.
    """
    if not argv:
        return ["--help"], None
    if argv[0].startswith("-"):
        return argv, None
    first, rest = argv[0], argv[1:]
    if (first,) in COMMANDS:
        return argv, (first,)
    if first not in GROUPS:
        raise _unknown_command(first, [*GROUPS, *(path[0] for path in COMMANDS if len(path) == 1)])
    if not rest or rest[0] in ("--help", "-h"):
        return argv, None
    if (first, rest[0]) in COMMANDS:
        return argv, (first, rest[0])
    if first in SHORT_FOR:
        return [first, SHORT_FOR[first], *rest], (first, SHORT_FOR[first])
    if rest[0].startswith("-"):
        return argv, None
    raise _unknown_command(f"{first} {rest[0]}", [" ".join(path) for path in COMMANDS if path[0] == first])


def _unknown_command(given: str, known: list[str]) -> ConfigError:
    from kcli.text import closest_name

    close = closest_name(given, known)
    hint = f"did you mean 'kcli {close}'?" if close else f"use one of {', '.join(known)}"
    return ConfigError(f"there is no command 'kcli {given}'; {hint}")
