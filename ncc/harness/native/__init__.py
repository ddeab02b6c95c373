# SPDX-License-Identifier: BSD-3-Clause
"""Extension modules in C++: neural networks of tanh layers with their gradients, and the formula LOCAL."""
