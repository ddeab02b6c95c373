# SPDX-License-Identifier: BSD-3-Clause
"""packetsim and ns-3 on cases without chance: every flow, number by number."""

from ncc.study.agreement.small import Row, inside


def row(fct_s: tuple[float, float] = (1.0, 1.0), retransmitted: tuple[int, int] = (0, 0)) -> Row:
    return {"fct_s": fct_s, "retransmitted_pkts": retransmitted, "timeouts": (0, 0), "ce_pkts": (0, 0)}


def test_bounds_are_inclusive_and_each_counts() -> None:
    assert inside(row())
    assert inside(row(fct_s=(1.0099, 1.0)))
    assert not inside(row(fct_s=(1.0101, 1.0)))
    assert not inside(row(fct_s=(0.98, 1.0)))
    assert inside(row(retransmitted=(3, 2)))
    assert not inside(row(retransmitted=(2, 4)))
