"""Invalid options of `kcli offsets reset` and `undo`: one line, status 2, no request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fake import run_kcli

NOBODY = ("-b", "127.0.0.1:1", "--timeout", "1")  # asking there would be status 5


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to-earliest", "--all-topics"], "select groups in exactly one form"),
        (["g", "--match", "g", "--to-earliest", "--all-topics"], "select groups in exactly one form"),
        (["--match", "(", "--to-earliest", "--all-topics"], "not a valid regular expression"),
        (["g", "--all-topics"], "give exactly one target: --to-earliest, --to-latest, "),
        (
            ["g", "--to-earliest", "--to-latest", "--all-topics"],
            "exactly one target; got --to-earliest and --to-latest",
        ),
        (
            ["g", "--to-offset", "0", "--shift-by", "0", "--all-topics"],
            "exactly one target; got --to-offset and --shift-by",
        ),
        (["g", "--to-earliest"], "give either --topic"),
        (["g", "--to-earliest", "--all-topics", "--topic", "t"], "give either --topic"),
        (["g", "--to-group-of", "h"], "give either --topic"),
        (["g", "--to-earliest", "--topic", "t:x"], "'x' is not a valid list of partitions"),
        (["g", "--to-earliest", "--topic", ":1"], "':1' is not a valid topic"),
        (["g", "--to-offset", "1h", "--topic", "t"], "--to-offset: '1h' is not valid; a time in the past begins with"),
        (["g", "--to-offset", "x", "--topic", "t"], "--to-offset: 'x' is not valid; use one of start, end, 100, +100"),
        (["g", "--to-offset", str(2**63), "--topic", "t"], "an offset has at most 63 bits"),
        (["g", "--shift-by", "1.5", "--topic", "t"], "--shift-by"),
        (["g", "--to-datetime", "yesterday", "--topic", "t"], "'yesterday' is not a valid time; use "),
        (["g", "--by-duration", "P1M", "--topic", "t"], "months and years differ in length"),
        (["g", "--by-duration", "-1h", "--topic", "t"], "omit the sign"),
        (["g", "--to-latest", "--topic", "t", "--if-no-record", "start"], "is not valid; use refuse, end or skip"),
        (["g", "--to-latest", "--topic", "t", "--if-out-of-range", "end"], "is not valid; use refuse, clamp or skip"),
        (["g", "--from-file", "/nowhere/positions.csv"], "/nowhere/positions.csv"),
    ],
)
def test_invalid_reset_options_are_usage_errors(words: list[str], why: str) -> None:
    result = run_kcli("offsets", "reset", *words, *NOBODY)
    assert result.status == 2, result.err
    assert why in result.err
    assert result.err.count("\n") == 1
    assert result.out == b""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give either the ID of a snapshot (see --list), or --last"),
        (["--last", "20240131T100000.123Z-4f2a91"], "give either the ID of a snapshot (see --list), or --last"),
        (["--list", "--last"], "give either the ID of a snapshot (see --list), or --last"),
        (["--list", "--execute"], "--list cannot be combined with --execute"),
    ],
)
def test_invalid_undo_options_are_usage_errors(words: list[str], why: str, tmp_path: Path) -> None:
    result = run_kcli("offsets", "undo", *words, *NOBODY, environ={"XDG_STATE_HOME": str(tmp_path)})
    assert (result.status, result.out) == (2, b"")
    assert why in result.err


def test_a_missing_snapshot_is_reported_without_a_request(tmp_path: Path) -> None:
    for name in ("20240131T100000.123Z-4f2a91", "../../secret"):
        result = run_kcli("offsets", "undo", name, *NOBODY, environ={"XDG_STATE_HOME": str(tmp_path)})
        assert result.status == 3
        assert f"there is no snapshot {name}" in result.err


def test_unreadable_snapshots_are_rows(tmp_path: Path) -> None:
    folder = tmp_path / "kcli" / "snapshots"
    folder.mkdir(parents=True)
    (folder / "20240131T100000.123Z-4f2a91.json").write_text("{}")
    result = run_kcli("offsets", "undo", "--list", environ={"XDG_STATE_HOME": str(tmp_path)})
    assert result.status == 1
    assert "20240131T100000.123Z-4f2a91" in result.text
    assert "is not a snapshot of kcli" in result.text


def test_unreachable_brokers_have_status_5(tmp_path: Path) -> None:
    words = ("g", "--to-earliest", "--all-topics", "--execute")
    result = run_kcli("offsets", "reset", *words, *NOBODY, environ={"XDG_STATE_HOME": str(tmp_path)})
    assert result.status == 5
    assert not list(tmp_path.iterdir())
