"""Names of topics that do not exist, and the existing ones that resemble them."""

from __future__ import annotations

from kcli.admin.topics import _nearest


def test_similar_topic_names_are_suggested() -> None:
    names = ["orders", "Orders-v2", "payments", "__consumer_offsets"]
    assert _nearest("order", names).startswith(" (did you mean orders")
    assert _nearest("ORDERS", names).startswith(" (did you mean orders")
    assert _nearest("zzz", names) == ""
