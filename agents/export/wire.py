# SPDX-License-Identifier: BSD-3-Clause
"""The bytes of a policy's ONNX model, of which there is one form: written by hand, so that a reader needs no onnx.

Field numbers are those of onnx.proto (ONNX IR version 8), the encoding is that of protocol buffers, fields in order
(https://protobuf.dev/programming-guides/encoding). Whoever writes a model compares it with onnx (`model.onnx_model`).
"""

from ncc.agents.policy import MlpPolicy

OPSET, IR_VERSION = 13, 8
"""Of ONNX; old ones, that every run time reads."""
INPUT, OUTPUT, ROWS = "observation", "logits", "hosts"

_FLOAT, _INT = 1, 2
"""TensorProto.FLOAT and AttributeProto.INT."""


def model_bytes(policy: MlpPolicy, name: str) -> bytes:
    """A model of `Gemm` and `Tanh`: float32 `observation` [hosts, obs_dim] to `logits` [hosts, n_actions].

    Equal policies and names give equal bytes, whatever is installed.
    """
    nodes, weights, inner = [], [], INPUT
    last = len(policy.layers) - 1
    for i, (weight, bias) in enumerate(policy.layers):
        for part, array in (("w", weight), ("b", bias)):
            dims = ((1, size) for size in array.shape)
            weights.append(_message(*dims, (2, _FLOAT), (8, f"{part}{i}"), (9, array.astype("<f4").tobytes())))
        affine = OUTPUT if i == last else f"affine{i}"
        taken = ((1, end) for end in (inner, f"w{i}", f"b{i}"))
        transposed = _message((1, "transB"), (3, 1), (20, _INT))
        nodes.append(_message(*taken, (2, affine), (3, affine), (4, "Gemm"), (5, transposed)))
        if i < last:
            inner = f"hidden{i}"
            nodes.append(_message((1, affine), (2, inner), (3, inner), (4, "Tanh")))
    graph = _message(
        *((1, node) for node in nodes),
        (2, name),
        *((5, weight) for weight in weights),
        (11, _end(INPUT, policy.obs_dim)),
        (12, _end(OUTPUT, policy.n_actions)),
    )
    opset = _message((1, ""), (2, OPSET))
    return _message((1, IR_VERSION), (2, "ncc"), (7, graph), (8, opset))


def _end(name: str, size: int) -> bytes:
    """What a graph takes or gives: float32 [hosts, size]."""
    shape = _message((1, _message((2, ROWS))), (1, _message((1, size))))
    return _message((1, name), (2, _message((1, _message((1, _FLOAT), (2, shape))))))


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Fields by their numbers: whole numbers as varints, the rest with its length before it."""
    written = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            written += _varint(number << 3) + _varint(value)
            continue
        data = value.encode() if isinstance(value, str) else value
        written += _varint(number << 3 | 2) + _varint(len(data)) + data
    return bytes(written)


def _varint(value: int) -> bytes:
    """A whole number from 0 on: seven bits to a byte, the lowest first, the top bit set on all but the last."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
