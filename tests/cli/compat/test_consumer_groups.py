"""`kcli compat consumer-groups` without a cluster. tests/interop/compat compares it with Apache's tool."""

from __future__ import annotations

import sys

import pytest

from tests.cli.fake import run_kcli


@pytest.mark.parametrize("words", [[], ["--apache-exit-codes"]])
def test_without_re2_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    done = run_kcli("compat", "consumer-groups", "--validate-regex", "a*", *words)
    assert (done.status, done.out) == (0 if words else 2, b"")
    assert done.err == (
        "kcli: regular expressions of clients need the package google-re2: pip install 'kcli-kafka[regex]'\n"
    )
