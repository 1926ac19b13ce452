"""The manual page of Spark: every option is on it, and its command lines are valid."""

from __future__ import annotations

import ast
import re
import shlex

import pytest

from kcli.cli.docs.page import troff
from kcli.cli.docs.spark_page import SECTIONS, page
from kcli.spark.option_table import OPTIONS
from tests.cli.fake import run_kcli

COMMANDS = [
    shlex.split(line)
    for text in SECTIONS.values()
    for line in re.sub(r" \\\n *", " ", text).splitlines()
    if re.match(r"(\w+=\S+ )?kcli spark ", line)
]


def test_every_option_has_an_entry() -> None:
    text = troff(page())
    for name, option in OPTIONS.items():
        assert f".TP\n\\fB{name}\\fR".replace("-", "\\-") in text
        assert option.doc.replace("-", "\\-")[:40] in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_lines_are_valid(words: list[str]) -> None:
    """They are parsed and checked, up to the first contact with a cluster."""
    words = words[words.index("kcli") + 1 :]
    left_out = ("--command-config", "client.properties", "sasl.password=env:KAFKA_PASSWORD")
    words = ["sasl.password=x" if word == left_out[2] else word for word in words]
    words = [word for word in words if word not in left_out]
    has_cluster = words[1] in ("export", "load") and "--remote" not in words
    done = run_kcli(*words, *(("--timeout", "0.2", "-b", "127.0.0.1:1") if has_cluster else ("--help",)))
    assert done.status != 2 or re.search("does not exist|is not a folder|cannot (be )?read", done.err), done.err


def test_programs_are_python() -> None:
    programs = [
        part
        for part in SECTIONS["AVRO, PROTOBUF, JSON SCHEMA"].split("\n\n")
        if part.startswith("\bfrom") or "register(spark)" in part
    ]
    assert programs
    for text in programs:
        ast.parse(text.removeprefix("\b\n"))
    assert len(COMMANDS) > 15
