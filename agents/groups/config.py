# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the learner over groups. Importing them loads no training framework."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.core.plausible import usual
from ncc.core.value import Count, Fraction, Positive, Value

if TYPE_CHECKING:
    from ncc.agents.groups.learner import GroupsLearner

Rate = Annotated[float, Meta(gt=0, le=1), usual(high=0.1)]


class GroupsConfig(Value, frozen=True):
    """Policy gradient over groups of racks with the same flows, then evolution of the weights as a polish.

    A group is `copies` racks that play one list of flows, with families on a network that is drawn for the list; an
    update plays an episode of `lists` groups. Simulators are deterministic, so that two racks of a group differ by what
    their policies did, and by nothing else.

    First PPO (Schulman et al., 2017) with a baseline of its own. Copies come in pairs of mirror images (`baseline`). In
    each network of a pair, a window of `window` periods has, with probability `explore_prob`, one host drawn at random:
    one copy adds a Gaussian to its number for the whole window, and the other subtracts it. The advantage of what that
    host does is its discounted reward from then on less that of its image, over twice the median size of such
    differences in the list, cut to -3 to 3. A reward that is alike for all hosts of a network makes it
    the network's.

    Then, from the best weights so far, an evolution strategy (Salimans et al., 2017) with antithetic noise: copy k of
    every group plays candidate k, so that all candidates meet the same flows. Candidates rank by what they earn over
    the mean of each list, summed over lists, so that no list counts more than another.

    Every `judge_every` updates the weights become a candidate. When there are as many candidates as copies, and at the
    end of each phase, all play `judge_episodes` further episodes side by side, and the one with the largest reward
    over the mean of each list remains. The untrained policy is the first candidate, the last that remains the result.
    """

    copies: Annotated[int, Meta(ge=2, le=256)] = 16
    lists: Annotated[int, Meta(ge=1, le=256)] = 6
    """Lists of flows in an update."""
    epochs: Annotated[Count, usual(high=1e9)] = 10_000_000
    """Environment epochs of both phases, summed over all racks; each is rounded up to whole updates."""
    polish_frac: Fraction = 1 / 3
    """Share of the epochs for the evolution strategy."""
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (24,)
    """Sizes of the tanh layers. The last layer begins with zeros: the untrained policy is the formula."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.97
    window: Count = 10
    """Periods for which noise lasts."""
    explorers: Literal["one", "all"] = "one"
    """Hosts of a network that explore in a window: one, or all of them at once."""
    baseline: Literal["mirror", "greedy", "mean", "critic"] = "mirror"
    """Rewards that are taken from an explorer's: those of its mirror image, of copy 0, which is then greedy, or the
    mean of all other copies; or what a critic expects, which sees all hosts of the network and true sizes. Training
    alone has the critic: it is in no policy file."""
    critic_lambda: Fraction = 0.95
    """Weight of later rewards over the critic's word for them (generalised advantage estimation)."""
    explore_prob: Annotated[float, Meta(gt=0, le=1)] = 0.5
    noise: Positive = 0.17
    """Standard deviation of the noise, in numbers of [-1, 1]: 0.5 in the logarithm of the rate at `action.scale` 3."""
    noise_final: Positive = 0.08
    """Value that `noise` reaches linearly at the end of PPO."""
    clip: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    passes: Count = 4
    """Passes over the samples of an update."""
    batch_size: Count = 1024
    max_samples: Count = 60_000
    """Most samples of an update that are learnt from, drawn at random."""
    learning_rate: Rate = 5e-3
    """Step size of Adam. It falls linearly to a tenth at the end of its phase, and so does that of the polish."""
    max_grad_norm: Positive = 1.0
    updates: Literal["own", "rllib"] = "own"
    """The code of PPO's loss, minibatches and Adam: that of this package, or Ray RLlib's learner. Both have the same
    samples in the same minibatches. What was played, the judging and the polish are the same."""
    polish_noise: Positive = 0.04
    """Standard deviation of the candidates' weights around the mean."""
    polish_learning_rate: Rate = 0.015
    weight_decay: Fraction = 5e-4
    """Share of the weights that each update of the evolution strategy takes away."""
    judge_every: Count = 8
    judge_episodes: Count = 5
    checkpoint_updates: Count = 5
    """Updates between checkpoints."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3

    def check(self) -> None:
        """Check settings against each other."""
        if not self.hidden:
            raise ConfigError("GroupsConfig.hidden must name at least one layer, for instance [24]")
        if self.copies % 2 and (self.polish_frac or self.baseline == "mirror"):
            raise ConfigError(
                "GroupsConfig.copies must be even, as mirror images and candidates of the polish come in pairs, got "
                f"{self.copies}; or set baseline to mean or greedy, and polish_frac to 0"
            )

    @property
    def polish_from(self) -> int:
        """Epochs after which the evolution strategy begins."""
        return round(self.epochs * (1 - self.polish_frac))

    def build(self, *, batching: bool = False) -> "GroupsLearner":
        """Make the learner. PyTorch is loaded later.

        Raises:
            ConfigError: the datapath does not step many racks in one call (`batching`).
            MissingExtraError: PyTorch or TensorBoard is not installed, or Ray for `updates`.
        """
        from ncc.agents.groups.learner import GroupsLearner

        if not batching and self.baseline == "critic":
            raise ConfigError(
                "agent.baseline=critic sees all hosts and the true sizes of their flows, which no host and packetsim "
                "alone can tell: train on packetsim; policies need no critic anywhere"
            )
        if not batching:
            raise ConfigError(
                "agent=groups replays each list of flows in many racks at once, which takes a datapath that steps them "
                "in one call: train on packetsim, or choose another agent"
            )
        if self.updates == "rllib":
            require_extra("rllib", "agent.updates=rllib")
        require_extra("torch", "training")
        return GroupsLearner(self)


CONFIG = GroupsConfig
