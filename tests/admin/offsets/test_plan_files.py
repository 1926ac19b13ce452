"""Files of plans and positions: round trips, and errors with their line or item."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.admin.offsets.offset_plan import WHOLE_TOPIC, FirstRecord, OffsetPlan, OffsetRow, make_plan
from kcli.admin.offsets.plan_files import (
    Positions,
    plan_as_csv,
    plan_as_json,
    positions_as_apache_csv,
    positions_as_csv,
    positions_as_json,
)
from kcli.admin.offsets.plan_reading import offsets_of, read_plan_file
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.structs import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NASTY = 'note "quoted", \r\n second\rthird\n;\ttab \u2603 \\ '
UNKNOWN = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="bills")
PLAN = make_plan(
    "reset",
    [
        OffsetRow(
            ("billing", T0),
            OffsetAndMetadata(9, 3, NASTY),
            OffsetAndMetadata(4, -1, NASTY),
            "move",
            "log start",
            reread=5,
        ),
        OffsetRow(("billing", T1), None, OffsetAndMetadata(0, 0, ""), "move", "nothing committed", skipped=7),
        OffsetRow(("audit, old", T1), OffsetAndMetadata(2, 1, "x"), OffsetAndMetadata(2, 1, "x"), "keep"),
        OffsetRow(
            ("billing", TopicPartition("bills", WHOLE_TOPIC)), None, None, "refuse", "no such topic", error=UNKNOWN
        ),
        OffsetRow(("billing", TopicPartition("a", 0)), OffsetAndMetadata(2), None, "delete"),
        OffsetRow(("billing", TopicPartition("a", 1)), OffsetAndMetadata(2), None, "skip"),
    ],
    1_700_000_000_123,
    {"billing": "Empty", "audit, old": "Dead"},
    "fMCL8kv1SWm87L_Md-I2hg",
)
WRITERS = [plan_as_json, plan_as_csv]


def without_errors(plan: OffsetPlan) -> OffsetPlan:
    """Return the plan without its errors, which compare by identity."""
    return replace(plan, rows=tuple(replace(row, error=None) for row in plan.rows))


@pytest.mark.parametrize("write", WRITERS)
def test_a_plan_is_unchanged_after_a_round_trip(write: Callable[[OffsetPlan], str]) -> None:
    found = read_plan_file(write(PLAN), "plan")
    assert isinstance(found, OffsetPlan)
    assert without_errors(found) == without_errors(PLAN)
    assert [str(row.error) for row in found.rows] == [str(row.error) for row in PLAN.rows]
    (refused,) = found.refused
    assert isinstance(refused.error, BrokerError)
    assert refused.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("write", WRITERS)
def test_previews_are_written_but_not_read(write: Callable[[OffsetPlan], str]) -> None:
    first = FirstRecord(4, 1_700_000_000_000, b"\xff\x00key", 100)
    seen = replace(PLAN, rows=tuple(replace(row, bytes=1000, first=first) for row in PLAN.rows))
    assert "/wBrZXk=" in write(seen)
    found = read_plan_file(write(seen), "plan")
    assert isinstance(found, OffsetPlan)
    assert without_errors(found) == without_errors(PLAN)


numbers = st.integers(0, 2**63 - 1)
notes = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
offsets = st.builds(OffsetAndMetadata, numbers, st.integers(-1, 2**31 - 1), notes)
partitions = st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,9}", fullmatch=True), st.integers(0, 2**31 - 1))


@given(st.dictionaries(st.tuples(names, partitions), offsets, min_size=1), st.sampled_from(["json", "csv"]))
def test_positions_are_unchanged_after_a_round_trip(
    stored: dict[tuple[str, TopicPartition], OffsetAndMetadata], form: str
) -> None:
    positions = Positions({**stored}, True, "cluster", 1_700_000_000_000)
    text = positions_as_json(positions) if form == "json" else positions_as_csv(positions)
    assert read_plan_file(text, "file") == positions


@given(st.dictionaries(st.tuples(names, partitions), numbers, min_size=1))
def test_csv_of_apaches_tool_is_read_and_written(stored: dict[tuple[str, TopicPartition], int]) -> None:
    positions = Positions({key: OffsetAndMetadata(offset) for key, offset in stored.items()}, exact=False)
    found = read_plan_file(positions_as_apache_csv(positions), "file")
    assert isinstance(found, Positions)
    if len(positions.groups) > 1:
        assert found == positions
    else:
        assert {tp: at for (group, tp), at in found.offsets.items() if group is None} == {
            tp: at for (_, tp), at in positions.offsets.items()
        }


def test_csv_for_apaches_tool_has_its_exact_layout() -> None:
    """As kafka-consumer-groups.sh --export: the group column only with several groups."""
    moved: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        ("billing", T0): OffsetAndMetadata(4),
        ("billing", T1): OffsetAndMetadata(0),
    }
    both = Positions({**moved, ("audit, old", T1): OffsetAndMetadata(2)})
    assert positions_as_apache_csv(both) == '"audit, old",orders,1,2\nbilling,orders,0,4\nbilling,orders,1,0\n'
    assert positions_as_apache_csv(Positions(moved)) == "orders,0,4\norders,1,0\n"


def test_offsets_of_a_plan_are_its_new_offsets() -> None:
    moves = replace(PLAN, rows=tuple(row for row in PLAN.rows if row.action in ("move", "keep", "skip")))
    found = offsets_of(moves, "plan.json")
    assert (found.source, found.exact) == ("plan.json", True)
    assert found.offsets == {
        ("billing", T0): (4, -1, NASTY),
        ("billing", T1): (0, 0, ""),
        ("audit, old", T1): (2, 1, "x"),
    }
    with pytest.raises(ConfigError, match=r"^plan\.json is a plan that deletes billing a-0"):
        offsets_of(PLAN, "plan.json")


def test_csv_edited_in_a_spreadsheet_is_read() -> None:
    text = "\ufeffnote,partition,topic,offset,group\r\n\r\nhello, 1 ,orders, 7,billing\r\n,,,,\r\n"
    with pytest.raises(ConfigError, match=r"line 3: 6 fields under 5 headings"):
        read_plan_file(text.replace("hello", "hello,"), "f")
    found = read_plan_file(text, "f")
    assert isinstance(found, Positions)
    assert found.offsets == {("billing", T1): OffsetAndMetadata(7)}
    assert read_plan_file("orders, 1, 7\r\n\r\n", "f") == Positions({(None, T1): OffsetAndMetadata(7)}, exact=False)


HEAD = "group,topic,partition,offset\n"
ROW = {"group": "g", "topic": "t", "partition": 0, "action": "move", "old": None, "new": {"offset": 1}}


def document(*items: object, **head: object) -> str:
    return json.dumps({"kcli": 1, "kind": "offsets.plan", "plan": "reset", "items": items, **head})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n", "f is empty"),
        ("orders,0\n", "f, line 1: 2 fields; expected topic,partition,offset or group,topic,partition,offset"),
        (
            "g;orders;0;5\n",
            "f, line 1: 1 fields; expected topic,partition,offset or group,topic,partition,offset; separate them by "
            "commas, not by semicolons",
        ),
        ("orders,0,5\nbilling,orders,1,5\n", "f, line 2: 4 fields; the first line has 3"),
        ("orders,0,5\n\norders,x,5\n", "f, line 3: partition: 'x' is not valid"),
        ("orders,0,-5\n", "f, line 1: offset: '-5' is not valid"),
        ("orders,0,9223372036854775808\n", "f, line 1: offset: 9223372036854775808 is not valid"),
        ("orders,2147483648,1\n", "f, line 1: partition: 2147483648 is not valid"),
        ("orders,0,\n", "f, line 1: missing offset"),
        (",0,5\n", "f, line 1: missing topic"),
        ("orders,0,5\norders,0,6\n", "f, line 2: orders-0 is a duplicate of line 1"),
        ('orders,0,5\norders,1,"6\n', "f, line 2: not CSV: unexpected end of data"),
        ("topic,partition,topic,offset\n", "f, line 1: two columns have the name topic"),
        (HEAD + "g,t,0,one\n", "f, line 2: offset: 'one' is not valid"),
        ("topic,partition,committed\nt,0,1\n", "f, line 2: missing offset"),
        (
            'group,topic,partition,offset,metadata\ng,t,0,1,"two\nlines"\ng,t,0,2,\n',
            "f, line 4: t-0 is a duplicate of line 2",
        ),
        ("topic,partition,offset,cluster_id\nt,0,1,a\nt,1,1,b\n", "f has several clusters: a, b"),
        ("group,topic,partition,action,plan\n", "f is a plan without rows"),
        (
            "group,topic,partition,action,plan\ng,t,0,jump,reset\n",
            'f, line 2: "jump" is not a valid action; use move, ',
        ),
        (
            "group,topic,partition,action,plan,old,new\ng,t,0,keep,jump,1,1\n",
            'f, line 2: "jump" is not a valid kind of plan',
        ),
        ("group,topic,partition,action,plan\ng,t,0,move,reset\n", "f, line 2: move needs a new offset"),
        ('{"kcli": 1,\n "kind": }', "f, line 2, column 10: not JSON: Expecting value"),
        ('{"a": 1}\n{"a": 2}\n', "f is JSON lines; a plan is one document (--output json)"),
        ("[1]", "f is neither a plan nor an export of offsets: its kind is null"),
        ('{"kcli": 1, "kind": "group.list"}', 'f is neither a plan nor an export of offsets: its kind is "group.list"'),
        ('{"kcli": 2, "kind": "offsets.plan"}', "f is of version 2; this kcli reads 1"),
        ('{"kcli": 1, "kind": "offsets.plan"}', "f has no list of items"),
        (document(7), "f, item 1: not an object"),
        (document(ROW, ROW), "f, item 2: t-0 of group g is a duplicate of item 1"),
        (document({**ROW, "group": 7}), "f, item 1: group is not text: 7"),
        (document({**ROW, "new": {"offset": True}}), "f, item 1: offset: true is not valid"),
        (document({**ROW, "new": {"offset": 1.0}}), "f, item 1: offset: 1.0 is not valid"),
        (document({**ROW, "new": 1}), "f, item 1: new is not an object"),
        (document({**ROW, "action": "delete"}), "f, item 1: delete must not have a new offset"),
        (document({**ROW, "partition": None}), "f, item 1: move needs a topic and a partition"),
        (document({**ROW, "old": {"offset": 1, "leader_epoch": -1}}), "f, item 1: leader_epoch: -1 is not valid"),
        (document(ROW, plan="jump"), 'f, beginning: "jump" is not a valid kind of plan; use reset, '),
        (document(ROW, states=[1]), "f, beginning: states must map groups to text"),
        (document(ROW, cluster_id=1), "f, beginning: cluster_id is not text: 1"),
        ("[" * 100_000, "f is not a JSON file of kcli"),
    ],
)
def test_errors_are_one_line_with_their_line_or_item(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_plan_file(text, "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
