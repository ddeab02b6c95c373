# SPDX-License-Identifier: BSD-3-Clause
"""A comparison in a sentence: how much sooner a controller finishes flows than another, with the paired interval.

Where there are requests, they are judged in place of flows, by their QCT.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ncc.harness.controller import OPPONENT
from ncc.metrics.catalogue import CATALOGUE, HEADLINE, Better
from ncc.metrics.stats import Interval
from ncc.results.comparison import GAP_METRIC, MIN_SEEDS, Comparison
from ncc.results.palette import label

GOODPUT, QCT = "goodput_bps", "qct_mean_s"
Digits = Callable[[float], str]


def verdicts(comparison: Comparison) -> tuple[str, ...]:
    """Write a sentence for each controller of `subjects`, which compares it with its `opponent`.

    Two controllers differ if the paired bootstrap interval of the ratio of their mean FCTs excludes 1; with requests,
    of their mean QCTs.
    """
    return tuple(_sentence(comparison, name) for name in subjects(comparison))


def subjects(comparison: Comparison) -> tuple[str, ...]:
    """Name the controllers that the sentences are about: the learned ones and the user's own, if there are any.

    Otherwise it is the controller with the lowest mean FCT (with requests, mean QCT) of the classical ones or, if there
    are none, of all. The reference is no subject if there are others.
    """
    learned, classical, every = (
        tuple(name for name in names if name != comparison.reference)
        for names in (comparison.learned, comparison.classical, comparison.controllers)
    )
    return learned or (_fastest(comparison, classical or every or comparison.controllers),)


def opponent(comparison: Comparison, subject: str) -> str | None:
    """Name the controller with which `subject` is compared; None if it was run alone.

    It is the first that was run of these: the reference; DCTCP; the classical controller with the lowest mean FCT (with
    requests, mean QCT).
    """
    others = [name for name in comparison.controllers if name != subject]
    for name in (comparison.reference, OPPONENT):
        if name in others:
            return name
    classical = [name for name in others if name in comparison.classical] or others
    return _fastest(comparison, classical) if classical else None


def _judged(comparison: Comparison) -> tuple[str, str]:
    """Metric that decides, and the word for what it times."""
    return (QCT, "requests") if QCT in comparison.metrics else (GAP_METRIC, "flows")


def _fastest(comparison: Comparison, names: Sequence[str]) -> str:
    """Controller with the lowest mean of the metric that decides."""
    metric, _ = _judged(comparison)
    mean_s = {name: comparison.cell(name, metric).estimate for name in names}
    return min(names, key=lambda name: np.nan_to_num(mean_s[name], nan=np.inf))


def _sentence(comparison: Comparison, subject: str) -> str:
    reference = opponent(comparison, subject)
    if reference is None:
        return f"{label(subject)} was run alone; name a second controller to compare it with."
    ours, theirs = label(subject), label(reference)
    bad = {name: len(comparison.invalid.get(name, {})) for name in (subject, reference)}
    if all(count == len(comparison.seeds) for count in bad.values()):
        return f"{ours} against {theirs}: nothing can be concluded, because all runs of both are invalid."
    metric, things = _judged(comparison)
    took, goodput = (comparison.ratio(subject, reference, each) for each in (metric, GOODPUT))
    n = took.n or goodput.n
    if n < MIN_SEEDS:
        return (
            f"{ours} against {theirs}: nothing can be concluded from {n} seed{'s' if n != 1 else ''}; "
            f"take at least {MIN_SEEDS}."
        )
    if np.isnan(took.estimate):
        return f"{ours} against {theirs}: {_goodput(goodput) or f'no {things[:-1]} has a completion time'}."
    how = _by(took, "sooner", "later")
    if took.estimate == 1.0:
        verdict = f"{ours} and {theirs} finish {things} equally soon ({_change(took)})"
    elif 1.0 in took:
        ahead = f"{ours} {how[0]} on average, but the interval {how[1]} includes 0"
        verdict = f"{ours} and {theirs} finish {things} equally soon ({ahead})"
    else:
        verdict = f"{ours} finishes {things} {how[0]} than {theirs} {how[1]}"
    if found := _goodput(goodput):
        verdict += f"; {found}"
    if lost := _losses(comparison, subject, reference):
        verdict += f"; worse: {', '.join(lost)}"
    refused = [
        f"{count} of {label(name)}'s {len(comparison.seeds)} runs are invalid" for name, count in bad.items() if count
    ]
    if bad[subject] and took.high < 1.0:
        return f"{ours} does not beat {theirs}: {' and '.join(refused)} (as they ended: {verdict})."
    return f"{'; '.join([verdict, *refused])}."


def _losses(comparison: Comparison, subject: str, reference: str) -> list[str]:
    """Texts on other metrics of the short table that are significantly worse, with both values."""
    losses, said = [], (_judged(comparison)[0], GOODPUT)
    for key in HEADLINE:
        metric = CATALOGUE[key]
        if key in said or key not in comparison.metrics or metric.better is Better.NEITHER:
            continue
        difference = comparison.difference(subject, reference, key)
        if difference.low > 0 if metric.better is Better.LOWER else difference.high < 0:
            ours, theirs = (metric.text(comparison.cell(name, key).estimate) for name in (subject, reference))
            losses.append(f"{metric.short or metric.title} {ours} for {theirs}")
    return losses


def _goodput(ratio: Interval) -> str:
    """Put the ratio of two goodputs in words; empty if it is undefined."""
    if np.isnan(ratio.estimate):
        return ""
    return f"goodput equal ({_change(ratio)})" if 1.0 in ratio else "goodput " + " ".join(_by(ratio, "lower", "higher"))


def _by(ratio: Interval, less: str, more: str) -> tuple[str, str]:
    """Texts of a ratio's distance from 1, in percent and with the word `less` or `more`, and of its interval."""
    sign, word = (-1.0, less) if ratio.estimate < 1 else (1.0, more)
    low, high = sorted(sign * 100 * (bound - 1) for bound in (ratio.low, ratio.high))
    estimate = sign * 100 * (ratio.estimate - 1)
    text = _digits(estimate, low, high)
    return f"{text(estimate)} % {word}", f"[{text(low)}, {text(high)}]"


def _change(ratio: Interval) -> str:
    values = [100 * (value - 1) for value in (ratio.estimate, ratio.low, ratio.high)]
    text = _digits(*values)
    return "{} % [{}, {}]".format(*map(text, values))


def _digits(*values: float) -> Digits:
    """Choose a format for all numbers: tenths if one lies between -1 and 1 and is not 0, else whole numbers."""
    digits = 1 if any(0 < abs(value) < 1 for value in values) else 0
    return lambda value: signed(value, digits)


def signed(value: float, digits: int) -> str:
    """Format a number with `digits` digits after the decimal point, and a minus sign instead of a hyphen."""
    return f"{value:z.{digits}f}".replace("-", "\N{MINUS SIGN}")
