# SPDX-License-Identifier: BSD-3-Clause
"""Every header is restricted C: it compiles alone for C, C++ and BPF, and the build finds a new one by itself."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ncc.baselines
from ncc.baselines.registry import controllers
from tests.baselines import toy
from tests.support.linux import needs

FOLDER = Path(ncc.baselines.__file__).parent
HEADERS = sorted(FOLDER.glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-compare", "-Werror"]

BPF_PROGRAM = """
#include "{name}.h"
#define SECTION(s) __attribute__((section(s), used))
SECTION("t/init") void a(struct {name}_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{{ {name}_init(s, p, c, o); }}
#define HANDLER(op) SECTION("t/" #op) void op(struct {name}_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, \\
    const struct ncc_cc_event *e, struct ncc_cc_out *o) {{ {name}_##op(s, p, c, e, o); }}
HANDLER(on_ack) HANDLER(on_loss) HANDLER(on_timeout)
"""

TOY_PROJECT = """cmake_minimum_required(VERSION 3.20)
project(toy LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(NCC_BASELINES "${CMAKE_CURRENT_SOURCE_DIR}/baselines")
include("${NCC_BASELINES}/controllers.cmake")
add_executable(names main.cpp)
target_link_libraries(names PRIVATE ncc_controllers)
"""

TOY_MAIN = """#include <cstdio>
#include "ncc_controllers.h"
int main() {
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        ncc_u64 params[NCC_CC_PARAMS_MAX] = {}, state[NCC_CC_STATE_MAX / 8] = {};
        for (ncc_u32 i = 0; i < ops->n_params; ++i) params[i] = ops->params[i].def;
        const ncc_cc_conn conn = {1000, 10000};
        ncc_cc_out out;
        ops->init(state, params, &conn, &out);
        std::printf("%s %llu\\n", ops->name, (unsigned long long)out.cwnd_bytes);
    }
}
"""


def tool(name: str) -> str:
    """Path of a program, beside the interpreter too (cmake and ninja come as Python packages); skips by name."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str | Path) -> str:
    done = subprocess.run(list(command), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def bpf_clang() -> str:
    clang = tool("clang")
    if "bpf" not in run(clang, "-print-targets"):
        pytest.skip("this clang has no BPF target")
    return clang


def names(headers: list[Path]) -> list[str]:
    return [header.stem for header in headers]


@pytest.mark.parametrize("header", HEADERS, ids=names(HEADERS))
@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=needs("clang++"))])
def test_compiles_alone_as_cpp(compiler: str, header: Path, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "{header.name}"\nint main() {{}}\n')
    run(tool(compiler), "-std=c++20", *WARNINGS, "-Wno-unused", f"-I{FOLDER}", "-fsyntax-only", source)


@pytest.mark.parametrize("header", HEADERS, ids=names(HEADERS))
@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=needs("clang"))])
def test_compiles_alone_as_c(compiler: str, header: Path, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{header.name}"\nint main(void) {{ return 0; }}\n')
    run(tool(compiler), "-std=c11", *WARNINGS, "-Wno-unused", f"-I{FOLDER}", "-fsyntax-only", source)


@needs("clang")
@pytest.mark.parametrize("header", HEADERS, ids=names(HEADERS))
def test_compiles_alone_for_bpf(header: Path, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{header.name}"\n')
    run(bpf_clang(), "-target", "bpf", "-Wall", "-Wno-unused", "-Werror", f"-I{FOLDER}", "-fsyntax-only", source)


@needs("clang")
@pytest.mark.parametrize("name", sorted(controllers()))
def test_its_handlers_compile_for_bpf(name: str, tmp_path: Path) -> None:
    clang, source = bpf_clang(), tmp_path / "program.c"
    source.write_text(BPF_PROGRAM.format(name=name))
    run(
        clang,
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-Wall",
        "-Werror",
        f"-I{FOLDER}",
        "-c",
        source,
        "-o",
        tmp_path / "o",
    )
    assert (tmp_path / "o").stat().st_size > 0


@pytest.mark.parametrize("header", HEADERS, ids=names(HEADERS))
def test_keeps_to_the_subset(header: Path) -> None:
    text = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', " ", header.read_text(), flags=re.DOTALL)
    forbidden = r"\b(float|double|malloc|calloc|free|mem\w+|str\w+|printf|while|goto|alloca|time|rand|__int128)\b"
    found = re.findall(forbidden, text)
    assert [word for word in found if word != "struct"] == []
    assert not re.search(r"\b\d+\.\d", text), "a floating-point constant"
    included = re.findall(r"#\s*include\s*(\S+)", header.read_text())
    own = {f'"{other.name}"' for other in HEADERS}
    assert set(included) <= own | ({"<stdint.h>"} if header.name == "cc.h" else set())


def test_a_header_dropped_into_the_folder_is_in_the_table(tmp_path: Path) -> None:
    copy = tmp_path / "baselines"
    copy.mkdir()
    for file in [*HEADERS, FOLDER / "controllers.cmake"]:
        shutil.copy(file, copy)
    (tmp_path / "CMakeLists.txt").write_text(TOY_PROJECT)
    (tmp_path / "main.cpp").write_text(TOY_MAIN)
    cmake, build = tool("cmake"), tmp_path / "build"
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"] if importlib.util.find_spec("ninja") else []
    run(cmake, *generator, f"-DCMAKE_CXX_COMPILER={tool('g++')}", "-S", tmp_path, "-B", build)
    run(cmake, "--build", build)
    before = run(build / "names").splitlines()
    assert before == [f"{name} 10000" for name in sorted(controllers())]
    (copy / "toy.h").write_text(toy.HEADER)
    run(cmake, "--build", build)  # no edit, no fresh configure
    assert run(build / "names").splitlines() == sorted([*before, "toy 7000"])
