"""Any assignor by name, those of members (classic protocol) and those of the server (KIP-848), for forecasts."""

from collections.abc import Callable, Sequence

from kcli.assignors import server_range, uniform
from kcli.assignors.model import Assignment, Member, Topics
from kcli.assignors.server_order import as_it_comes
from kcli.assignors.strategies import STRATEGIES
from kcli.errors import ConfigError

Assign = Callable[[Topics, Sequence[Member]], Assignment]

# The server calls both by shorter names: "uniform" and "range". The latter is also a strategy of classic members, and
# another one, so here it has a name of its own.
SERVER_ASSIGNORS: dict[str, Assign] = {"uniform": uniform.assign, "server-range": server_range.assign}

# As SERVER_ASSIGNORS, under the names that groups, brokers and ConsumerGroupDescribe use.
NAMES_ON_SERVER: dict[str, str] = {"uniform": "uniform", "range": "server-range"}


def assign_by(name: str, topics: Topics, members: Sequence[Member]) -> Assignment:
    """The assignment by a classic strategy (its name or Java class) or a server's assignor.

    ConfigError, naming those there are, if there is none of that name. For a server's assignor `owned` of a member is
    its target assignment of before, and the ids of the topics should be known: Kafka's order depends on them. In which
    order members come does not matter, so of a group whose members share buckets in the server's hash tables the
    outcome may differ from Kafka's in who gets what, though not in how much; `uniform.assign` tells how to know.
    """
    if name in SERVER_ASSIGNORS:
        return SERVER_ASSIGNORS[name](topics, as_it_comes(members))
    for strategy in STRATEGIES.values():
        if name in (strategy.name, strategy.java_class):
            return strategy.assign(topics, members)
    raise ConfigError(f"there is no assignor {name!r}; there are {', '.join([*STRATEGIES, *SERVER_ASSIGNORS])}")
