"""Judgement of a storm by the members' events: no record skipped, none processed after another member owned it. Pure.

The rules hold for all clients, because the broker enforces them or a rebalance needs them. All times are of one clock.
A member that was stopped (SIGSTOP) longer than its session cannot know at once that it owns nothing any more. What it
does before it learns this is counted and not a failure, except for members in `strict`.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcli.structs import TopicPartition

MOST_TOLD = 20


class Story(NamedTuple):
    """One member's life: its events in order, the times when it was stopped, and its end (None: still running). All in
    ns.
    """

    name: str
    maker: str
    events: Sequence[Mapping[str, Any]]
    stops: Sequence[tuple[int, int]] = ()
    end: int | None = None


class Account(NamedTuple):
    """The result. `repeated` records were reported more than once, `stale` batches by stopped members."""

    members: int
    records: int
    repeated: int
    commits: int
    commits_failed: int
    stale: dict[str, int]


class _Held(NamedTuple):
    story: Story
    start: int
    end: int


def judge(
    stories: Sequence[Story], ends: Mapping[TopicPartition, int], strict: frozenset[str] = frozenset()
) -> Account:
    """Return the result; AssertionError names the fault. `ends` are the log ends up to which all was read."""
    wrong = [*_unread(stories, ends), *_not_owned(stories), *_owned_twice(stories), *_commits_going_back(stories)]
    stale: Counter[str] = Counter()
    for story, what, excused in _stale(stories):
        stale[story.maker] += 1
        if not excused or story.maker in strict:
            wrong.append(what)
    if wrong:
        more = f"\n... and {len(wrong) - MOST_TOLD} more" if len(wrong) > MOST_TOLD else ""
        raise AssertionError("\n".join(wrong[:MOST_TOLD]) + more)
    result = [len(event["offsets"]) for story in stories for event in _of(story, "records")]
    taken, refused = (sum(1 for it in stories for _ in _of(it, name)) for name in ("committed", "commit_failed"))
    total = sum(ends.values())
    return Account(len(stories), total, sum(result) - total, taken, refused, dict(stale))


def _of(story: Story, *names: str) -> Iterator[Mapping[str, Any]]:
    return (event for event in story.events if event["event"] in names)


def _unread(stories: Sequence[Story], ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Return records that no member processed."""
    read: dict[TopicPartition, set[int]] = defaultdict(set)
    for event in itertools.chain.from_iterable(_of(story, "records") for story in stories):
        read[TopicPartition(event["topic"], event["partition"])].update(event["offsets"])
    for tp, end in sorted(ends.items()):
        missing = sorted(set(range(end)) - read[tp])
        if missing:
            yield f"{tp}: {len(missing)} of {end} records were processed by nobody, the first at offset {missing[0]}"


def _not_owned(stories: Sequence[Story]) -> Iterator[str]:
    """Return records of partitions that their reader did not own at that time, by its own events."""
    for story in stories:
        owned: set[TopicPartition] = set()
        for event in _of(story, "assigned", "revoked", "lost", "records"):
            if event["event"] == "records":
                tp = TopicPartition(event["topic"], event["partition"])
                if tp not in owned:
                    yield f"{story.name} read {tp} at {event['at']} though it did not own it"
                continue
            partitions = {TopicPartition(*one) for one in event["partitions"]}
            if event["event"] == "assigned":
                if partitions & owned:
                    yield f"{story.name} was assigned at {event['at']} what it owned: {sorted(partitions & owned)}"
                owned |= partitions
            else:
                owned -= partitions


def _holdings(stories: Sequence[Story]) -> dict[TopicPartition, list[_Held]]:
    """Return for each partition which member held it, from when to when."""
    found: dict[TopicPartition, list[_Held]] = defaultdict(list)
    for story in stories:
        since: dict[TopicPartition, int] = {}
        for event in _of(story, "assigned", "revoked", "lost"):
            for tp in (TopicPartition(*one) for one in event["partitions"]):
                if event["event"] == "assigned":
                    since[tp] = event["at"]
                elif tp in since:
                    found[tp].append(_Held(story, since.pop(tp), event["at"]))
        for tp, start in since.items():
            found[tp].append(_Held(story, start, story.end or 2**63))
    return found


