"""Options that both commands have: members, topics and what is owned, and which assignors to compare."""

from __future__ import annotations

from typing import Annotated

from kcli.cli.parser import Option

Members = Annotated[
    list[str] | None,
    Option(
        "--member",
        "-m",
        metavar="NAME[=TOPIC,TOPIC[@RACK][:INSTANCE]]",
        help="A member and what it reads (nothing said: all there is); repeatable.",
    ),
]
Topics = Annotated[
    list[str] | None,
    Option(
        "--topic",
        "-t",
        metavar="TOPIC[=N[@RACKS]]",
        help="A topic with N partitions; without N, or not named at all: as the cluster has it; repeatable.",
    ),
]
Owned = Annotated[
    list[str] | None,
    Option(
        "--owned",
        metavar="NAME=TOPIC:P,P[;TOPIC:P][@GENERATION]",
        help="What a member says it owns, in which generation [1]; repeatable.",
    ),
]
Compare = Annotated[
    list[str] | None,
    Option("--compare", metavar="NAME,NAME", help="A row for each of these assignors instead of each member."),
]
