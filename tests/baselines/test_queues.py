# SPDX-License-Identifier: BSD-3-Clause
"""Programs that divide a port into queues, worked by hand: FQ-CoDel (RFC 8290) and DWRR."""

from collections import Counter

import pytest

from tests.baselines.ports import DROP, PASS, Program

MTU = 1500
TARGET, INTERVAL = 50_000, 1_000_000
LONG = [MTU] * 4


def port(name: str, *params: int) -> Program:
    return Program(name, list(params), size_bytes=10**6, mtu_bytes=MTU)


def fq_codel(quantum: int = 1514) -> Program:
    return port("fq_codel", TARGET, INTERVAL, quantum)


def send(at: Program, queues: dict[int, list[int]], *, wait_ns: int = 0, now_ns: int = 10**6) -> tuple[int, int]:
    """The queue that sends and the verdict on its first packet, which leaves its queue."""
    queue = at.next({number: packets for number, packets in queues.items() if packets})
    payload_bytes = queues[queue].pop(0) - 40
    verdict = at.dequeue(now_ns=now_ns, queued_ns=now_ns - wait_ns, queue_bytes=10 * MTU, payload_bytes=payload_bytes)
    return queue, verdict


def sent(at: Program, queues: dict[int, list[int]], packets: int) -> list[int]:
    return [send(at, queues)[0] for _ in range(packets)]


def test_flows_and_their_acks_have_queues_of_their_own() -> None:
    at = fq_codel()
    queues = [at.classify(flow=flow, back=back) for flow in range(20) for back in (0, 1)]
    assert len(set(queues)) == 40
    assert max(queues) < 1024
    assert at.classify(flow=7) == at.classify(flow=7)


def test_a_new_queue_goes_first_until_its_quantum_is_spent() -> None:
    at = fq_codel()
    one, two = (at.classify(flow=flow) for flow in range(2))
    queues = {one: LONG * 3, two: LONG * 3}
    # 1514 bytes allow a packet and, with the 14 that are left, another one; then each quantum allows one.
    assert sent(at, queues, 6) == [one, one, two, two, one, two]
    new = at.classify(flow=3)
    queues[new] = [MTU, MTU, MTU]
    assert sent(at, queues, 3) == [new, new, one]
    assert sent(at, queues, 3) == [new, two, one]  # it is one of them now


def test_a_queue_that_empties_waits_in_line_once_before_it_is_new_again() -> None:
    at = fq_codel()
    long, sparse = at.classify(flow=0), at.classify(flow=1)
    queues = {long: LONG * 3, sparse: [100]}
    assert sent(at, queues, 4) == [long, long, sparse, long]  # with the last, the sparse one is found empty
    assert at.classify(flow=1) == sparse
    queues[sparse] = [100]
    assert sent(at, queues, 2) == [sparse, long]  # it is in line behind the long one, whose turn has ended
    assert sent(at, queues, 1) == [long]  # the sparse one is found empty again, and leaves the list
    assert at.classify(flow=1) == sparse
    queues[sparse] = [100]
    assert sent(at, queues, 2) == [sparse, long]


def test_each_queue_has_a_codel_of_its_own() -> None:
    at = fq_codel()
    late, short = at.classify(flow=0), at.classify(flow=1)
    assert send(at, {late: LONG.copy()}, wait_ns=TARGET) == (late, PASS)
    due_ns = 10**6 + INTERVAL
    queues = {late: LONG.copy(), short: LONG.copy()}
    verdicts = [send(at, queues, wait_ns=TARGET, now_ns=due_ns) for _ in range(3)]
    # The drop costs nothing of the turn. Packets of the other queue wait too long for the first time.
    assert verdicts == [(late, DROP), (late, PASS), (short, PASS)]


@pytest.mark.parametrize("quantum", [300, 1514, 6000])
def test_flows_share_by_bytes(quantum: int) -> None:
    at = fq_codel(quantum)
    large, small = at.classify(flow=0), at.classify(flow=1)
    order = sent(at, {large: [MTU] * 400, small: [500] * 1200}, 400)
    assert abs(order.count(large) * MTU - order.count(small) * 500) <= 2 * (quantum + MTU)


def dwrr(*weights: int, quantum: int = MTU) -> Program:
    return port("dwrr", quantum, *weights, *[1] * (8 - len(weights)))


def test_a_class_is_the_queue_and_the_last_one_takes_what_is_beyond() -> None:
    assert [dwrr().classify(prio=prio) for prio in (0, 3, 7, 8)] == [0, 3, 7, 7]


def test_a_class_keeps_what_its_next_packet_is_too_large_for() -> None:
    """The example of the paper's figures: quanta of 500 bytes."""
    at = dwrr(quantum=500)
    queues = {0: [200, 750, 40], 1: [500, 500], 2: [600, 100]}
    # Turn 1: 0 sends 200 and keeps 300; 1 sends 500; 2 keeps 500. Turn 2: 0 has 800, sends 750 and 40.
    assert sent(at, queues, 7) == [0, 1, 0, 0, 1, 2, 2]


def test_weights_are_shares_in_bytes() -> None:
    at = dwrr(1, 2, 4)
    order = Counter(sent(at, {0: [MTU] * 200, 1: [300] * 900, 2: [1000] * 900}, 700))
    turns = order[0]
    assert abs(order[1] * 300 - 2 * turns * MTU) <= 3 * MTU
    assert abs(order[2] * 1000 - 4 * turns * MTU) <= 5 * MTU


def test_an_empty_class_keeps_nothing() -> None:
    at = dwrr(4, 1)
    queues = {0: [MTU], 1: [MTU] * 9}
    assert sent(at, queues, 3) == [0, 1, 1]  # class 0 had three more packets to send
    queues[0] = [MTU] * 9
    assert sent(at, queues, 6) == [0, 0, 0, 0, 1, 0]
