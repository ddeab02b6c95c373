# SPDX-License-Identifier: BSD-3-Clause
"""Names of earlier versions, and their replacements."""

SERVED = ("ncc_learned", "ncc_blind", "ncc_host")
"""Former controllers, whose policies differed in the knowledge of flow sizes that they needed."""
LOST = ("alone", "backlog", "cold", "levels", "profit", "slowdown", "utility")
"""Endings of former controllers and recipes, each of which changed one part of NCC."""

OLD: dict[str, dict[str, str]] = {
    "controller": {
        **dict.fromkeys(SERVED, "is now called ncc, which chooses its weights by what hosts know"),
        "ncc_limit": "is now called trained",
        "ncc_receivers": "is now called ncc, which has both ends",
        "receiver_history": "is gone: take ncc, whose receivers say in the SYN-ACK who may begin at once",
        "ncc_warm": "is gone with imitation: take ncc",
        **{f"ncc_{ending}": "is gone: take ncc, or a training of your own (recipe=thesis)" for ending in LOST},
    },
    "ncc train": {"experiment": "is now called recipe: write recipe=<name>"},
    "env": {
        "ns3gym": "is gone: a simulation of your own trains an agent of Stable-Baselines3 by examples/ns3gym_sb3.py, "
        "or any other through ncc.envs.ns3gym.Ns3GymEnv",
    },
    "experiment": {
        "ncc_ablation": "is gone with the policies that it compared: take ncc_worth",
        "ncc_knows": "is gone with the policies that it compared: take ncc_blind",
    },
    "recipe": {
        "ncc_pairs": "is now called ncc",
        "ncc_pairs_blind": "is now called ncc_services",
        "ncc_host": "is gone: take ncc, or ncc_services for hosts that predict sizes",
        **{f"ncc_{ending}": "is gone: take thesis, and change that part of it" for ending in LOST},
    },
}
"""Explanations by kind of name and by name; a sentence is the kind, the name and the explanation."""


def now_called(kind: str, name: str) -> str:
    """Return a sentence that says what replaces a name of an earlier version; empty for any other name."""
    return f"{kind} {name} {end}" if (end := OLD.get(kind, {}).get(name)) else ""
