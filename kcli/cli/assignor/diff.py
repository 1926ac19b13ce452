"""`kcli assignor diff`: today's assignment of a group beside the one that would follow. Never joins, never commits."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.assignor.options import Compare, Members, Owned, Topics
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option


def run(
    env: Environment,
    common: Common,
    group: Annotated[str | None, Argument(metavar="[GROUP]", help="A group of the cluster.")] = None,
    to: Annotated[str | None, Option("--to", metavar="NAME", help="The assignor. [the one of today]")] = None,
    members: Annotated[
        str | None,
        Option("--members", metavar="+N|-N", help="So many more members, that sort last, or fewer of those."),
    ] = None,
    add: Annotated[
        list[str] | None,
        Option(
            "--add",
            metavar="NAME[=TOPIC,TOPIC[@RACK][:INSTANCE]]",
            help="A new member (nothing said: reads what most others do); repeatable.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        Option("--remove", metavar="MEMBER", help="A member goes, by its id, instance id or client id; repeatable."),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        Option("--partitions", metavar="TOPIC=N", help="A topic gets N partitions; repeatable."),
    ] = None,
    compare: Compare = None,
    member: Members = None,
    topic: Topics = None,
    owned: Owned = None,
    strategy: Annotated[
        str | None, Option("--strategy", "-s", metavar="NAME", help="Today's assignor of the --member list.")
    ] = None,
) -> int:
    """What the next rebalance of a group would do: who keeps, gains and loses what, and how even it gets.

    Today's assignment is compared with that of another assignor (--to), of more or fewer members (--members, --add,
    --remove), of a topic with more partitions (--partitions), or of all that together; of nothing, with what a
    rebalance would do now. --compare range,sticky,uniform has a row for each assignor. Nothing is changed by it.

    Before and after, for each member: partitions, lag, and RATE, offsets per second that the last minute brought, by
    the times of the records. Standard error tells how many partitions move, how many stop meanwhile under the eager
    and under the cooperative protocol, and how even it is: the most that a member has by what one has on average.

    A new member gets what its place among the others gives it: static ones come first, by instance id, then the rest by
    member id, which in classic groups is the client id, a hyphen and a random UUID. --members puts it last, the NAME of
    --add where you say. Where hash codes of random ids decide which of two equals gets one more, as with sticky and
    uniform now and then, it may be the other one. A leader of another maker, librdkafka's for one, has its own rules.

    In a group whose broker assigns, range is the broker's, and today's assignment is the target one. A group that
    rebalances is waited for.

    Without GROUP, --member, --topic and --owned describe one, as in `kcli assignor show`; without --owned its members
    have what --strategy (or else --to) gives them.
    """
    from kcli.cli.assignor.diff_options import DiffOptions, situation_of
    from kcli.cli.assignor.outlook import DIFF, look_ahead, show_outlook

    options = DiffOptions.parse(
        group, to, members, add, remove, partitions, compare, given=(member, topic, owned), strategy=strategy
    )
    found = situation_of(common, options)
    outlook = look_ahead(found, options.assignors_for(found), options.changes_for(found))
    show_outlook(env, DIFF, outlook, common.output, compared=compare is not None)
    return exit_status.DONE
