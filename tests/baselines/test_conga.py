# SPDX-License-Identifier: BSD-3-Clause
"""CONGA's measure of a link and its tables of leaves, worked by hand (Alizadeh et al., SIGCOMM 2014, section 3)."""

from tests.baselines.ports import Program

GAP, T, AGE = 500_000, 20_000, 10_000_000
LINE = 1_250_000_000
"""Bytes/s of 10 Gbit/s."""
WHOLE = 200_000
"""Bytes of the line in tau = 160 us."""
HERE, THERE = 0, 1


class Leaf:
    """A leaf with four paths to another one."""

    def __init__(self, gap_ns: int = GAP) -> None:
        self.program = Program("conga", [gap_ns, T, AGE], size_bytes=10**6, mtu_bytes=1500)

    def send(self, way: int, nbytes: int, now_ns: int, *, tag: int = 0, hops: int = 1) -> int:
        """The tag of a packet that leaves over a path."""
        self.program.dequeue(
            payload_bytes=nbytes - 40, now_ns=now_ns, way=way, tag=tag, hops=hops, rate_bytes_per_s=LINE
        )
        return int(self.program.written_tag())

    def choose(self, now_ns: int, flow: int = 1, ways: int = 4, random: int = 0) -> tuple[int, int]:
        """The path of a packet that leaves for the other leaf, and its tag."""
        way = self.program.route(
            now_ns=now_ns, ways=ways, flow=flow, random=random, src_leaf=HERE, dst_leaf=THERE, rate_bytes_per_s=LINE
        )
        return int(way), int(self.program.written_tag())

    def hear(self, now_ns: int, way: int, level: int, about: int | None = None, level_back: int = 0) -> None:
        """A packet of the other leaf comes, by a path with its largest measure, and says something about a path."""
        self.program.route(
            now_ns=now_ns, ways=1, back=1, hops=3, tag=written(way, level, about, level_back), src_leaf=THERE,
            dst_leaf=HERE, rate_bytes_per_s=LINE,
        )  # fmt: skip


def written(way: int, level: int, about: int | None = None, level_back: int = 0) -> int:
    back = 0 if about is None else 1 << 8 | about << 9 | level_back << 13
    return 1 | way << 1 | level << 5 | back


def level(tag: int) -> int:
    return tag >> 5 & 7


def feedback(tag: int) -> tuple[int, int] | None:
    """Path and measure that a tag gives back."""
    return (tag >> 9 & 15, tag >> 13 & 7) if tag & 1 << 8 else None


