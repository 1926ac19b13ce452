"""Sizes of files without a JVM: parsed sizes, limits of files, and the bytes per row of a sample."""

from __future__ import annotations

import random
from base64 import b64encode

import pytest

from kcli.errors import ConfigError
from kcli.spark.pipelines.files.file_size import RowSize, measure, parse_size, plan_files

pa = pytest.importorskip("pyarrow")


def test_sizes_are_powers_of_1024() -> None:
    texts = {"128MB": 128 << 20, "1 GiB": 1 << 30, "500k": 500 << 10, "1.5g": 3 << 29, "4096": 4096}
    assert {text: parse_size("--target-file-size", text) for text in texts} == texts


@pytest.mark.parametrize("text", ["", "big", "-1MB", "1TB", "10", "1e9", "999999GB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="use a size from 1KB to 1024GB, like 128MB"):
        parse_size("--target-file-size", text)


def test_rows_tasks_and_files_follow_from_the_bytes_of_a_row() -> None:
    plan = plan_files(RowSize(written=100, shuffled=300), 1_000_000, 95_000)
    assert (plan.rows_per_file, plan.shuffled_bytes, plan.files) == (11_000, 3_000_000, 10)
    assert plan.rows_per_file * plan.files >= 95_000, "no more files than planned"
    assert plan_files(RowSize(100, 300), 1_000_000, 5).files == 1
    assert plan_files(RowSize(0.001, 0.1), 1024, None) == (1127, 1024, None)


@pytest.mark.parametrize("form", ["parquet", "orc", "json", "delta"])
def test_incompressible_values_have_their_size_and_equal_ones_do_not(form: str) -> None:
    chance = random.Random(1)
    rows = 2000
    distinct = pa.table({"value": [b64encode(chance.randbytes(75)).decode() for _ in range(rows)]})
    equal = pa.table({"value": ["x" * 100] * rows})
    large, small = measure(distinct, form, None), measure(equal, form, None)
    assert large is not None
    assert small is not None
    assert 95 < large.written < 200
    assert form == "json" or small.written < 10
    assert 95 < large.shuffled < 130
    assert measure(distinct.slice(0, 0), form, None) is None
