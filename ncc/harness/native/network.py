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

    The weights are one vector: for each layer W [outputs, inputs] and then b [outputs]. The network keeps the rows that
    `forward` and `act` have passed through it, with their outputs, for `backward`. `load` and `begin` forget them.
    """

    @property
    def size(self) -> int:
        """Number of weights."""
        ...

    def load(self, weights: Float) -> None:
        """Copy the weights [size] and forget the kept rows."""
        ...

    def begin(self) -> None:
        """Forget the kept rows."""
        ...

    def forward(self, rows: Float) -> Float:
        """Return the outputs [rows, outputs] of rows [rows, inputs]; both are kept."""
        ...

    def look(self, rows: Float) -> Float:
        """Return the outputs [rows, outputs] of rows [rows, inputs], which are not kept."""
        ...

    def act(self, rows: Float, uniform: npt.NDArray[np.float64], actions: ActionArray) -> bool:
        """Pass rows forward, keep them, and draw an action for each from the softmax of its outputs.

        Args:
            rows: [rows, inputs]
            uniform: [rows] random numbers in [0, 1), which determine the actions. A row's action is the first whose
                cumulative probability exceeds its number.
            actions: [rows] array to which the drawn indices are written.

        Returns:
            True if all outputs are finite.
        """
        ...

    def inputs(self) -> Float:
        """Return all rows [rows, inputs] that were kept."""
        ...

    def outputs(self) -> Float:
        """Return the outputs [rows, outputs] of all rows that were kept."""
        ...

    def backward(self, outputs: Float, gradient: Float) -> None:
        """Compute the gradient of a loss with respect to the weights, over all rows that were kept.

        Args:
            outputs: [rows, outputs] gradient of the loss with respect to the outputs of these rows.
            gradient: [size] array to which the gradient with respect to the weights is written.
        """
        ...


def network(sizes: Sequence[int]) -> Network:
    """Return a network whose weights are 0.

    Args:
        sizes: number of inputs, number of units of each hidden layer, and number of outputs; all at least 1.

    Raises:
        ConfigError: the extension module is not built.
    """
    return cast(Network, load_extension("ncc.harness.native._network").Network(list(sizes)))
