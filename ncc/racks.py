# SPDX-License-Identifier: BSD-3-Clause
"""What a learner learns in: the racks of each of its workers, stepped in the way that the datapath allows."""

from dataclasses import dataclass

from ncc.cli import usable_cpus
from ncc.envs.rack import RackBatch
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.workers import WorkerRacks
from ncc.harness.batch import BatchedEnv
from ncc.harness.learner import Learner
from ncc.harness.networks import Batching


@dataclass(frozen=True)
class RackFactory:
    """The racks of worker `index`, numbered so that no two workers ever meet the same flows.

    Racks step together in the worker's own process where the datapath can do that (`Batching`), and in a process each
    where it cannot. What they give is the same.
    """

    spec: EnvSpec
    datapath: DatapathFactory
    seed: int
    racks: int = 1
    threads: int = 1
    """Of each worker, for a datapath that can batch."""

    @classmethod
    def for_learner(cls, spec: EnvSpec, datapath: DatapathFactory, seed: int, learner: Learner) -> "RackFactory":
        """With as many racks as the learner asks for, and its workers' share of the processors."""
        workers = max(1, learner.processes // learner.racks_per_env)
        return cls(spec, datapath, seed, learner.racks_per_env, threads=max(1, usable_cpus() // workers))

    def __call__(self, index: int) -> BatchedEnv:
        first = index * self.racks
        if self.racks == 1 or isinstance(self.datapath, Batching):
            return RackBatch(self.spec, self.datapath, self.seed, first, self.racks, threads=self.threads)
        return WorkerRacks(self.spec, self.datapath, self.seed, self.racks, first_rack=first)
