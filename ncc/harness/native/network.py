# SPDX-License-Identifier: BSD-3-Clause
"""The extension module with neural networks of tanh layers, for learners."""

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from ncc.core.extras import load_extension
from ncc.harness.batch import ActionArray

Float = npt.NDArray[np.float32]


class Network(Protocol):
    """Affine layers with tanh between them.

    The weights are one vector: for each layer W [outputs, inputs] and then b [outputs]. It keeps the rows of forward
    passes for the gradient, until `load` or `begin`.
    """

    @property
    def size(self) -> int:
        """Number of weights."""
        ...

    def load(self, weights: Float) -> None:
        """Copy the weights [size] and forget all rows."""
        ...

    def begin(self) -> None:
        """Forget all rows."""
        ...

    def forward(self, rows: Float) -> Float:
        """Return the outputs [rows, outputs] of rows [rows, inputs]; both are kept."""
        ...

    def look(self, rows: Float) -> Float:
        """Return the outputs [rows, outputs] of rows [rows, inputs], which are not kept."""
        ...

    def act(self, rows: Float, uniform: npt.NDArray[np.float64], actions: ActionArray) -> bool:
        """Pass rows forward and draw an action for each from the softmax of its outputs.

        Args:
            rows: [rows, inputs]
            uniform: [rows] numbers in [0, 1); the action is the first whose cumulative probability exceeds it.
            actions: [rows] filled.

        Returns:
            False if an output is not finite.
        """
        ...

    def inputs(self) -> Float:
        """Return all rows [rows, inputs] that were kept."""
        ...

    def outputs(self) -> Float:
        """Return the outputs [rows, outputs] of all rows that were kept."""
        ...

    def backward(self, outputs: Float, gradient: Float) -> None:
        """Fill `gradient` [size] from the gradient [rows, outputs] with respect to all outputs that were kept."""
        ...


def network(sizes: Sequence[int]) -> Network:
    """Return a network with weights of 0; sizes are the numbers of inputs, of hidden units by layer, and of outputs.

    Raises:
        ConfigError: the extension module is not built.
    """
    return cast(Network, load_extension("ncc.harness.native._network").Network(list(sizes)))
