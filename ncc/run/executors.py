# SPDX-License-Identifier: BSD-3-Clause
"""The place where an evaluation runs, as settings: processes of this machine, or a Ray cluster."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from ncc.agents.rllib.config import check_cluster, require_wheel
from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.core.value import Value

if TYPE_CHECKING:
    from ncc.harness.pool import Executor


class ExecutorSpec(Value, frozen=True, kw_only=True):
    """Settings of where runs take place, and how many at a time. Results do not depend on them."""

    executor: Literal["processes", "ray"] = "processes"
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    """Runs at a time, each a process."""
    address: str | None = None
    """Address of a Ray cluster: auto, or host:port of its head. None: start a private Ray on this machine."""
    wheel: str | None = None
    """Path of ncc's wheel to send to the cluster's workers; None: they have ncc installed."""

    def check(self) -> None:
        for name in ("address", "wheel"):
            if self.executor != "ray" and getattr(self, name) is not None:
                raise ConfigError(f"{name} is for a Ray cluster: set executor=ray, or leave {name} out")
        check_cluster(self.address, self.wheel, of="")

    def load_executor(self) -> "Executor":
        """Make the executor.

        Raises:
            ConfigError: Ray is not installed, or the wheel is not a file.
        """
        if self.executor == "processes":
            from ncc.harness.pool import Processes  # imported late: `--help` does not need pyarrow

            return Processes(self.workers)
        require_extra("rllib", "executor=ray", "ray")
        from ncc.agents.rllib.executor import RayExecutor

        if self.wheel is not None:
            require_wheel(self.wheel)
        return RayExecutor(self.workers, self.address, self.wheel)