def test_the_measure_is_what_was_sent_over_what_the_line_carries_in_tau() -> None:
    leaf = Leaf()
    assert level(leaf.send(0, WHOLE // 8 - 1, 0, tag=written(0, 0))) == 0
    assert level(leaf.send(0, 41, 0, tag=written(0, 0))) == 1, "an eighth, three bits"
    assert level(leaf.send(1, WHOLE // 2, 0, tag=written(1, 0))) == 4
    assert level(leaf.send(2, 2 * WHOLE, 0, tag=written(2, 0))) == 7, "the largest number of three bits"


def test_the_measure_falls_by_an_eighth_each_period() -> None:
    leaf = Leaf()
    leaf.send(0, 160_000, 0)
    # 160000 (7/8)^n: 140000, 122500, 107187.5, 93789, ...; over 25000: 5.6, 4.9, 4.29, 3.75
    shown = [level(leaf.send(0, 40, n * T + T // 2, tag=written(0, 0))) for n in range(5)]
    assert shown == [6, 5, 4, 4, 3]
    assert level(leaf.send(0, 40, 1000 * T, tag=written(0, 0))) == 0


def test_a_full_line_measures_its_rate() -> None:
    """A packet of 1250 bytes each microsecond: X tends to the bytes of T_dre over alpha, between two discounts."""
    leaf = Leaf()
    shown = [level(leaf.send(0, 1250, n * 1000, tag=written(0, 0))) for n in range(2000)]
    assert set(shown[1000:]) == {7}
    leaf = Leaf()
    shown = [level(leaf.send(0, 625, n * 1000, tag=written(0, 0))) for n in range(2000)]
    assert set(shown[1000:]) == {3}, "half of it: from 3.5 to just below 4"


def test_a_packet_collects_the_largest_measure_but_not_that_of_the_host_s_link() -> None:
    leaf = Leaf()
    assert level(leaf.send(0, WHOLE // 2, 0, tag=written(0, 5))) == 5
    assert level(leaf.send(0, WHOLE // 2, 0, tag=written(0, 2), hops=2)) == 7
    assert level(leaf.send(0, WHOLE // 2, 0, tag=written(0, 2), hops=3)) == 2
    assert leaf.send(0, WHOLE // 2, 0, tag=0) == 0, "no leaf has written a tag"


def test_a_flowlet_takes_the_path_with_the_least_of_the_larger_measures() -> None:
    leaf = Leaf()
    for way, nbytes in enumerate((100_000, 25_000, 50_000, 0)):  # 4, 1, 2, 0 of 8 here
        leaf.send(way, nbytes, 0) if nbytes else None
    for way, far in enumerate((0, 3, 2, 5)):
        leaf.hear(0, way, 0, about=way, level_back=far)
    assert leaf.choose(1)[0] == 2, "max(2, 2), others 4, 3, 5"
    assert leaf.choose(GAP, flow=1)[0] == 2, "the same flowlet, though this path's line has emptied"


def test_a_flow_stays_where_it_was_unless_another_path_is_better() -> None:
    leaf = Leaf()
    first = leaf.choose(0, random=12345)[0]
    other = (first + 1) % 4
    for n in range(1, 30):  # new flowlets, all measures 0
        assert leaf.choose(n * 2 * GAP, random=n * 987_654_321 % 2**32)[0] == first
    now = 60 * GAP
    leaf.hear(now, 0, 0, about=first, level_back=1)
    assert leaf.choose(now + 2 * GAP)[0] != first
    assert len({leaf.choose(now + 2 * GAP, flow=flow, random=flow * 987_654_321 % 2**32)[0] for flow in range(40)}) == 3
    assert other in range(4)


def test_what_a_leaf_said_is_believed_for_ten_milliseconds() -> None:
    leaf = Leaf(gap_ns=1)
    for way in range(3):
        leaf.hear(0, way, 0, about=way, level_back=3)
    leaf.hear(5_000_000, 3, 0, about=3, level_back=1)
    assert leaf.choose(AGE - 1)[0] == 3
    assert leaf.choose(AGE + 10)[0] != 3, "what was said about the others is forgotten"


def test_a_packet_gives_back_changed_measures_first_and_then_each_in_turn() -> None:
    leaf = Leaf()
    assert feedback(leaf.choose(0)[1]) is None, "nothing has come"
    for way, met in ((0, 2), (1, 5), (3, 1)):
        leaf.hear(1, way, met)
    assert [feedback(leaf.choose(2)[1]) for _ in range(4)] == [(0, 2), (1, 5), (3, 1), (0, 2)]
    leaf.hear(3, 3, 6)
    leaf.hear(3, 1, 5)  # as before: nothing new
    assert [feedback(leaf.choose(4)[1]) for _ in range(3)] == [(3, 6), (0, 2), (1, 5)]
    assert feedback(leaf.choose(AGE + 3)[1]) is None, "all of it is old"


def test_packets_within_a_leaf_and_in_spines_are_left_alone() -> None:
    program = Leaf().program
    assert program.route(ways=1, src_leaf=2, dst_leaf=2, rate_bytes_per_s=LINE) == 0
    assert program.written_tag() == 0
    program.route(ways=1, src_leaf=0, dst_leaf=1, hops=2, tag=written(3, 4), rate_bytes_per_s=LINE)
    assert program.written_tag() == written(3, 4)
