# SPDX-License-Identifier: BSD-3-Clause
"""Other people's learners and tools, as they are, on our environments."""
