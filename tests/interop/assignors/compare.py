"""Our assignors beside Kafka's own classes, on the same cases.

Range and round robin must agree. Kafka's sticky classes iterate over hash tables, so some of their results depend on
the hash codes of names. Where our result differs, the case is repeated under many other names with the same sort order:
if all of Kafka's results agree, ours is wrong; if not, ours must be as balanced as the best of them and move no more
partitions than the worst.

Kafka's general algorithm has a fault: a partition can go back to a member that claims it from an older generation and
no longer subscribes to its topic. It stays there, or moves on, or the class throws NullPointerException. Where this is
possible, a differing result proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from string import ascii_letters
from typing import NamedTuple

from kcli.assignors.claims import settle
from kcli.assignors.lookup import SERVER_ASSIGNORS, STRATEGIES
from kcli.assignors.model import Assignment, subscribed
from kcli.structs import TopicPartition
from tests.assignors.cases import Case
from tests.interop.assignors.oracle import Oracle, assignment, question, server_question

LETTERS = 3  # the first letters distinguish a name; the rest is noise
DOUBTS, ASKED_AT_ONCE = 30, 5
EXACT, STICKY = ("range", "roundrobin"), ("sticky", "cooperative-sticky")
Outcomes = dict[str, "Assignment | None"]  # by strategy; None where Kafka's class threw


class Standing(NamedTuple):
    """Counts of equal cases, of cases that depend on hash codes, of cases with Kafka's fault; and the wrong ones as
    texts.
    """

    same: int
    by_hash: int
    at_fault: int
    wrong: list[str]


def compare(oracle: Oracle, cases: Sequence[Case]) -> Standing:
    """Compare all four assignors on all cases."""
    same, at_fault, wrong = 0, 0, []
    doubtful: dict[int, list[str]] = {}
    for number, (case, kafkas) in enumerate(zip(cases, ask(oracle, cases), strict=True)):
        ours = answer(case)
        unlike = [name for name in STRATEGIES if ours[name] != kafkas[name]]
        wrong += [difference(f"{name} differs", case, ours[name], [kafkas[name]]) for name in EXACT if name in unlike]
        if not unlike:
            same += 1
        elif set(unlike) & set(STICKY):
            at_fault += (excused := fault_possible(case))
            if not excused:
                doubtful[number] = [name for name in STICKY if name in unlike]
    for number, names in doubtful.items():
        wrong += judge(oracle, cases[number], names)
    return Standing(same, len(doubtful), at_fault, wrong)


def compare_servers(oracle: Oracle, cases: Sequence[Case]) -> list[str]:
    """Return the differences between our server assignors and Kafka's; both get everything in the same order."""
    names = list(SERVER_ASSIGNORS)
    wrong: list[str] = []
    asked = (server_question(case.topics, case.members, names) for case in cases)
    for case, answers in zip(cases, oracle.ask(asked), strict=True):
        for name in names:
            ours, kafkas = SERVER_ASSIGNORS[name](case.topics, case.members), assignment(answers[name])
            if ours != kafkas:
                wrong.append(difference(f"{name} differs", case, ours, [kafkas]))
    return wrong


def judge(oracle: Oracle, case: Case, names: Sequence[str]) -> list[str]:
    """Return the faults of our result, considering that Kafka's can depend on hash codes."""
    answers: list[Outcomes] = []
    wrong: list[str] = []
    while len(answers) < DOUBTS:
        asked = [renamed(case, Random(f"{len(answers)}/{number}")) for number in range(ASKED_AT_ONCE)]
        answers += [{name: plain(each[name]) for name in STICKY} for each in ask(oracle, asked)]
        wrong = list(_beside(case, names, answers))
        if not wrong:
            break
    return wrong


