# SPDX-License-Identifier: BSD-3-Clause
"""Every header is restricted C: it compiles alone for C, C++ and BPF."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ncc.baselines
from ncc.baselines.registry import controllers, message_transports, named
from tests.support.linux import needs

FOLDER = Path(ncc.baselines.__file__).parent
HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.h"))
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-compare -Werror -Wno-unused"
COMPILERS = [
    pytest.param(f"{program} {options}", marks=needs(program) if program.startswith("clang") else ())
    for program, options in (
        ("g++", f"-x c++ -std=c++20 {WARNINGS}"),
        ("gcc", f"-x c -std=c11 {WARNINGS}"),
        ("clang++", f"-x c++ -std=c++20 {WARNINGS}"),
        ("clang", f"-x c -std=c11 {WARNINGS}"),
        ("clang", "-x c -target bpf -Wall -Wno-unused -Werror"),
    )
]

BPF_PROGRAM = """
#include "{name}.h"
#define SECTION(s) __attribute__((section(s), used))
SECTION("t/init") void a(struct {name}_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{{ {name}_init(s, p, c, o); }}
#define HANDLER(op) SECTION("t/" #op) void op(struct {name}_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, \\
    const struct ncc_cc_event *e, struct ncc_cc_out *o) {{ {name}_##op(s, p, c, e, o); }}
HANDLER(on_ack) HANDLER(on_loss) HANDLER(on_timeout) HANDLER(on_restart)
"""


BPF_PORT = """
#include "{name}.h"
#define SECTION(s) __attribute__((section(s), used))
SECTION("t/port") void a(struct {name}_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{{ {name}_init(s, p, q, o); {name}_timer(s, p, q, o); }}
#define HOOK(op) SECTION("t/" #op) void op(struct {name}_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, \\
    struct ncc_sw_packet *k, struct ncc_sw_out *o) {{ {name}_##op(s, p, q, k, o); }}
HOOK(enqueue) HOOK(dequeue) HOOK(reverse)
"""


BPF_TRANSPORT = """
#include "transports/{name}.h"
#define SECTION(s) __attribute__((section(s), used))
#define CALL(op, end) SECTION("t/" #op) void op(struct {name}_##end *s, const ncc_u64 *p, \\
    const struct ncc_tp_flow *f, struct ncc_tp_out *o) {{ {name}_##op(s, p, f, o); }}
#define HEAR(op, end) SECTION("t/" #op) void op(struct {name}_##end *s, const ncc_u64 *p, \\
    const struct ncc_tp_flow *f, const struct ncc_tp_packet *k, struct ncc_tp_out *o) {{ {name}_##op(s, p, f, k, o); }}
CALL(start, sender) CALL(sender_timer, sender) CALL(receiver_timer, receiver) HEAR(heard, sender) HEAR(got, receiver)
SECTION("t/turn") ncc_u64 turn(struct {name}_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{{ return {name}_turn(h, p, t); }}
"""


def tool(name: str) -> str:
    """Path of a program, beside the interpreter too (cmake and ninja come as Python packages); skips by name."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def compile_text(text: str, command: str, *options: str | Path) -> None:
    """Compile a program given on standard input; skip if the compiler has no BPF target and needs one."""
    program, *rest = command.split()
    program = tool(program)
    if "bpf" in rest and b"bpf" not in subprocess.run([program, "-print-targets"], capture_output=True).stdout:  # noqa: PLW1510
        pytest.skip("this clang has no BPF target")
    done = subprocess.run(
        [program, *rest, f"-I{FOLDER}", *options, "-"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("command", COMPILERS)
def test_compiles_alone(command: str, header: str) -> None:
    compile_text(f'#include "{header}"\n', command, "-fsyntax-only")


@needs("clang")
@pytest.mark.parametrize("name", sorted(controllers()))
def test_its_handlers_compile_for_bpf(name: str, tmp_path: Path) -> None:
    compile_text(
        BPF_PROGRAM.format(name=name), "clang -x c -target bpf -mcpu=v3 -O2 -Wall -Werror -c", "-o", tmp_path / "o"
    )
    assert (tmp_path / "o").stat().st_size > 0


@needs("clang")
@pytest.mark.parametrize("name", named("program of a switch"))
def test_a_program_s_hooks_compile_for_bpf(name: str, tmp_path: Path) -> None:
    compile_text(
        BPF_PORT.format(name=name),
        "clang -x c -target bpf -mcpu=v3 -O2 -Wall -Werror -Wno-unused -c",
        "-o",
        tmp_path / "o",
    )
    assert (tmp_path / "o").stat().st_size > 0


@needs("clang")
@pytest.mark.parametrize("name", message_transports())
def test_both_ends_of_a_transport_compile_for_bpf(name: str, tmp_path: Path) -> None:
    options = "clang -x c -target bpf -mcpu=v3 -O2 -Wall -Werror -Wno-unused -c"
    compile_text(BPF_TRANSPORT.format(name=name), options, "-o", tmp_path / "o")
    assert (tmp_path / "o").stat().st_size > 0


@pytest.mark.parametrize("header", HEADERS)
def test_keeps_to_the_subset(header: str) -> None:
    source = (FOLDER / header).read_text()
    text = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', " ", source, flags=re.DOTALL)
    forbidden = r"\b(float|double|malloc|calloc|free|mem\w+|str\w+|printf|while|goto|alloca|time|rand|__int128)\b"
    assert [word for word in re.findall(forbidden, text) if word != "struct"] == []
    assert not re.search(r"\b\d+\.\d", text), "a floating-point constant"
    own = {f'"{other}"' for other in HEADERS} | ({"<stdint.h>"} if header == "cc.h" else set())
    assert {name.replace('"../', '"') for name in re.findall(r"#\s*include\s*(\S+)", source)} <= own
