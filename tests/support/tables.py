# SPDX-License-Identifier: BSD-3-Clause
"""Tables of cases as YAML files beside the tests that go through them."""

from pathlib import Path
from typing import Any

import yaml


def table(test_file: str, name: str) -> Any:
    """Content of the YAML file of that name beside `test_file`."""
    return yaml.safe_load(Path(test_file).with_name(name).read_text())
