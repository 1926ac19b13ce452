"""`kcli demo`: start a broker, write example orders to it, and run the real commands on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from kcli.cli.demo.own_broker import OwnBroker


def run(
    env: Environment,
    keep: Annotated[bool, Option("--keep", help="Leave the broker running, and list commands to try.")] = False,
    secure: Annotated[
        bool, Option("--secure", help="Use TLS and a password (SASL_SSL with SCRAM), and show the client's properties.")
    ] = False,
) -> int:
    """Start a broker, fill it with a shop's orders, and run the main commands on them.

    No Kafka is needed: the broker is kcli's own, on a free port. At the end it is stopped and its data is deleted,
    unless --keep is given. The demo takes a few seconds.
    """
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
            out.write(f"\n# {step.comment}\n$ {step.shown}\n")
            out.flush()
            status = _kcli(env, {variable: value}, step.words, step.input)
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


def _kcli(env: Environment, variables: dict[str, str], words: tuple[str, ...], piped: str | None) -> int:
    """Run one kcli command with all its output on standard output; return its exit status."""
    from io import BytesIO, TextIOWrapper

    from kcli.cli.app import run as run_kcli

    stdin = TextIOWrapper(BytesIO(b"" if piped is None else f"{piped}\n".encode()), "utf-8")
    environ = {name: value for name, value in env.environ.items() if not name.startswith("KCLI_")}
    environ |= variables
    inner = Environment(stdin, env.stdout, env.stdout, environ, env.clock)
    status = run_kcli(words, inner)
    return exit_status.INTERRUPTED if inner.interrupted else status


class Step(NamedTuple):
    """A command of the demo: `words` follow `kcli`; `input` is piped into it by an `echo` that is printed."""

    comment: str
    words: tuple[str, ...]
    input: str | None = None

    @property
    def shown(self) -> str:
        """The command line as a user would type it."""
        import shlex

        command = shlex.join(("kcli", *self.words))
        return command if self.input is None else f"echo {shlex.quote(self.input)} | {command}"


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
