# SPDX-License-Identifier: BSD-3-Clause
"""Write a trained policy as one file for hosts.

``ncc export run=<folder> out=policy.ncc`` writes the file (``policy=<name>``: of a packaged policy).
``ncc export inspect policy.ncc`` checks it in full and says what it holds.
``ncc export check policy.ncc`` also compares ncc's code and onnxruntime with the definition in 64 bits.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncc.core.options import Parser, exit_status


def main(plain: dict[str, Any], _: list[str]) -> None:
    """Export, and print what was written."""
    # Imported late: `--help` does not need these modules.
    from ncc.core.value import from_dict
    from ncc.policies import load_policy_file
    from ncc.policies.export import ExportSpec, export
    from ncc.run.controllers import load_controller

    fallback = plain.pop("fallback", None)
    spec = from_dict(ExportSpec, plain, "configuration")
    path = export(spec, None if fallback is None else load_controller(str(fallback)))
    file = load_policy_file(path)
    print(f"{path}, {file.size_bytes:,} bytes")
    print(f"To let hosts run this file and no other: ncc host run ... --digest sha256:{file.sha256}")
    if spec.onnx is not None:
        print(f"{spec.onnx}, the same policy for ONNX run times")
    print(f"To see what it holds: ncc export inspect {path}")
    print(f"To compare it with DCTCP: ncc evaluate controller={path},dctcp datapath=packetsim")


def look(arguments: Sequence[str]) -> int:
    """Inspect or check a file; exit status 1 for a file that is refused and 2 for unusable settings."""
    return exit_status(lambda: _look(_parser().parse_args(arguments)))


def _look(options: argparse.Namespace) -> int:
    from ncc.policies import load_policy_file

    file = load_policy_file(options.file)
    if options.verb == "inspect":
        from ncc.policies.inspect import lines

        print(*lines(file, str(options.file)), sep="\n")
    else:
        from ncc.policies.check import check_lines

        print(*check_lines(file, str(options.file)), sep="\n")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="ncc export")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, purpose in (
        ("inspect", "check a policy file in full and say what it holds"),
        ("check", "also compare ncc's code and onnxruntime with the definition in 64 bits"),
    ):
        one = verbs.add_parser(verb, help=purpose, description=purpose)
        one.add_argument("file", type=Path, help="a policy file")
    return parser


if __name__ == "__main__":
    if sys.argv[1:2] in (["inspect"], ["check"]):
        raise SystemExit(look(sys.argv[1:]))
    from ncc.cli.mains import run_main

    run_main("export", main)
