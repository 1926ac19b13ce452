"""The memory of a follower does not depend on how long it runs. `tests/bench/follower_soak.py` is the long form."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.bench.follower_soak import FOLLOWERS, Followers
from tests.interop.consume_kills import Traffic
from tests.interop.process import ROOT, wait_for_lines
from tests.limits import Limit
from tests.real_kafka import Kafka

PER_S = 500
WARM, MORE = 1_000, 2_000  # records: seconds of checkpoints and commits, and hundreds of polls
# The cycles of one checkpoint with `json.dumps(indent=1)` were 36 objects, of one poll with any cycle hundreds in all.
GARBAGE = 20
# What is in use after the collector ran differs by a few hundred blocks; a block kept per record or poll is more.
BLOCKS = 1_000


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_follower_leaves_no_garbage_and_keeps_nothing(name: str, any_kafka: Kafka, tmp_path: Path) -> None:
    topic = any_kafka.new_topic(3)
    output, answers = tmp_path / "out.jsonl", tmp_path / "answers"
    own = {"checkpoint": ("--checkpoint", str(tmp_path / "checkpoint")), "group": ("--group", any_kafka.new_name())}
    command = [sys.executable, "-m", "tests.interop.memory_probe", str(answers)]
    command += ["consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start", "-O", "jsonl", *own.get(name, ())]
    with output.open("wb") as out, output.with_suffix(".stderr").open("wb") as err, ExitStack() as stack:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=ROOT)
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.enter_context(Traffic(any_kafka, topic, PER_S))
        wait_for_lines(output, WARM, process)
        warm = _ask(process, answers, 1)
        wait_for_lines(output, WARM + MORE, process)
        later = _ask(process, answers, 2)
    assert later["garbage"] < GARBAGE, "objects that only the collector frees"
    assert later["blocks"] - warm["blocks"] < BLOCKS, (warm, later)


def _ask(process: subprocess.Popen[bytes], answers: Path, number: int) -> Any:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    limit = Limit("the count of garbage")
    while not answers.exists() or answers.read_text().count("\n") < number:
        limit.check()
    return json.loads(answers.read_text().splitlines()[number - 1])


def test_the_soak_samples_each_follower(our_kafka: Kafka, tmp_path: Path) -> None:
    with Followers(our_kafka, tmp_path, 100, ("plain",)) as followers:
        for number in range(4):
            followers.wait_for_lines(10 * (number + 1))
            followers.sample()
    (samples,) = followers.samples.values()
    assert len(samples) == 4
    assert min(samples).own_mb > 5
    assert 0 <= followers.growth_mb()["plain"] < 20
