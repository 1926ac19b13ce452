"""`kcli demo`: start a broker, write example orders to it, and run the real commands on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.demo.steps import Step, run_step
from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.demo.own_broker import OwnBroker


def run(
    env: Environment,
    keep: Annotated[bool, Option("--keep", help="Leave the broker running, and list commands to try.")] = False,
    secure: Annotated[
        bool, Option("--secure", help="Use TLS and a password (SASL_SSL with SCRAM), and show the client's properties.")
    ] = False,
    nodes: Annotated[
        int | None,
        Option(
            "--nodes", metavar="N", min=2, max=9, help="Run a cluster of N brokers, and kill the leader of a partition."
        ),
    ] = None,
) -> int:
    """Start a broker, fill it with a shop's orders, and run the main commands on them.

    No Kafka is needed: the broker is kcli's own, on a free port. At the end it is stopped and its data is deleted,
    unless --keep is given. The demo takes a few seconds.

    With --nodes it starts a cluster instead, kills the process of a leader, and shows that another replica leads, that
    no acknowledged record is lost, and how the killed node returns.
    """
    if nodes is not None and secure:
        raise ConfigError("--nodes and --secure cannot be combined; choose one")
    if nodes is not None:
        from kcli.cli.demo.cluster_demo import run_cluster_demo

        return run_cluster_demo(env, nodes, keep=keep)
    from kcli.cli.demo.fill import TOPIC, fill
    from kcli.cli.demo.own_broker import own_broker

    out = env.stdout
    with own_broker(keep=keep, secure=secure) as broker:
        out.write(f"A broker runs at {broker.address}; its data is deleted when it stops.\n")
        out.writelines(f"{line}\n" for line in fill(broker.properties, env.clock))
        if broker.client_file is not None:
            out.write(
                "\nIt accepts only clients with TLS and the password of a user. Their properties are in a file:\n"
            )
            out.write(f"\n$ cat {broker.client_file}\n{broker.client_file.read_text('utf-8')}")
        variable, value = _connection(broker)
        out.write(f"\n$ export {variable}={value}\n")
        failed = 0
        for step in tour(TOPIC):
            status = run_step(env, {variable: value}, step)
            if status == exit_status.INTERRUPTED:
                return status
            failed += status != exit_status.DONE
        if keep:
            out.write(f"\nThe broker is still running; `kill {broker.pid}` stops it and deletes its data. Try:\n\n")
            out.writelines(f"  {line}\n" for line in to_try(broker, TOPIC))
        else:
            out.write(
                "\nThe demo is complete: the broker is stopped and its data is deleted. `kcli demo "
                "--keep` leaves it running.\n"
            )
    return exit_status.FAILED if failed else exit_status.DONE


def _connection(broker: OwnBroker) -> tuple[str, str]:
    """Return the variable of kcli that connects to the broker, and its value."""
    if broker.client_file is None:
        return "KCLI_BOOTSTRAP_SERVER", broker.address
    return "KCLI_COMMAND_CONFIG", str(broker.client_file)


def tour(topic: str) -> list[Step]:
    """Return the commands that the demo runs, in order."""
    import json

    order = {"order": 99_999, "event": "placed", "customer": "c007", "item": "lamp", "cents": 3900, "city": "Porto"}
    line = "c007|" + json.dumps(order, separators=(",", ":"))
    return [
        Step("Show the cluster and its brokers.", ("cluster", "describe")),
        Step("List the topics.", ("topic", "list")),
        Step("Show the partitions of a topic and their offsets.", ("topic", "describe", topic, "--offsets")),
        Step(
            "Read the last two records of each partition.", ("consume", topic, "-o", "-2", "-e", "-f", r"%p %o %k %s\n")
        ),
        Step(
            "Read refunds of the last half hour, from the app, as JSON.",
            _words(f"consume {topic} -o @-30m -e --grep refunded --header source=app -n 3 --output jsonl"),
        ),
        Step("Write one more order.", ("produce", topic, "-K", "|"), line),
        Step("Read that order.", ("consume", topic, "-o", "-1", "-e", "--grep", "99999", "-f", r"%k at %p:%o %s\n")),
        Step("List the groups that read the topic.", ("group", "list", "--topic", topic)),
        Step("Show the lag of group mailing, in records and in time.", ("group", "describe", "mailing")),
        Step(
            "Join a new group and read three records.",
            (*_words(f"consume {topic} --group newsletter -o start -n 3 -f"), r"%p:%o %k\n"),
        ),
        Step(
            "Join again: printed records are committed, so the group continues after them.",
            (*_words(f"consume {topic} --group newsletter -o start -n 2 -f"), r"%p:%o %k\n"),
        ),
        Step("Show one line per group, for scripts; add --fail-if 'lag>1000' for an alarm.", ("group", "lag", "--all")),
    ]


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


def to_try(broker: OwnBroker, topic: str) -> list[str]:
    """Return command lines to try while the broker runs."""
    variable, value = _connection(broker)
    kcat = f"kcat -b {broker.address}" if broker.kcat_file is None else f"kcat -F {broker.kcat_file}"
    return [
        f"export {variable}={value}",
        f"kcli consume {topic}                                # follow it",
        f"kcli produce {topic} -K '|'                         # type key|value lines",
        f"kcli consume {topic} -o @-1h:-30m -e --output csv   # a time range",
        "kcli group explain mailing                         # why it has lag",
        "kcli group watch mailing                           # lag and rates, live",
        f"{kcat} -C -t {topic} -o beginning -e     # or any Kafka client",
    ]
