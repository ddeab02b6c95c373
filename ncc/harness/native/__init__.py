# SPDX-License-Identifier: BSD-3-Clause
"""Networks of tanh layers in C++: the forward pass of a policy, and the gradient of what was passed forward."""
