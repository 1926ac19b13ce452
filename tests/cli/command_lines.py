"""Arguments for each command of kcli, with which tests run all of them: with wrong logins, with a read-only profile.

A command changes what it can: it has --execute. The tests that use a line prepare what it names: the topics `orders`
and `doomed`, offsets of the group `billing`, and a plan in `plan.json`.
"""

from __future__ import annotations

#: The words are separated by spaces; a word with a space has it as `_`.
ARGUMENTS: dict[tuple[str, ...], str] = {
    ("topic", "list"): "--long",
    ("topic", "describe"): "orders --configs",
    ("topic", "create"): "new",
    ("topic", "delete"): "doomed --execute",
    ("topic", "alter"): "orders --config retention.ms=99999999 --execute",
    ("topic", "undo"): "--last --execute",
    ("topic", "truncate"): "doomed --before end --execute",
    ("consume", "topic"): "orders -o start -e",
    ("produce",): "orders",
    ("group", "list"): "",
    ("group", "describe"): "billing",
    ("group", "lag"): "billing",
    ("group", "watch"): "billing -n 1",
    ("group", "explain"): "billing --interval 0.1",
    ("group", "wait"): "billing --until empty",
    ("group", "delete"): "doomed --execute",
    ("group", "remove-members"): "billing --all --execute",
    ("transaction", "list"): "",
    ("transaction", "describe"): "payments",
    ("transaction", "hanging"): "orders",
    ("transaction", "abort"): "payments --execute",
    ("offsets", "show"): "billing",
    ("offsets", "export"): "billing",
    ("offsets", "reset"): "billing --topic orders --to-earliest --execute",
    ("offsets", "apply"): "plan.json --execute",
    ("offsets", "copy"): "billing --to-group other --execute",
    ("offsets", "delete"): "other --topic orders --execute",
    ("offsets", "undo"): "--last --execute",
    ("undo",): "--last --execute",
    ("assignor", "show"): "-s range -m one=orders -t orders",
    ("assignor", "diff"): "billing",
    ("compat", "consumer-groups"): "--list",
    ("cluster", "describe"): "",
    ("cluster", "api-versions"): "",
    ("cluster", "check"): "",
    ("schema", "list"): "",
    ("schema", "show"): "orders-value",
    ("schema", "versions"): "orders-value",
    ("schema", "diff"): "orders-value",
    ("schema", "check"): "orders-value --schema-file /dev/null --type avro",
    ("profile", "show"): "",
    ("profile", "check"): "",
    ("spark", "export"): "orders --to out --once --commit-group lake",
    ("spark", "throughput"): "orders",
    ("spark", "profile"): "orders",
    ("spark", "gaps"): "orders",
    ("spark", "duplicates"): "orders",
    ("spark", "skew"): "orders --dry-run",
    ("spark", "compare"): "orders other",
    ("spark", "lag-history"): "--groups billing",
    ("spark", "group-offsets"): "--groups billing",
    ("spark", "sql"): "SELECT_1",
    ("spark", "load"): "out --topic orders",
    ("spark", "doctor"): "",
}
#: Commands that connect to no cluster, or that serve until they are stopped.
WITHOUT_ARGUMENTS = {
    *(("demo",), ("completion",), ("help",), ("profile", "list"), ("profile", "use"), ("broker", "run")),
    *(("spark", "archive"), ("spark", "compact"), ("group", "metrics")),
}


def words_of(path: tuple[str, ...]) -> list[str]:
    """Return the command line of this command."""
    return [*path, *(word.replace("_", " ") for word in ARGUMENTS[path].split())]
