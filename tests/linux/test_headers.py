# SPDX-License-Identifier: BSD-3-Clause
"""Names and parameters of headers in user space of the Linux datapath. Needs no privileges."""

import pytest

from ncc.baselines import registry
from ncc.envs.linux.extension import extension


def test_the_headers_are_those_of_the_table() -> None:
    kernel = {name: info for name, info in registry.controllers().items() if not info.needs.simulated}
    assert tuple(extension().transports()) == tuple(kernel)
    for name, info in kernel.items():
        assert extension().ecn(name) == info.ecn
        assert [row[:4] for row in extension().params(name)] == [(p.name, p.default, p.min, p.max) for p in info.params]
    assert extension().orders() == [*registry.named("flow order")]
    with pytest.raises(ValueError, match="no controller called nothing"):
        extension().params("nothing")
