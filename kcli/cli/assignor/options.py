"""Options of the assignor commands: described members and topics, changes, and assignors to compare."""

from typing import Annotated, NamedTuple

from kcli.cli.parser import Option

Compare = Annotated[
    list[str] | None,
    Option("--compare", metavar="NAME,NAME", help="Show one row per assignor instead of one per member."),
]


class DescribedOptions(NamedTuple):
    """Members, topics and owned partitions that need not exist."""

    member: Annotated[
        list[str] | None,
        Option(
            "--member",
            "-m",
            metavar="NAME[=TOPIC,TOPIC[@RACK][:INSTANCE]]",
            help="Add a member with its topics (default: all topics); repeatable.",
        ),
    ] = None
    topic: Annotated[
        list[str] | None,
        Option(
            "--topic",
            "-t",
            metavar="TOPIC[=N[@RACKS]]",
            help="Assume a topic with N partitions (without N: as in the cluster); repeatable.",
        ),
    ] = None
    owned: Annotated[
        list[str] | None,
        Option(
            "--owned",
            metavar="NAME=TOPIC:P,P[;TOPIC:P][@GENERATION]",
            help="Set the partitions that a member owns, and their generation [1]; repeatable.",
        ),
    ] = None


class ChangeOptions(NamedTuple):
    """The assignor to forecast with, and changes of the group."""

    to: Annotated[str | None, Option("--to", metavar="NAME", help="Forecast with this assignor. [today's]")] = None
    members: Annotated[
        str | None,
        Option("--members", metavar="+N|-N", help="Add N members (sorted last), or remove the last N."),
    ] = None
    add: Annotated[
        list[str] | None,
        Option(
            "--add",
            metavar="NAME[=TOPIC,TOPIC[@RACK][:INSTANCE]]",
            help="Add a member (default: the most common topics); repeatable.",
        ),
    ] = None
    remove: Annotated[
        list[str] | None,
        Option("--remove", metavar="MEMBER", help="Remove a member by its id, instance id or client id; repeatable."),
    ] = None
    partitions: Annotated[
        list[str] | None,
        Option("--partitions", metavar="TOPIC=N", help="Assume that a topic has N partitions; repeatable."),
    ] = None
    compare: Compare = None
