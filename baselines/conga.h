/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CONGA (Alizadeh et al., SIGCOMM 2014): a leaf sends each flowlet over the path whose most congested link is the least
 * congested. Each port measures its link. A packet collects the largest measure on its path; the leaf at its end
 * remembers it and sends it back in packets to the leaf at its beginning.
 */
#ifndef NCC_CONGA_H
#define NCC_CONGA_H

#include "switch.h"

#define CONGA_FLOWLETS 1024 /* of a leaf's table: all values of ncc_sw_flow_hash */
#define CONGA_ALPHA_SHIFT 3 /* alpha = 1/8 */
#define CONGA_LEVELS 8      /* of a measure: Q = 3 bits */
#define CONGA_SPENT 512     /* steps after which nothing is left of 2^64 bytes */

enum { CONGA_GAP, CONGA_DRE, CONGA_AGE };

static const struct ncc_cc_param conga_params[] = {
    {"gap_ns", 500000, 1, 1000000000000, "ns without a packet after which a new flowlet begins; T_fl (section 3.4)"},
    {"dre_ns", 20000, 1000, 10000000, "ns: T_dre, in which a measure falls by 1/8; tau = 8 T_dre (section 3.2)"},
    {"age_ns", 10000000, 1000, 1000000000000, "ns for which a measure from another leaf is believed (section 3.3)"},
};

/* A tag's 16 bits (section 3.1). */
enum conga_tag {
    CONGA_OURS = 1,      /* a leaf has written the tag */
    CONGA_WAY = 1,       /* shift of LBTag, 4 bits: the path */
    CONGA_CE = 5,        /* shift of CE, 3 bits: the largest measure so far */
    CONGA_BACK = 1 << 8, /* there is feedback */
    CONGA_BACK_WAY = 9,  /* shift of FB_LBTag, 4 bits */
    CONGA_BACK_CE = 13,  /* shift of FB_Metric, 3 bits */
};

/* The discounting rate estimator (DRE) of a port's link. */
struct conga_state {
    ncc_u64 bytes; /* X */
    ncc_u64 at_ns; /* time up to which X has been discounted */
};

struct conga_measure {
    ncc_u64 at_ns; /* of arrival */
    ncc_u32 level; /* 0 .. CONGA_LEVELS - 1 */
    ncc_u32 known, fresh;
};

struct conga_node {
    struct {
        ncc_u64 until_ns; /* end of the flowlet, unless another packet comes before; 0: there was none */
        ncc_u32 way;
    } flowlets[CONGA_FLOWLETS];
    struct conga_measure to[NCC_SW_LEAVES][NCC_SW_WAYS];   /* congestion to leaf, by path */
    struct conga_measure from[NCC_SW_LEAVES][NCC_SW_WAYS]; /* congestion from leaf */
    ncc_u32 next[NCC_SW_LEAVES];                           /* path that the next packet to a leaf reports first */
};

