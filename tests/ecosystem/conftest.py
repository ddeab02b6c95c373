# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on one thread, which is many times faster for policies as small as these."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
