# SPDX-License-Identifier: BSD-3-Clause
"""What a policy file for hosts is made of: its container, and the policy as an ONNX model."""
