"""`kcli assignor diff`: the current assignment of a group beside the next one. It never joins and never commits."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.assignor.options import ChangeOptions, DescribedOptions
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option


def run(
    env: Environment,
    common: Common,
    *,
    group: Annotated[str | None, Argument(metavar="[GROUP]", help="Group of the cluster.")] = None,
    changes: ChangeOptions,
    described: DescribedOptions,
    strategy: Annotated[
        str | None,
        Option("--strategy", "-s", metavar="NAME", help="Assume this as today's assignor of the --member list."),
    ] = None,
) -> int:
    """Show what the next rebalance of a group would change: partitions kept, gained and lost by each member, and the
    skew.

    The current assignment is compared with that of another assignor (--to), of more or fewer members (--members, --add,
    --remove), of a topic with more partitions (--partitions), or with all of these together. Without any of them, it is
    compared with the result of a rebalance now. --compare range,sticky,uniform shows one row per assignor. The command
    changes nothing.

    For each member the table shows, before and after: partitions, lag, and RATE, the offsets per second of the last
    minute by record timestamps. Stderr has the number of partitions that move, the number that stop during the
    rebalance with the eager and with the cooperative protocol, and the skew: the largest load of a member divided by
    the mean.

    The partitions of a new member depend on its place in the order of members: static ones come first, by instance id,
    then the others by member id, which in classic groups is the client id, a hyphen and a random UUID. --members puts
    it last; --add gives it the NAME as id. Where Kafka decides by hash codes of random ids, as sticky and uniform
    sometimes do, another member may get the extra partition. A group leader with another client library, such as
    librdkafka, has rules of its own.

    In a group whose broker assigns, range is the broker's assignor, and today's assignment is the target assignment. If
    the group rebalances, the command waits for the end of the rebalance. Members that subscribe to a pattern of RE2
    need the Python package google-re2: pip install 'kcli-kafka[regex]'.

    Without GROUP, --member, --topic and --owned describe a group, as in `kcli assignor show`. Without --owned its
    members have the assignment of --strategy (or else --to).
    """
    from kcli.cli.assignor.diff_options import DiffOptions, situation_of
    from kcli.cli.assignor.forecast_report import DIFF, make_forecasts, show_forecasts

    options = DiffOptions.parse(group, changes, described, strategy)
    situation = situation_of(common, options)
    forecasts = make_forecasts(situation, options.assignors_for(situation), options.changes_for(situation))
    show_forecasts(env, DIFF, forecasts, common.output, compared=changes.compare is not None)
    return exit_status.DONE
