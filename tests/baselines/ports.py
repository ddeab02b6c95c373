# SPDX-License-Identifier: BSD-3-Clause
"""Headers of switches, orders, tags and front ends, compiled for the tests and called by hand."""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.baselines.test_headers import FOLDER, tool

PASS, MARK, TRIM, DROP = range(4)
SYN_ACK, FIN, ECT, CE, HAS_WINDOW, ECT1 = 2, 4, 8, 16, 32, 128
PAUSE, RESUME = 1, 2
RED_ONE, DT_ALPHA_ONE, DT_ALPHA_MAX, DT_SHARED_MAX_BYTES = 2**32, 1024, 2**20, 2**43
SAME = {
    **{f"NCC_{name}": globals()[name] for name in ("PASS", "MARK", "TRIM", "DROP", "RED_ONE", "DT_ALPHA_ONE")},
    **{f"NCC_{name}": globals()[name] for name in ("DT_ALPHA_MAX", "DT_SHARED_MAX_BYTES")},
    **{f"NCC_SW_{name}": globals()[name] for name in ("SYN_ACK", "FIN", "ECT", "PAUSE", "RESUME")},
    **{f"NCC_SW_{name}": globals()[name] for name in ("CE", "HAS_WINDOW", "ECT1")},
}
"""Names of the headers and the values that the constants above have."""

