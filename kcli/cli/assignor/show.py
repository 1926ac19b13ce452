"""`kcli assignor show`: the assignment for members that the command line describes."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.assignor.options import Compare, DescribedOptions
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError


def run(
    env: Environment,
    common: Common,
    *,
    strategy: Annotated[str | None, Option("--strategy", "-s", metavar="NAME", help="Use this assignor.")] = None,
    described: DescribedOptions,
    compare: Compare = None,
) -> int:
    """Show the assignment for members and topics that need not exist.

    Assignors are those of clients (range, roundrobin, sticky, cooperative-sticky) and those of brokers (uniform,
    server-range). The result is that of Kafka's own classes. If all topics are given with their number of partitions,
    no cluster is needed.

    --member a=orders,payments@rack-1:worker-7 subscribes to two topics, is in a rack, and has a group.instance.id.
    --topic orders=4@a+b,b+c has the replicas of its even partitions in racks a and b, those of its odd ones in b and c.
    --owned 'a=orders:0-2,5;payments:1' is the previous assignment for the sticky assignors; a member without it is new.

    The skew on stderr is the largest number of partitions of a member divided by the mean. With cooperative-sticky, a
    partition moves in two rebalances; shown is the final assignment.
    """
    from kcli.cli.assignor.forecast_report import SHOW, make_forecasts, show_forecasts
    from kcli.cli.assignor.grammar import parse_assignors, parse_described_topics, parse_members, parse_owned
    from kcli.cli.assignor.situation import described_situation

    assignors = parse_assignors("--strategy", strategy, compare or [])
    if not assignors:
        raise ConfigError("the assignor is missing; give --strategy NAME, or --compare NAME,NAME for several")
    members = parse_owned(described.owned or [], parse_members("--member", described.member or []))
    if not members:
        raise ConfigError("the members are missing; give --member NAME=TOPIC,TOPIC for each")
    situation = described_situation(common, "", members, parse_described_topics(described.topic or []))
    show_forecasts(env, SHOW, make_forecasts(situation, assignors), common.output, compared=compare is not None)
    return exit_status.DONE
