"""Options of both assignor commands: members, topics, owned partitions, and assignors to compare."""

from __future__ import annotations

from typing import Annotated

from kcli.cli.parser import Option

Members = Annotated[
    list[str] | None,
    Option(
        "--member",
        "-m",
        metavar="NAME[=TOPIC,TOPIC[@RACK][:INSTANCE]]",
        help="Add a member with its topics (default: all topics); repeatable.",
    ),
]
Topics = Annotated[
    list[str] | None,
    Option(
        "--topic",
        "-t",
        metavar="TOPIC[=N[@RACKS]]",
        help="Assume a topic with N partitions (without N: as in the cluster); repeatable.",
    ),
]
Owned = Annotated[
    list[str] | None,
    Option(
        "--owned",
        metavar="NAME=TOPIC:P,P[;TOPIC:P][@GENERATION]",
        help="Set the partitions that a member owns, and their generation [1]; repeatable.",
    ),
]
Compare = Annotated[
    list[str] | None,
    Option("--compare", metavar="NAME,NAME", help="Show one row per assignor instead of one per member."),
]
