# SPDX-License-Identifier: BSD-3-Clause
"""Builds tests/packetsim/fuzz with sanitizers; `make sanitize` runs this file."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = "address,undefined"
COMPILER = os.environ.get("CXX", "g++")


def missing_runtime(folder: Path) -> str:
    """Return the reason why nothing can be built and run with the sanitizers here; empty where it can."""
    source, program = folder / "probe.cc", folder / "probe"
    source.write_text("int main() {}\n")
    for command in ([COMPILER, f"-fsanitize={SANITIZERS}", str(source), "-o", str(program)], [str(program)]):
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except OSError as error:
            return str(error)
        except subprocess.CalledProcessError as error:
            return f"{' '.join(command)}: {error.stderr.strip()}"
    return ""


def build(sanitizers: str = SANITIZERS) -> Path:
    """Build the program, unless it is newer than its sources; raises `CalledProcessError`."""
    folder, tools = ROOT / "build" / "sanitized" / sanitizers, Path(sys.executable).parent
    setting = [f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DNCC_SANITIZE={sanitizers}"]
    setting += [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    sources = str(Path(__file__).parent / "fuzz")
    for command in (["-G", "Ninja", "-S", sources, "-B", str(folder), *setting], ["--build", str(folder)]):
        subprocess.run([tools / "cmake", *command], check=True, stdout=subprocess.DEVNULL)
    return folder / "fuzz"


def main() -> int:
    """Build and run."""
    parser = argparse.ArgumentParser(description="Run the packet engine in random networks, with sanitizers.")
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sanitizers", default=SANITIZERS, help="as -fsanitize= takes them, say 'thread'")
    asked = parser.parse_args()
    program = build(asked.sanitizers)
    return subprocess.run([program, str(asked.first), str(asked.seeds), str(asked.threads)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