CODE = """
#include <stdlib.h>
#include <string.h>
typedef ncc_u64 n;
struct port { const struct ncc_sw_ops *ops; n params[NCC_CC_PARAMS_MAX]; struct ncc_sw_port q; struct ncc_sw_out out;
              struct ncc_sw_packet k; void *state, *node, *states[NCC_SW_WAYS]; struct ncc_sw_queue *queues; };
static void found(void *to, const void *ops) { *(const void **)to = ops; }
#define FIND(table, name, ops) for (size_t i = 0; i < sizeof table / sizeof *table; i++) \\
    if (!strcmp(table[i]->name, name)) found(&(ops), table[i]);
static void begins(struct port *p, n queue_bytes, n verdict)
{
    memset(&p->out, 0, sizeof p->out);
    p->out.verdict = (enum ncc_verdict)verdict;
    p->q.queue_bytes = queue_bytes;
}
struct port *make(const char *name, const n *params, n size_bytes, n mtu_bytes)
{
    struct port *p = calloc(1, sizeof *p);
    FIND(programs, name, p->ops)
    memcpy(p->params, params, p->ops->n_params * sizeof *params);
    p->q.size_bytes = size_bytes, p->q.mtu_bytes = (ncc_u32)mtu_bytes;
    for (int i = 0; i < NCC_SW_WAYS; i++)
        p->states[i] = calloc(1, p->ops->state_bytes + 8);
    p->state = p->states[0], p->node = calloc(1, p->ops->node_bytes + 8);
    p->q.queues = p->queues = calloc(p->ops->queues + 1, sizeof *p->queues);
    p->ops->init(p->state, p->params, &p->q, &p->out);
    return p;
}
n enqueue(struct port *p, n queue_bytes, n flow, n flags, n payload_bytes, n rank, n verdict, n hops, n random)
{
    p->k = (struct ncc_sw_packet){.flow = flow, .bytes = payload_bytes + 40, .payload_bytes = payload_bytes,
                                  .flags = flags, .hops = hops, .rank = rank};
    p->q.random = random;
    begins(p, queue_bytes, verdict);
    p->ops->enqueue(p->state, p->params, &p->q, &p->k, &p->out);
    return p->out.verdict;
}
n dequeue(struct port *p, n queue_bytes, n flags, n payload_bytes, n now_ns, n queued_ns, n hops, n tag, n way,
          n rate_bytes_per_s)
{
    p->k = (struct ncc_sw_packet){.bytes = payload_bytes + 40, .payload_bytes = payload_bytes, .flags = flags,
                                  .hops = hops, .queued_ns = queued_ns, .tag = tag};
    p->q.now_ns = now_ns, p->q.rate_bytes_per_s = rate_bytes_per_s;
    begins(p, queue_bytes, NCC_PASS);
    p->ops->dequeue(p->states[way], p->params, &p->q, &p->k, &p->out);
    return p->out.verdict;
}
n reverse(struct port *p, n queue_bytes, n flow, n flags, n window_bytes)
{
    p->k = (struct ncc_sw_packet){.flow = flow, .bytes = 40, .flags = flags, .hops = 1, .window_bytes = window_bytes};
    begins(p, queue_bytes, NCC_PASS);
    p->ops->reverse(p->state, p->params, &p->q, &p->k, &p->out);
    return p->k.window_bytes;
}
n timer(struct port *p, n queue_bytes, n now_ns)
{
    p->q.now_ns = now_ns;
    begins(p, queue_bytes, NCC_PASS);
    p->ops->timer(p->state, p->params, &p->q, &p->out);
    return p->out.timer_ns;
}
n ingress(struct port *p, n ingress_bytes)
{
    begins(p, p->q.queue_bytes, NCC_PASS);
    p->q.ingress_bytes = ingress_bytes;
    p->ops->ingress(p->state, p->params, &p->q, &p->out);
    return p->out.pause;
}
n route(struct port *p, n now_ns, n ways, n flow, n back, n random, n hops, n tag, n src_leaf, n dst_leaf,
        n rate_bytes_per_s)
{
    ncc_u64 rates[NCC_SW_WAYS];
    for (int i = 0; i < NCC_SW_WAYS; i++)
        rates[i] = rate_bytes_per_s;
    const struct ncc_sw_ways seen = {now_ns, ways, random, p->states, rates};
    p->k = (struct ncc_sw_packet){.flow = flow, .bytes = 1500, .payload_bytes = 1460, .flags = !back, .hops = hops,
                                  .tag = tag, .src_leaf = src_leaf, .dst_leaf = dst_leaf};
    return p->ops->route(p->node, p->params, &seen, &p->k);
}
n written_tag(const struct port *p) { return p->k.tag; }
n classify(struct port *p, n flow, n back, n prio, n flags)
{
    const struct ncc_sw_packet k = {.flow = flow, .bytes = 1500, .payload_bytes = 1460, .flags = !back | flags,
                                    .hops = 1, .prio = prio};
    return p->ops->classify(p->state, p->params, &k);
}
n hold(struct port *p, n queue, n bytes, n head_bytes, n head_ns)
{
    p->queues[queue] = (struct ncc_sw_queue){bytes, head_bytes, head_ns};
    return queue;
}
n next(struct port *p) { return p->ops->next(p->state, p->params, p->queues); }
n queues(const struct port *p) { return p->ops->queues; }
n rank(const struct port *p) { return p->k.rank; }
n signal_kind(const struct port *p) { return p->out.signal.kind; }
n signal_value(const struct port *p) { return p->out.signal.value; }
n step_mark(n size_bytes, n mark_threshold_bytes, n queue_bytes, n packet_bytes, n ecn_capable)
{
    const struct ncc_step_mark p = {.size_bytes = size_bytes, .mark_threshold_bytes = mark_threshold_bytes};
    return ncc_step_mark_admit(&p, queue_bytes, packet_bytes, ecn_capable);
}
n red(n min_bytes, n max_bytes, n max_prob, n queue_bytes, n ecn_capable, n random)
{
    const struct ncc_red p = {.min_bytes = min_bytes, .max_bytes = max_bytes, .max_prob = max_prob};
    return ncc_red_admit(&p, queue_bytes, ecn_capable, random);
}
n dynamic_threshold(n private_bytes, n shared_bytes, n alpha, n queue_bytes, n used_bytes, n packet_bytes)
{
    const struct ncc_dynamic_threshold p = {.private_bytes = private_bytes, .shared_bytes = shared_bytes,
                                            .alpha = alpha};
    return ncc_dynamic_threshold_admit(&p, queue_bytes, used_bytes, packet_bytes);
}
n order_key(const char *name, const n *params, n age_ns, n waited_ns, n size_bytes, n left_bytes, n delivered_bytes)
{
    const struct ncc_order_ops *ops = 0;
    const struct ncc_order_flow f = {.age_ns = age_ns, .waited_ns = waited_ns, .size_bytes = size_bytes,
                                     .left_bytes = left_bytes, .delivered_bytes = delivered_bytes};
    FIND(orders, name, ops)
    return ops->key(params, &f);
}
n tag(const char *name, const n *params, n offset_bytes, n payload_bytes, n size_bytes, n delivered_bytes)
{
    const struct ncc_tag_ops *ops = 0;
    const struct ncc_tag_packet k = {.offset_bytes = offset_bytes, .payload_bytes = payload_bytes,
                                     .size_bytes = size_bytes, .delivered_bytes = delivered_bytes};
    struct ncc_tag_out o = {0, 0};
    FIND(tags, name, ops)
    ops->tag(params, &k, &o);
    return (n)o.prio << 32 | o.rank;
}
struct end { const struct ncc_front_ops *ops; n params[NCC_CC_PARAMS_MAX]; struct ncc_front f; struct ncc_front_out out;
             n state[NCC_FRONT_STATE_MAX / 8]; };
struct end *front(const char *name, const n *params, n rate_bytes_per_s, n buffer_bytes, n base_rtt_ns, n packet_bytes)
{
    struct end *e = calloc(1, sizeof *e);
    FIND(fronts, name, e->ops)
    memcpy(e->params, params, e->ops->n_params * sizeof *params);
    e->f = (struct ncc_front){.rate_bytes_per_s = rate_bytes_per_s, .buffer_bytes = buffer_bytes,
                              .base_rtt_ns = base_rtt_ns, .packet_bytes = packet_bytes};
    e->ops->init(e->state, e->params, &e->f, &e->out);
    return e;
}
static void sees(struct end *e, n now_ns, n outstanding, n waiting)
{
    e->f.now_ns = now_ns, e->f.outstanding = (ncc_u32)outstanding, e->f.waiting = (ncc_u32)waiting;
}
n answered(struct end *e, n now_ns, n took_ns, n wire_bytes, n late, n outstanding, n waiting)
{
    const struct ncc_front_answer a = {wire_bytes, took_ns, (ncc_u32)late};
    sees(e, now_ns, outstanding, waiting);
    e->ops->answered(e->state, e->params, &e->f, &a, &e->out);
    return e->out.window;
}
n tick(struct end *e, n now_ns, n outstanding, n waiting)
{
    sees(e, now_ns, outstanding, waiting);
    e->ops->tick(e->state, e->params, &e->f, &e->out);
    return e->out.window;
}
n window(const struct end *e) { return e->out.window; }
n pace_ns(const struct end *e) { return e->out.pace_ns; }
n tick_ns(const struct end *e) { return e->ops->tick ? e->out.tick_ns : 0; }
n log2_q16(n x) { return ncc_log2_q16(x); }
"""


