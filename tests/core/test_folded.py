# SPDX-License-Identifier: BSD-3-Clause
"""Lists of names with their texts."""

from ncc.core.options import folded


def test_texts_are_folded_between_words_and_names_never() -> None:
    entries = (("ncc", "limits hosts at their uplink"), ("a_very_long_name_of_a_key", "says so"), ("none", ""))
    assert list(folded(entries, width=30, column=6, indent=2)) == [
        "  ncc     limits hosts at",
        "          their uplink",
        "  a_very_long_name_of_a_key",
        "          says so",
        "  none",
    ]
    assert list(folded(entries[:1], width=10_000)) == ["ncc  limits hosts at their uplink"]