NCC_CC_FN void conga_init(struct conga_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

/* Section 3.2: X = X (1 - alpha) every T_dre. */
NCC_CC_FN void conga_discount(struct conga_state *s, const ncc_u64 *p, ncc_u64 now_ns)
{
    const ncc_u64 steps = (now_ns - s->at_ns) / p[CONGA_DRE];

    s->at_ns += steps * p[CONGA_DRE];
    if (steps >= CONGA_SPENT)
        s->bytes = 0;
    for (ncc_u64 i = 0; i < steps && i < CONGA_SPENT; ++i)
        s->bytes -= (s->bytes + (1 << CONGA_ALPHA_SHIFT) - 1) >> CONGA_ALPHA_SHIFT; /* rounded up: it reaches 0 */
}

/* Section 3.2: X / (C tau), in CONGA_LEVELS steps. */
NCC_CC_FN ncc_u32 conga_level(struct conga_state *s, const ncc_u64 *p, ncc_u64 now_ns, ncc_u64 rate_bytes_per_s)
{
    const ncc_u64 whole = (rate_bytes_per_s * p[CONGA_DRE] / NCC_NS_PER_S) << CONGA_ALPHA_SHIFT;

    conga_discount(s, p, now_ns);
    return (ncc_u32)ncc_min_u64(s->bytes * CONGA_LEVELS / ncc_max_u64(whole, 1), CONGA_LEVELS - 1);
}

NCC_CC_FN void conga_dequeue(struct conga_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    ncc_u32 level;

    (void)o;
    conga_discount(s, p, q->now_ns);
    s->bytes += k->bytes;
    level = conga_level(s, p, q->now_ns, q->rate_bytes_per_s);
    if ((k->tag & CONGA_OURS) && k->hops <= 2 && level > ((k->tag >> CONGA_CE) & 7U)) /* not the link to the host */
        k->tag = (k->tag & ~(7U << CONGA_CE)) | level << CONGA_CE;
}

NCC_CC_FN ncc_u32 conga_believed(const struct conga_measure *m, const ncc_u64 *p, ncc_u64 now_ns)
{
    return m->known && now_ns - m->at_ns < p[CONGA_AGE];
}

NCC_CC_FN void conga_hear(struct conga_measure *m, ncc_u32 level, ncc_u64 now_ns)
{
    m->fresh |= !m->known || m->level != level;
    m->known = 1;
    m->level = level;
    m->at_ns = now_ns;
}

/* The last leaf (section 3.3): it stores the packet's measure, and the measure of a reverse path that it reports. */
NCC_CC_FN void conga_learn(struct conga_node *d, ncc_u64 now_ns, const struct ncc_sw_packet *k)
{
    const ncc_u32 leaf = k->src_leaf % NCC_SW_LEAVES;

    conga_hear(&d->from[leaf][(k->tag >> CONGA_WAY) & 15U], (k->tag >> CONGA_CE) & 7U, now_ns);
    if (k->tag & CONGA_BACK)
        conga_hear(&d->to[leaf][(k->tag >> CONGA_BACK_WAY) & 15U], (k->tag >> CONGA_BACK_CE) & 7U, now_ns);
}

/* Section 3.5: the least of max(local measure, remote measure). Of equals the path before, else one at random. */
NCC_CC_FN ncc_u32 conga_choose(struct conga_node *d, const ncc_u64 *p, const struct ncc_sw_ways *w, ncc_u32 leaf,
                               ncc_u32 before)
{
    ncc_u32 best = CONGA_LEVELS, equal = 0, way = 0, random = w->random;

    for (ncc_u32 i = 0; i < w->n && i < NCC_SW_WAYS; ++i) {
        const struct conga_measure *to = &d->to[leaf][i];
        const ncc_u32 remote = conga_believed(to, p, w->now_ns) ? to->level : 0;
        const ncc_u32 local =
            w->states[i] ? conga_level((struct conga_state *)w->states[i], p, w->now_ns, w->rates_bytes_per_s[i]) : 0;
        const ncc_u32 level = remote > local ? remote : local;

        if (level > best || (level == best && before == way))
            continue;
        equal = level < best ? 1 : equal + 1;
        best = level;
        random = random * 1664525U + 1013904223U; /* a linear congruential generator, whose upper bits are good */
        if (i == before || (random >> 16) % equal == 0)
            way = i;
    }
    return way;
}

/* Section 3.3: each packet tells of one path, those whose measures have changed first, else of each in turn. */
NCC_CC_FN ncc_u32 conga_feedback(struct conga_node *d, const ncc_u64 *p, ncc_u64 now_ns, ncc_u32 leaf)
{
    ncc_u32 reported = NCC_SW_WAYS;

    for (ncc_u32 i = 0; i < NCC_SW_WAYS; ++i) {
        const ncc_u32 way = (d->next[leaf] + i) % NCC_SW_WAYS;
        const struct conga_measure *from = &d->from[leaf][way];

        if (!conga_believed(from, p, now_ns))
            continue;
        if (reported == NCC_SW_WAYS)
            reported = way;
        if (from->fresh) {
            reported = way;
            break;
        }
    }
    if (reported == NCC_SW_WAYS)
        return 0;
    d->next[leaf] = (reported + 1) % NCC_SW_WAYS;
    d->from[leaf][reported].fresh = 0;
    return CONGA_BACK | reported << CONGA_BACK_WAY | d->from[leaf][reported].level << CONGA_BACK_CE;
}

NCC_CC_FN ncc_u32 conga_route(struct conga_node *d, const ncc_u64 *p, const struct ncc_sw_ways *w,
                              struct ncc_sw_packet *k)
{
    const ncc_u32 at = ncc_sw_flow_hash(k), leaf = k->dst_leaf % NCC_SW_LEAVES;
    ncc_u32 way;

    if (k->src_leaf == k->dst_leaf)
        return 0;
    if (k->hops >= 3) {
        if (k->tag & CONGA_OURS)
            conga_learn(d, w->now_ns, k);
        return 0;
    }
    if (k->hops == 2)
        return at % w->n;
    way = d->flowlets[at].until_ns ? d->flowlets[at].way : NCC_SW_WAYS; /* none before */
    if (w->now_ns >= d->flowlets[at].until_ns || way >= w->n)
        way = conga_choose(d, p, w, leaf, way);
    d->flowlets[at].way = way;
    d->flowlets[at].until_ns = w->now_ns + p[CONGA_GAP];
    k->tag = CONGA_OURS | way << CONGA_WAY | conga_feedback(d, p, w->now_ns, leaf);
    return way;
}

NCC_SW_NO_HOOK(conga, enqueue)
NCC_SW_NO_HOOK(conga, reverse)
NCC_SW_NO_TIMER(conga)
NCC_SW_REGISTER_ROUTE(conga, NCC_SW_DEQUEUE | NCC_SW_TAGS,
                      "flowlets over the least congested path, by what leaves tell each other (Alizadeh 2014)")

#endif
