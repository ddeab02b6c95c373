# SPDX-License-Identifier: BSD-3-Clause
"""A program and a controller that are not there: headers, card and YAMLs, for tests of how one is added."""

PORT_HEADER = """/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch.h"
static const struct ncc_cc_param toy_port_params[] = {{"every", 100, 2, 1000, "data packets"}};
struct toy_port_state { ncc_u64 came; };
NCC_CC_FN void toy_port_init(struct toy_port_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_out *o) { (void)s, (void)p, (void)q, (void)o; }
NCC_CC_FN void toy_port_enqueue(struct toy_port_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)q;
    if (k->payload_bytes && ++s->came % p[0] == 0)
        o->verdict = NCC_DROP;
}
NCC_SW_NO_HOOK(toy_port, dequeue)
NCC_SW_NO_HOOK(toy_port, reverse)
NCC_SW_NO_TIMER(toy_port)
NCC_SW_REGISTER(toy_port, NCC_SW_ENQUEUE, "drops every so many of the data packets")
"""

PORT_CARD = """<!-- SPDX-License-Identifier: BSD-3-Clause -->
# toy_port

**What.** A port that drops one of every `every` data packets: `toy_port`.

## Equations
None.

## Parameters
| parameter | default | range |
|---|---|---|
| `every` | 100 | 2..1000 |

## Deviations and their effect
None.
"""

PORT_YAML = """# SPDX-License-Identifier: BSD-3-Clause
# The dumbbell, whose ports lose packets.
defaults:
  - dumbbell
  - _self_
topology:
  programs: [{name: toy_port, params: [[every, 50]]}]
"""

BROKEN_HEADER = """/* SPDX-License-Identifier: BSD-3-Clause */
#include "cc.h"
static const struct ncc_cc_param broken_params[] = {{"fault", 1, 1, 2, "1: a window of 0; 2: a negative pacing rate"}};
struct broken_state { ncc_u64 acks; };
NCC_CC_FN void broken_init(struct broken_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    int now = s->acks > 20;
    o->cwnd_bytes = now && p[0] == 1 ? 0 : 10 * c->mss_bytes;
    o->ssthresh_bytes = 0;
    o->pacing_bytes_per_s = now && p[0] == 2 ? 0 - (ncc_u64)125000000 : 0;
}
#define KEEP(op) NCC_CC_FN void broken_##op(struct broken_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, \\
    const struct ncc_cc_event *e, struct ncc_cc_out *o) { (void)e; ++s->acks; broken_init(s, p, c, o); }
KEEP(on_ack) KEEP(on_loss) KEEP(on_timeout) KEEP(on_restart)
NCC_CC_REGISTER(broken, NCC_CC_ECN_NONE, "decides what no datapath can obey from the 21st ACK on")
"""


def broken_yaml(name: str, fault: int) -> str:
    return f"""# SPDX-License-Identifier: BSD-3-Clause
name: {name}
summary: decides what no datapath can obey
stack: {{transport: broken, params: [[fault, {fault}]]}}
limit: {{kind: none}}
"""
