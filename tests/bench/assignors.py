"""Speed of the assignors on large groups, and agreement with Kafka's classes on many small ones.

    python -m tests.bench.assignors [--cases 20000] [--examples 10000] [--seed 1] [--slow]

The first table has seconds of CPU for 2,000 members and 20,000 partitions, for new groups and for groups of which a
twentieth of the members was replaced, beside Kafka's class in a JVM that has computed the same twice before. With
--slow it includes the cases in which Kafka's class takes minutes. Then come the comparisons with Kafka's classes, and
the properties. It fails if sticky or the server's uniform takes more than 2 s, if an assignment differs where it must
be equal, or if a property does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from random import Random
from uuid import UUID

from kcli.assignors.lookup import SERVER_ASSIGNORS, STRATEGIES, assign_by
from kcli.assignors.model import Assignment, Member, Topic
from tests.assignors.cases import Case, make_cases
from tests.assignors.properties import faults
from tests.assignors.server_cases import make_server_cases
from tests.interop.assignors.compare import compare, compare_servers
from tests.interop.assignors.oracle import SERVERS_CLASSES, Oracle, question, server_question
from tests.real_kafka import fetch_jars

MEMBERS, PARTITIONS, MOST_S = 2_000, 20_000, 2.0
LIMITED = ("sticky", "uniform")
SHAPES = (  # topics, all members want all of them, racks, whether Kafka's sticky class takes minutes
    (2, True, False, False),
    (200, True, False, False),
    (500, True, False, False),
    (200, True, True, False),
    (200, False, False, True),
    (200, False, True, True),
)
BATCH = 2_000


def main() -> None:
    """Run all parts; the exit status is 0 if all of them pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    jars = fetch_jars()
    flags = ("-Xmx1500m", "-XX:+UseSerialGC")
    with Oracle(jars, flags) as oracle, Oracle(jars, flags, SERVERS_CLASSES) as server:
        good = measure(oracle, server, options.slow)
    with Oracle(jars) as oracle:
        good &= compare_many(oracle, options.cases, options.seed)
    with Oracle(jars, source=SERVERS_CLASSES) as server:
        good &= compare_many_servers(server, options.cases, options.seed)
    good &= check_properties(options.examples, options.seed)
    sys.exit(0 if good else 1)


def measure(oracle: Oracle, server: Oracle, slow: bool) -> bool:
    """Print the table of CPU times."""
    print(f"{MEMBERS} members, {PARTITIONS} partitions: seconds")
    columns = f"{'kcli new':>10}{'again':>8}{'kafka new':>11}{'again':>8}"
    print(f"{'assignor':19}{'topics':>7}  {'subscriptions':14}{'racks':6}{columns}")
    worst = dict.fromkeys(LIMITED, 0.0)
    for name in (*STRATEGIES, *SERVER_ASSIGNORS):
        for topics, alike, racks, slow_there in SHAPES:
            if racks and name in SERVER_ASSIGNORS:
                continue
            case = large(topics, alike, racks)
            start = time.process_time()
            found = assign_by(name, case.topics, case.members)
            new_s = time.process_time() - start
            case_again = replaced(case, found)
            start = time.process_time()
            assign_by(name, case_again.topics, case_again.members)
            again_s = time.process_time() - start
            ask_kafka = slow or not (slow_there and "sticky" in name)
            judge = server if name in SERVER_ASSIGNORS else oracle
            kafka = [kafka_s(judge, name, each) if ask_kafka else "-" for each in (case, case_again)]
            if name in LIMITED:
                worst[name] = max(worst[name], new_s, again_s)
            shape = f"{topics:>7}  {'equal' if alike else 'unequal':14}{'yes' if racks else 'no':6}"
            print(f"{name:19}{shape}{new_s:10.2f}{again_s:8.2f}{kafka[0]:>11}{kafka[1]:>8}", flush=True)
    for name, most_s in worst.items():
        print(f"{name}: {most_s:.2f} s at most, {MOST_S:.0f} s allowed")
    return max(worst.values()) <= MOST_S


