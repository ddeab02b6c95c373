# SPDX-License-Identifier: BSD-3-Clause
"""A program that is not there: header, card and YAML, for tests of how one is added."""

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