def _owned_twice(stories: Sequence[Story]) -> Iterator[str]:
    """Return partitions assigned to a member before another one, not stopped since, had revoked them."""
    for tp, holdings in sorted(_holdings(stories).items()):
        active: list[_Held] = []
        for held in sorted(holdings, key=lambda it: it.start):
            active = [other for other in active if other.end > held.start]
            for other in active:
                if other.story is not held.story and not _was_stopped(other.story, other.start, held.start):
                    yield (
                        f"{tp} was assigned to {held.story.name} at {held.start} while {other.story.name} held it "
                        f"from {other.start} to {other.end}"
                    )
            active.append(held)


def _was_stopped(story: Story, since: int, until: int) -> bool:
    return any(stop < until and resumed > since for stop, resumed in story.stops)


class _Commit(NamedTuple):
    at: int
    begun: int
    offset: int
    name: str


def _commits(stories: Sequence[Story]) -> dict[TopicPartition, list[_Commit]]:
    """Return for each partition the commits that the broker accepted, by the time when this was known."""
    found: dict[TopicPartition, list[_Commit]] = defaultdict(list)
    for story in stories:
        for event in _of(story, "committed"):
            for topic, number, offset in event["offsets"]:
                found[TopicPartition(topic, number)].append(_Commit(event["at"], event["begun"], offset, story.name))
    return {tp: sorted(commits) for tp, commits in found.items()}


def _commits_going_back(stories: Sequence[Story]) -> Iterator[str]:
    """Return commits below an offset committed before they began: the broker should have refused them."""
    for tp, commits in sorted(_commits(stories).items()):
        done = iter(commits)
        upcoming, highest = next(done, None), _Commit(0, 0, -1, "nobody")
        for commit in sorted(commits, key=lambda it: it.begun):
            while upcoming is not None and upcoming.at < commit.begun:
                highest = max(highest, upcoming, key=lambda it: it.offset)
                upcoming = next(done, None)
            if commit.offset < highest.offset:
                yield (
                    f"{tp}: {commit.name} committed {commit.offset} at {commit.at}, "
                    f"after {highest.name} had committed {highest.offset} at {highest.at}"
                )


class _Batch(NamedTuple):
    at: int
    story: Story
    first: int
    rebalanced: int  # when its reader last heard of a rebalance


def _batches(stories: Sequence[Story]) -> dict[TopicPartition, list[_Batch]]:
    """Return for each partition the processed batches, by time."""
    found: dict[TopicPartition, list[_Batch]] = defaultdict(list)
    for story in stories:
        rebalanced = 0
        for event in _of(story, "assigned", "revoked", "lost", "records"):
            if event["event"] == "records":
                tp = TopicPartition(event["topic"], event["partition"])
                found[tp].append(_Batch(event["at"], story, event["offsets"][0], rebalanced))
            else:
                rebalanced = event["at"]
    return {tp: sorted(batches, key=lambda it: it.at) for tp, batches in found.items()}


def _stale(stories: Sequence[Story]) -> Iterator[tuple[Story, str, bool]]:
    """Return batches processed after another member had committed beyond them, and whether a stop excuses it."""
    commits = _commits(stories)
    for tp, batches in sorted(_batches(stories).items()):
        done = iter(commits.get(tp, ()))
        upcoming = next(done, None)
        highest: dict[str, _Commit] = {}
        for at, story, first, rebalanced in batches:
            while upcoming is not None and upcoming.at < at:
                highest[upcoming.name] = max(upcoming, highest.get(upcoming.name, upcoming), key=lambda it: it.offset)
                upcoming = next(done, None)
            beyond = [commit for name, commit in highest.items() if name != story.name and commit.offset > first]
            if beyond:
                by = f"{beyond[0].name} committed {beyond[0].offset} at {beyond[0].at}"
                what = f"{tp}: {story.name} processed {first} at {at}, after {by}"
                yield story, what, _was_stopped(story, rebalanced, at)