@cache
def library() -> ctypes.CDLL:
    """The headers as a shared library, with the tables that the build makes for the package."""
    text, tables = '#include "step_mark.h"\n#include "red.h"\n#include "dynamic_threshold.h"\n', ""
    for folder, registered, table, ending in (
        ("", r"NCC_SW_REGISTER\w*", "ncc_sw_ops *const programs", "program"),
        ("orders/", "NCC_ORDER_REGISTER", "ncc_order_ops *const orders", "order"),
        ("tags/", "NCC_TAG_REGISTER", "ncc_tag_ops *const tags", "tags"),
        ("fronts/", r"NCC_FRONT_REGISTER\w*", "ncc_front_ops *const fronts", "front"),
    ):
        paths = sorted((FOLDER / folder).glob("*.h"))
        names = [path.stem for path in paths if re.search(rf"^{registered}\({path.stem},", path.read_text(), re.M)]
        text += "".join(f'#include "{folder}{name}.h"\n' for name in names)
        tables += f"static const struct {table}[] = {{{', '.join(f'&{name}_{ending}' for name in names)}}};\n"
    same = "".join(f'_Static_assert({name} == {value}, "{name}");\n' for name, value in SAME.items())
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "headers.so"
        command = [tool("cc"), "-xc", "-std=c11", "-O1", "-shared", "-fPIC", f"-I{FOLDER}", "-", "-o", str(made)]
        subprocess.run(command, input=text + same + tables + CODE, text=True, check=True)
        return ctypes.CDLL(str(made))


NAMES = {
    name: re.findall(r"(\w+)(?:,|$)", given)
    for name, given in re.findall(r"^(?:n|struct (?:port|end) \*) ?(\w+)\(([^)]*)\)", CODE, re.M)
}
"""Parameters of the functions of `CODE`."""
DEFAULTS = {"payload_bytes": 1460, "hops": 1}
"""Values of parameters that are not given; others are 0."""


def called(name: str, *first: object, **values: object) -> int:
    """Call a function of the library with whole numbers, texts and lists of whole numbers, the first ones in order."""
    names = NAMES[name][len(first) :]
    assert values.keys() <= set(names), names
    function = getattr(library(), name)
    function.restype = ctypes.c_uint64
    return int(function(*map(_c, first), *(_c(values.get(key, DEFAULTS.get(key, 0))) for key in names)))


def _c(value: Any) -> object:
    if isinstance(value, str):
        return value.encode()
    return ctypes.c_uint64(value) if isinstance(value, int) else (ctypes.c_uint64 * len(value))(*value)


step_mark, red, dynamic_threshold = (partial(called, name) for name in ("step_mark", "red", "dynamic_threshold"))
order_key, log2_q16 = partial(called, "order_key"), partial(called, "log2_q16")


def tag(name: str, params: list[int], **packet: int) -> tuple[int, int]:
    """Class and rank of a packet."""
    both = called("tag", name, params, **packet)
    return both >> 32, both & 0xFFFFFFFF


class Front:
    """A front end. Its methods are its hooks, with the parameters that they have in `CODE`; both return the window."""

    def __init__(self, name: str, params: Sequence[int], **port: int) -> None:
        self._at = called("front", name, params, **port)

    def __getattr__(self, hook: str) -> Callable[..., int]:
        return partial(called, hook, self._at)


class Program:
    """A program at a port. Its methods are its hooks, with the parameters that they have in `CODE`."""

    def __init__(self, name: str, params: Sequence[int], *, size_bytes: int, mtu_bytes: int) -> None:
        self._at = called("make", name, params, size_bytes, mtu_bytes)

    def __getattr__(self, hook: str) -> Callable[..., int]:
        return partial(called, hook, self._at)

    def enqueue(self, **packet: int) -> tuple[int, int]:
        """Verdict and rank."""
        return called("enqueue", self._at, **packet), called("rank", self._at)

    def next(self, queues: Mapping[int, Sequence[int]]) -> int:
        """The queue that sends, where `queues` has the packets of each that is not empty, in bytes."""
        for i in range(called("queues", self._at)):
            packets = queues.get(i, ())
            self.hold(queue=i, bytes=sum(packets), head_bytes=packets[0] if packets else 0)
        return called("next", self._at)

    @property
    def signal(self) -> tuple[int, int]:
        """Kind and value."""
        return called("signal_kind", self._at), called("signal_value", self._at)
