# SPDX-License-Identifier: BSD-3-Clause
"""Messages, spaces and values: what goes over the wire, and what is refused."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.containers import describe, pack, space_of, value_of, wire_space
from ncc.envs.ns3gym.schema import MESSAGES, messages

SPACES: list[spaces.Space[Any]] = [
    spaces.Discrete(3),
    spaces.Box(-1, 1, (4,), np.float32),
    spaces.Box(0, 100, (2, 3), np.uint32),
    spaces.Box(-7, 7, (), np.int32),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)]),
    spaces.Dict(b=spaces.Discrete(5), a=spaces.Dict(x=spaces.Box(0, 1, (2,), np.float32), y=spaces.Discrete(2))),
]


def test_messages_have_the_bytes_of_the_protocol() -> None:
    """Written down by hand: tag = number * 8 + wire type."""
    pb = messages()
    assert pb.SimInitAck(done=True, stopSimReq=True).SerializeToString() == b"\x08\x01\x10\x01"
    state = pb.EnvStateMsg(reward=1.0, isGameOver=True, reason=pb.GameOver, info="x")
    assert state.SerializeToString() == b"\x15\x00\x00\x80\x3f" + b"\x18\x01\x20\x01" + b"\x2a\x01x"
    container = pack(spaces.Discrete(9), 7)
    any_ = b"\x0a\x34type.googleapis.com/ns3opengym.DiscreteDataContainer" + b"\x12\x02\x08\x07"
    assert container.SerializeToString() == b"\x08\x01" + b"\x12" + bytes([len(any_)]) + any_
    box = pb.BoxDataContainer(dtype=pb.UINT, shape=[2], intData=[1], uintData=[300], doubleData=[0.0])
    assert box.SerializeToString() == b"\x08\x02\x12\x01\x02\x1a\x01\x01\x22\x02\xac\x02" + b"\x32\x08" + bytes(8)
    assert len(MESSAGES) == 14


def test_ns3gyms_own_messages_may_be_loaded_beside_these() -> None:
    """Whoever imports theirs has the same names in protobuf's default pool."""
    code = (
        "from google.protobuf import descriptor_pb2, descriptor_pool\n"
        "file = descriptor_pb2.FileDescriptorProto(name='messages.proto', package='ns3opengym', syntax='proto3')\n"
        "file.message_type.add(name='SimInitAck').field.add(name='done', number=1, type=8, label=1)\n"
        "descriptor_pool.Default().AddSerializedFile(file.SerializeToString())\n"
        "from ncc.envs.ns3gym.schema import messages\n"
        "print(messages().SimInitAck(done=True, stopSimReq=True).ByteSize())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == ("4", "")


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_and_values_come_back_as_they_went(space: spaces.Space[Any]) -> None:
    assert space_of(describe(wire_space(space)), "space") == space
    space.seed(1)
    for _ in range(20):
        value = space.sample()
        got = value_of(pack(space, value), space, "value")
        assert space.contains(got) or isinstance(space, spaces.Discrete)
        np.testing.assert_array_equal(spaces.flatten(space, got), spaces.flatten(space, value))


def test_many_choices_travel_as_a_tuple() -> None:
    assert wire_space(spaces.MultiDiscrete([3, 4])) == spaces.Tuple([spaces.Discrete(3), spaces.Discrete(4)])
    assert wire_space(spaces.MultiBinary(2)) == spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])


@pytest.mark.parametrize(
    "space", [spaces.Text(3), spaces.Discrete(3, start=1), spaces.Tuple([spaces.Text(3)])], ids=str
)
def test_a_space_the_protocol_does_not_have_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"ns3-gym's protocol has no .*offer a Discrete from 0"):
        wire_space(space)


def test_spaces_too_large_for_the_protocol_are_named() -> None:
    large: list[spaces.Space[Any]] = [spaces.Discrete(2**31 + 5), spaces.Tuple([spaces.Discrete(2**31 + 5)])]
    for space in large:
        with pytest.raises(ConfigError, match="has Discrete of up to 2147483647 values, got 2147483653"):
            wire_space(space)
    pb = messages()
    description = pb.SpaceDescription(type=pb.Box)
    description.space.Pack(pb.BoxSpace(low=0, high=1, dtype=pb.UINT, shape=[4_000_000_000, 4_000_000_000]))
    with pytest.raises(DatapathError, match="the space is a Box of 16000000000000000000 numbers, and 10000000 are"):
        space_of(description, "space")


def test_bounds_for_each_number_are_none_at_all() -> None:
    """ns-3's boxes with vectors of bounds send 0 and 0 (OpenGymBoxSpace keeps the vectors to itself)."""
    pb = messages()
    for dtype, low, high in ((pb.FLOAT, -np.inf, np.inf), (pb.UINT, 0, 2**32 - 1)):
        description = pb.SpaceDescription(type=pb.Box)
        description.space.Pack(pb.BoxSpace(low=0, high=0, dtype=dtype, shape=[2]))
        space = space_of(description, "space")
        assert isinstance(space, spaces.Box)
        assert (space.low.tolist(), space.high.tolist()) == ([low] * 2, [high] * 2)


def test_numbers_of_64_bits_are_sent_as_floats() -> None:
    """As ns3-gym's own Python side does: scripts cast actions of `double` spaces to containers of float."""
    pb = messages()
    space = spaces.Box(0, 1, (2,), np.float64)
    assert describe(space).type == pb.Box
    inner = pb.BoxDataContainer.FromString(pack(space, [0.25, 0.5]).data.value)
    assert (inner.dtype, list(inner.floatData), list(inner.doubleData)) == (pb.FLOAT, [0.25, 0.5], [])


def test_a_value_that_is_not_of_its_space_is_refused() -> None:
    pb = messages()
    box = spaces.Box(0, 1, (2,), np.float32)
    pair = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])
    named = spaces.Dict(a=spaces.Discrete(2))
    cases: list[tuple[Any, spaces.Space[Any], str]] = [
        (pack(spaces.Discrete(9), 5), spaces.Discrete(3), "the action must be from 0 to 2, got 5"),
        (pack(spaces.Discrete(9), 5), box, "must be of type Box, as its space says, got Discrete"),
        (pb.DataContainer(), box, "must be of type Box, as its space says, got nothing"),
        (pb.DataContainer(type=pb.Box), box, "must hold a BoxDataContainer, got nothing"),
        (pack(spaces.Box(0, 1, (3,), np.float32), [0, 0, 0]), box, "must have 2 numbers, as its space says, got 3"),
        (pack(spaces.Tuple([spaces.Discrete(2)]), [1]), pair, "must have 2 parts, got 1"),
        (pack(pair, [1, 0]), named, "must be of type Dict, as its space says, got Tuple"),
        (pack(spaces.Dict(b=spaces.Discrete(2)), {"b": 1}), named, "must have the parts a, got b"),
        (pack(spaces.Dict(a=spaces.Discrete(9)), {"a": 7}), named, r"action\['a'\] must be from 0 to 1, got 7"),
    ]
    for container, space, message in cases:
        with pytest.raises(DatapathError, match=message):
            value_of(container, space, "action")
