# SPDX-License-Identifier: BSD-3-Clause
"""Racks of a learner's workers, which step together or in a process each, as the datapath allows."""

from dataclasses import dataclass

from ncc.envs.families import Families
from ncc.envs.mixture import Mixture, require_batching
from ncc.envs.pairs import paired
from ncc.envs.rack import RackBatch
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.harness.batch import BatchedEnv
from ncc.harness.learner import Learner
from ncc.harness.networks import side_by_side
from ncc.harness.workers import usable_cpus

_ONE_SCENARIO = Families()


@dataclass(frozen=True)
class RackFactory:
    """A factory of the racks of worker `index`. Racks are numbered so that no two workers meet the same flows.

    Racks step together in the worker's process if the datapath can do that (`Batching`). Otherwise each rack has its
    own process. The results are the same.

    With families, racks are the slots of a `Mixture`, and `spec` defines their observation, action and reward.

    Raises:
        ConfigError: families on a datapath that does not offer `Batching`.
    """

    spec: EnvSpec
    datapath: DatapathFactory
    seed: int
    racks: int = 1
    threads: int = 1
    """Threads of each worker, for a datapath that can batch."""
    families: Families = _ONE_SCENARIO

    def __post_init__(self) -> None:
        if self.families.of:
            require_batching(self.datapath)

    @classmethod
    def for_learner(
        cls, spec: EnvSpec, datapath: DatapathFactory, seed: int, learner: Learner, families: Families = _ONE_SCENARIO
    ) -> "RackFactory":
        """Make a factory with the racks that the learner asks for, and its workers' share of the processors.

        Raises:
            ConfigError: for a reason that `Learner.check_env`, `EnvSpec.copies` or the class lists.
        """
        learner.check_env(spec.view.action.n_actions, spec.copies(learner.racks_per_env))
        workers = max(1, learner.processes // learner.racks_per_env)
        threads = max(1, usable_cpus() // workers)
        return cls(spec, datapath, seed, learner.racks_per_env, threads=threads, families=families)

    def __call__(self, index: int) -> BatchedEnv:
        return paired(self._racks(index), self.spec.view.pairs, self.seed, index)

    def _racks(self, index: int) -> BatchedEnv:
        first, copies = index * self.racks, self.spec.copies(self.racks)
        if self.families.of:
            return Mixture(
                self.families,
                self.spec,
                self.datapath,
                self.seed,
                slot=first,
                n_slots=self.racks,
                threads=self.threads,
                copies=copies,
            )
        datapath = side_by_side(self.datapath)
        return RackBatch(self.spec, datapath, self.seed, first, self.racks, threads=self.threads, copies=copies)
