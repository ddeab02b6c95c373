# SPDX-License-Identifier: BSD-3-Clause
"""The messages of ns3-gym's protocol, as descriptors that are built on first use.

The tables contain the facts of the protocol (package, names, numbers and types of fields) as the public project
tkn-tub/ns3-gym defines them in proto3; nothing is generated. The descriptors have a separate pool, so that a program
may also import ns3-gym's own messages.
"""

import importlib
from functools import cache
from types import SimpleNamespace
from typing import Any

from ncc.core.extras import require_extra

PACKAGE = "ns3opengym"

ENUMS = {
    "SpaceType": ("NoSpaceType", "Discrete", "Box", "Tuple", "Dict"),
    "Dtype": ("NoDType", "INT", "UINT", "FLOAT", "DOUBLE"),
}
"""Enumerations; values are numbered from 0."""
REASONS = ("SimulationEnd", "GameOver")
"""Values of `EnvStateMsg.Reason`: the simulation's time is up, or the task is over."""

MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "SpaceDescription": {"type": (1, "SpaceType"), "space": (2, "Any"), "name": (3, "string")},
    "DiscreteSpace": {"n": (1, "int32")},
    "BoxSpace": {"low": (1, "float"), "high": (2, "float"), "dtype": (3, "Dtype"), "shape": (4, "uint32*")},
    "TupleSpace": {"element": (1, "SpaceDescription*")},
    "DictSpace": {"element": (1, "SpaceDescription*")},
    "DataContainer": {"type": (1, "SpaceType"), "data": (2, "Any"), "name": (3, "string")},
    "DiscreteDataContainer": {"data": (1, "int32")},
    "BoxDataContainer": {
        "dtype": (1, "Dtype"),
        "shape": (2, "uint32*"),
        "intData": (3, "int32*"),
        "uintData": (4, "uint32*"),
        "floatData": (5, "float*"),
        "doubleData": (6, "double*"),
    },
    "TupleDataContainer": {"element": (1, "DataContainer*")},
    "DictDataContainer": {"element": (1, "DataContainer*")},
    "SimInitMsg": {
        "simProcessId": (1, "uint64"),
        "wafShellProcessId": (2, "uint64"),
        "obsSpace": (3, "SpaceDescription"),
        "actSpace": (4, "SpaceDescription"),
    },
    "SimInitAck": {"done": (1, "bool"), "stopSimReq": (2, "bool")},
    "EnvStateMsg": {
        "obsData": (1, "DataContainer"),
        "reward": (2, "float"),
        "isGameOver": (3, "bool"),
        "reason": (4, "EnvStateMsg.Reason"),
        "info": (5, "string"),
    },
    "EnvActMsg": {"actData": (1, "DataContainer"), "stopSimReq": (2, "bool")},
}
"""Number and type of each message's fields; a star means repeated."""


def library(name: str) -> Any:
    """Import a module of the extra `ns3gym`.

    Raises:
        MissingExtraError: the extra is not installed.
    """
    require_extra("ns3gym", "ns3-gym's protocol")
    return importlib.import_module(name)


def need_packages() -> None:
    """Load the packages that the protocol needs, so that an error about a missing one comes first.

    Raises:
        ConfigError: a package is not installed.
    """
    messages()
    library("zmq.utils.monitor")


@cache
def messages() -> SimpleNamespace:
    """Return the message classes and the numbers of enumerations (`Box`, `UINT`, `GameOver`), all by name."""
    any_pb2 = library("google.protobuf.any_pb2")
    pool = library("google.protobuf.descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    make = library("google.protobuf.message_factory").GetMessageClass
    numbers = {value: number for values in (*ENUMS.values(), REASONS) for number, value in enumerate(values)}
    classes = {name: make(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}
    return SimpleNamespace(**numbers, **classes)


def _file() -> Any:
    """Return the whole protocol as a `FileDescriptorProto`."""
    pb2 = library("google.protobuf.descriptor_pb2")
    file = pb2.FileDescriptorProto(
        name="ncc/ns3gym.proto", package=PACKAGE, syntax="proto3", dependency=["google/protobuf/any.proto"]
    )
    for name, values in ENUMS.items():
        _enum(file.enum_type.add(), name, values)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "EnvStateMsg":
            _enum(message.enum_type.add(), "Reason", REASONS)
        for field, (number, kind) in fields.items():
            _field(pb2.FieldDescriptorProto, message.field.add(name=field, number=number), kind)
    return file


def _enum(enum: Any, name: str, values: tuple[str, ...]) -> None:
    enum.name = name
    for number, value in enumerate(values):
        enum.value.add(name=value, number=number)


def _field(kinds: Any, field: Any, kind: str) -> None:
    field.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if kind in ENUMS or kind.endswith(".Reason"):
        field.type, field.type_name = kinds.TYPE_ENUM, f".{PACKAGE}.{kind}"
    elif kind == "Any" or kind in MESSAGES:
        field.type = kinds.TYPE_MESSAGE
        field.type_name = ".google.protobuf.Any" if kind == "Any" else f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(kinds, f"TYPE_{kind.upper()}")