def large(topics: int, alike: bool, racks: bool) -> Case:
    """Return a large group; unless `alike`, each member subscribes to half of the topics."""
    random = Random(topics)
    count = PARTITIONS // topics
    places = [frozenset(random.sample("abc", 2)) for _ in range(count)] if racks else []
    all_topics = {
        f"topic-{number:04}": Topic(count, tuple(places), UUID(int=random.getrandbits(128))) for number in range(topics)
    }
    names = list(all_topics)
    everything = frozenset(names)
    members = [
        Member(
            f"member-{number:04}",
            everything if alike else frozenset(random.sample(names, len(names) // 2)),
            rack=random.choice("abc") if racks else None,
        )
        for number in range(MEMBERS)
    ]
    return Case(all_topics, members)


def replaced(case: Case, found: Assignment) -> Case:
    """Return the group after that assignment, with a twentieth of its members replaced by new ones."""
    leaving = len(case.members) // 20
    stayed = [member._replace(owned=tuple(found[member.id]), generation=1) for member in case.members[leaving:]]
    come = [member._replace(id=f"new-{member.id}") for member in case.members[:leaving]]
    return Case(case.topics, stayed + come)


def kafka_s(oracle: Oracle, name: str, case: Case) -> str:
    """Return the seconds that Kafka's class takes for its third run."""
    asked = (server_question if name in SERVER_ASSIGNORS else question)(case.topics, case.members, [name])
    *_, last = oracle.ask([asked] * 3)
    return f"{last[name]['ms'] / 1000:.2f}"


def compare_many(oracle: Oracle, cases: int, seed: int) -> bool:
    """Print the agreement of our assignors with Kafka's classes."""
    same = by_hash = at_fault = 0
    wrong: list[str] = []
    start = time.monotonic()
    for first in range(0, cases, BATCH):
        standing = compare(oracle, list(make_cases(min(BATCH, cases - first), seed * 1_000_000 + first)))
        same, by_hash, at_fault = same + standing.same, by_hash + standing.by_hash, at_fault + standing.at_fault
        wrong += standing.wrong
    print(f"\n{cases} groups, each under four assignors, beside Kafka's classes in {time.monotonic() - start:.0f} s:")
    print(f"{same:7} the same\n{by_hash:7} hang on hash codes in Kafka, ours as even and as sticky")
    print(f"{at_fault:7} where Kafka may give back to who does not want it\n{len(wrong):7} wrong")
    return _none(wrong)


def compare_many_servers(server: Oracle, cases: int, seed: int) -> bool:
    """Print the agreement of the server's assignors with Kafka's classes, whose results are all determined."""
    wrong: list[str] = []
    start = time.monotonic()
    for first in range(0, cases, BATCH):
        wrong += compare_servers(server, list(make_server_cases(min(BATCH, cases - first), seed * 1_000_000 + first)))
    seconds = time.monotonic() - start
    print(f"\n{cases} groups under the server's two, beside the coordinator's classes in {seconds:.0f} s:")
    print(f"{len(wrong):7} wrong")
    return _none(wrong)


def check_properties(examples: int, seed: int) -> bool:
    """Print the number of assignments that violate a property."""
    made = (
        (STRATEGIES, make_cases(examples, seed + 7)),
        (SERVER_ASSIGNORS, make_server_cases(examples, seed + 7)),
    )
    wrong = [
        f"{name}: {fault}: {case!r}"
        for names, cases in made
        for case in cases
        for name in names
        for fault in faults(case, name, assign_by(name, case.topics, case.members))
    ]
    print(f"\n{examples} groups each, properties of all assignors: {len(wrong)} faults")
    return _none(wrong)


def _none(wrong: Sequence[str]) -> bool:
    for text in wrong[:5]:
        print(text)
    return not wrong


if __name__ == "__main__":
    main()