def _beside(case: Case, names: Sequence[str], answers: Sequence[Outcomes]) -> Iterator[str]:
    ours = answer(case)
    for name in names:
        if all(each[name] == answers[0][name] for each in answers):
            yield difference(f"{name} differs", case, ours[name], [answers[0][name]])
    if "sticky" in names:
        mine, theirs = ours["sticky"], [each["sticky"] for each in answers]
        if spread(mine) > min(map(spread, theirs)):
            yield difference("less even than Kafka's", case, mine, theirs)
        if taken_away(case, mine) > max(taken_away(case, each) for each in theirs):
            yield difference("takes away more than Kafka's", case, mine, theirs)


def ask(oracle: Oracle, cases: Sequence[Case]) -> Iterator[Outcomes]:
    """Return Kafka's results for each case."""
    asked = (question(case.topics, case.members, list(STRATEGIES)) for case in cases)
    for case, found in zip(cases, oracle.ask(asked), strict=True):
        yield {name: careful(case, name, assignment(found[name])) for name in STRATEGIES}


def answer(case: Case) -> Outcomes:
    """Return our result."""
    return {
        name: {member: sorted(partitions) for member, partitions in strategy.assign(case.topics, case.members).items()}
        for name, strategy in STRATEGIES.items()
    }


def careful(case: Case, name: str, found: Assignment | None) -> Assignment | None:
    """Return Kafka's cooperative result without partitions that another member claims equally: ours withholds these,
    too.
    """
    if found is None or name != "cooperative-sticky":
        return found
    claims = settle(subscribed(case.topics, case.members), case.members)
    owners = claims.owners()
    return {
        member: [each for each in partitions if owners.get(each, member) == member and each not in claims.disputed]
        for member, partitions in found.items()
    }


def fault_possible(case: Case) -> bool:
    """True if a member claims, from an older generation, a topic that it no longer subscribes to."""
    if all(member.topics == case.members[0].topics for member in case.members):
        return False
    newest = max(member.generation for member in case.members)
    there = subscribed(case.topics, case.members).keys()
    return any(
        topic in there - member.topics
        for member in case.members
        if member.generation < newest
        for topic, _ in member.owned
    )


def spread(found: Assignment | None) -> int:
    """Return the sum of squared sizes: the smaller, the more balanced."""
    assert found is not None
    return sum(len(partitions) ** 2 for partitions in found.values())


def taken_away(case: Case, found: Assignment | None) -> int:
    """Return how many partitions moved away from a known owner that still subscribes to them."""
    assert found is not None
    wants = {member.id: member.topics for member in case.members}
    owners = settle(case.topics, case.members).owners()
    return sum(each not in found[owner] for each, owner in owners.items() if each.topic in wants[owner])


def renamed(case: Case, random: Random) -> Case:
    """Return the same case under other names with the same sort order."""
    noise = {name: name + "".join(random.choices(ascii_letters, k=3)) for name in sorted(_names(case))}
    members = [
        member._replace(
            id=noise[member.id],
            topics=frozenset(noise[topic] for topic in member.topics),
            owned=tuple(TopicPartition(noise[topic], p) for topic, p in member.owned),
        )
        for member in case.members
    ]
    return Case({noise[name]: topic for name, topic in case.topics.items()}, members)


def _names(case: Case) -> set[str]:
    owned = {partition.topic for member in case.members for partition in member.owned}
    wanted = {topic for member in case.members for topic in member.topics}
    return {member.id for member in case.members} | set(case.topics) | owned | wanted


def plain(found: Assignment | None) -> Assignment | None:
    """Return an assignment of a renamed case under the original names."""
    if found is None:
        return None
    return {
        member[:LETTERS]: sorted(TopicPartition(topic[:LETTERS], p) for topic, p in partitions)
        for member, partitions in found.items()
    }


def difference(what: str, case: Case, ours: Assignment | None, theirs: Iterable[Assignment | None]) -> str:
    """Return a difference as readable text."""
    answers = sorted({_shown(each) for each in theirs})
    return "\n  ".join([f"{what}: {case!r}", f"ours   {_shown(ours)}", *(f"theirs {each}" for each in answers)])


def _shown(found: Assignment | None) -> str:
    if found is None:
        return "an exception"
    return "  ".join(f"{member}=[{','.join(map(str, partitions))}]" for member, partitions in sorted(found.items()))
