# SPDX-License-Identifier: BSD-3-Clause
"""A controller that is not there: its header, card and YAML, for tests of how one is added."""

HEADER = """/* SPDX-License-Identifier: BSD-3-Clause */
#include "cc.h"
static const struct ncc_cc_param toy_params[] = {{"window_pkts", 7, 1, 100, "packets"}};
struct toy_state { ncc_u64 cwnd_bytes; };
NCC_CC_FN void toy_init(struct toy_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    s->cwnd_bytes = p[0] * c->mss_bytes;
    o->cwnd_bytes = s->cwnd_bytes;
    o->ssthresh_bytes = o->pacing_bytes_per_s = 0;
}
#define KEEP(op) NCC_CC_FN void toy_##op(struct toy_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, \\
    const struct ncc_cc_event *e, struct ncc_cc_out *o) { (void)e; toy_init(s, p, c, o); }
KEEP(on_ack) KEEP(on_loss) KEEP(on_timeout) KEEP(on_restart)
NCC_CC_REGISTER(toy, NCC_CC_ECN_NONE, "a window that never moves")
"""
WINDOW_PKTS = 7

CARD = """<!-- SPDX-License-Identifier: BSD-3-Clause -->
# toy

**What.** A window that never moves.

## Equations
cwnd = `window_pkts` packets.

## Parameters
| parameter | default | range |
|---|---|---|
| `window_pkts` | 7 | 1..100 |

## Deviations and their effect
None.
"""

YAML = """# SPDX-License-Identifier: BSD-3-Clause
name: toy
summary: a window that never moves
stack: {transport: toy}
limit: {kind: none}
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
