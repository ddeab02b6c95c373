# SPDX-License-Identifier: BSD-3-Clause
"""Our environments, served to agents of other projects."""
