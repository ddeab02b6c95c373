# SPDX-License-Identifier: BSD-3-Clause
"""Results for readers: the experiments as one page of docs, and any runs as one self-contained HTML file."""
