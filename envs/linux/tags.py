# SPDX-License-Identifier: BSD-3-Clause
"""`TagProgram`: a tag of baselines/tags at hosts (bpf/tag.bpf.c), which gives data packets the class of their flow."""

import numpy as np

from ncc.envs.linux.extension import extension, open_object
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.order_program import take_sizes
from ncc.envs.native.params import Params, with_defaults

PARAMS_MAX = 16
"""Most parameters of a tag: NCC_CC_PARAMS_MAX of cc.h."""


class TagProgram:
    """The program, for all hosts of a rack. Packets without data, or of protocols other than TCP, have class 0.

    A flow is the data that a connection sends until all that was written is acknowledged; its size is the part that the
    host knows. `close` may be called twice.

    Args:
        name: name of a tag in `baselines/tags/`.
        params: parameters that differ from their defaults.

    Attributes:
        fd: file descriptor of the program.
        takes_sizes: as in `ncc.envs.linux.order_program.OrderProgram`.

    Raises:
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, name: str, params: Params = ()) -> None:
        row = np.zeros(PARAMS_MAX, np.uint64)
        values = list(with_defaults(extension().tag_params(name), params).values())
        row[: len(values)] = values
        self._object = open_object(require_built()[f"tag_{name}"], {".rodata.tag": row.tobytes()})
        self.fd: int = self._object.programs["ncc_tag"]
        self.takes_sizes = take_sizes(self._object)

    def close(self) -> None:
        """Unload the program; devices that still have it keep it until their namespace is removed."""
        self._object.close()
