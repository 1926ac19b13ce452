"""`kcli assignor show`: what an assignor gives to members that need not exist."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.assignor.options import Compare, Members, Owned, Topics
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError


def run(
    env: Environment,
    common: Common,
    strategy: Annotated[str | None, Option("--strategy", "-s", metavar="NAME", help="The assignor.")] = None,
    member: Members = None,
    topic: Topics = None,
    owned: Owned = None,
    compare: Compare = None,
) -> int:
    """Who gets what from an assignor: of members that need not exist, of topics that need not either.

    Assignors are those of members (range, roundrobin, sticky, cooperative-sticky) and those of brokers (uniform,
    server-range). The outcome is that of Kafka's own classes. Where every topic is given with its number of partitions
    no cluster is asked.

    --member a=orders,payments@rack-1:worker-7 reads two topics, is in a rack, and has a group.instance.id. --topic
    orders=4@a+b,b+c has the replicas of its even partitions in racks a and b, of its odd ones in b and c. --owned
    'a=orders:0-2,5;payments:1' is what the sticky assignors begin with; a member without it has just come.

    Standard error tells how even it is: the most that a member has by what one has on average. Cooperative members
    give up in one rebalance what others get in the next; shown is how it ends.
    """
    from kcli.cli.assignor.assignors import parse_assignor, parse_assignors
    from kcli.cli.assignor.grammar import parse_members, parse_owned, parse_topic_facts
    from kcli.cli.assignor.outlook import SHOW, look_ahead, show_outlook
    from kcli.cli.assignor.situation import given_situation

    assignors = [parse_assignor("--strategy", strategy)] if strategy is not None else []
    assignors += [name for name in parse_assignors("--compare", compare or []) if name not in assignors]
    if not assignors:
        raise ConfigError("say which assignor: --strategy NAME, or --compare NAME,NAME for several")
    members = parse_owned(owned or [], parse_members("--member", member or []))
    if not members:
        raise ConfigError("say who the members are: --member NAME=TOPIC,TOPIC for each")
    found = given_situation(common, "", members, parse_topic_facts(topic or []))
    show_outlook(env, SHOW, look_ahead(found, assignors), common.output, compared=compare is not None)
    return exit_status.DONE
