# SPDX-License-Identifier: BSD-3-Clause
"""Builds envs/packetsim/fuzz with sanitizers, once for each content of its sources; `make sanitize` runs this file."""

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "envs" / "packetsim" / "fuzz"
SANITIZERS = "address,undefined"
COMPILER = os.environ.get("CXX", "g++")


def missing_runtime(folder: Path, sanitizers: str = SANITIZERS) -> str:
    """Why nothing can be built and run with these sanitizers here; empty where it can."""
    source, program = folder / "probe.cc", folder / "probe"
    source.write_text("int main() {}\n")
    for command in ([COMPILER, f"-fsanitize={sanitizers}", str(source), "-o", str(program)], [str(program)]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return str(error)
        if done.returncode:
            return f"{' '.join(command)}: {done.stderr.strip()}"
    return ""


def build(sanitizers: str = SANITIZERS) -> Path:
    """The program, from the cache if it has been built from the same sources; raises `CalledProcessError`."""
    folder = ROOT / "build" / "sanitized" / _digest(sanitizers)
    program = folder / "fuzz"
    if not program.exists():
        tools = Path(sys.executable).parent
        setting = [f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DNCC_SANITIZE={sanitizers}"]
        setting.append(f"-DPython_EXECUTABLE={sys.executable}")
        make = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
        cmake = str(tools / "cmake")
        subprocess.run([cmake, "-S", FUZZ, "-B", folder, *make, *setting], check=True, stdout=subprocess.DEVNULL)
        # Linked last: a build that was broken off leaves no program.
        subprocess.run([cmake, "--build", folder], check=True, stdout=subprocess.DEVNULL)
    return program


def _digest(sanitizers: str) -> str:
    version = subprocess.run([COMPILER, "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(repr((COMPILER, version, sanitizers)).encode())
    folders = (FUZZ, ROOT / "envs" / "packetsim" / "src", ROOT / "envs" / "native", ROOT / "baselines")
    sources = [path for folder in folders for path in folder.iterdir()]
    for path in (*sorted(sources), ROOT / "ncc" / "core" / "signals.py"):
        if path.suffix in {".h", ".cc", ".cmake", ".txt", ".py"}:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


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
