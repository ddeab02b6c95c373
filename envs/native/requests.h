/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests as a graph of flows that is drawn once (docs/requests.md): a flow may wait until all flows of a group are
 * complete, and for a while after that. This is in C, for whatever sends flows. Completions of one instant may come in
 * any order: what they release is due 1 ns later at least, and flows that are due at one time go by their numbers.
 */
#ifndef NCC_REQUESTS_H
#define NCC_REQUESTS_H

#include <stdint.h>

struct ncc_due {
    int64_t at_ns;
    uint32_t flow;
};

/* All arrays are the caller's. */
struct ncc_requests {
    const int32_t *group;    /* by flow: the group that it is in; -1: none */
    const int64_t *think_ns; /* by flow that waits for a group: time from then to its start, >= 1 */
    const uint32_t *waiting; /* flows by the group that they wait for */
    const uint32_t *first;   /* by group: place of its first flow in `waiting`; one more at the end */
    uint32_t *left;          /* by group: its flows that are not complete */
    struct ncc_due *due;     /* a heap, the earliest first; room for `waiting` */
    uint32_t n_due;
};

static inline int ncc_due_before(struct ncc_due a, struct ncc_due b)
{
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.flow < b.flow;
}

/* Call when a flow is complete. */
static inline void ncc_requests_complete(struct ncc_requests *r, uint32_t flow, int64_t now_ns)
{
    const int32_t group = r->group[flow];
    if (group < 0 || --r->left[group] > 0)
        return;
    for (uint32_t i = r->first[group]; i < r->first[group + 1]; i++) {
        const struct ncc_due due = {now_ns + r->think_ns[r->waiting[i]], r->waiting[i]};
        uint32_t at = r->n_due++;
        for (; at > 0 && ncc_due_before(due, r->due[(at - 1) / 2]); at = (at - 1) / 2)
            r->due[at] = r->due[(at - 1) / 2];
        r->due[at] = due;
    }
}

/* Takes the next flow that is due by `now_ns` into `flow`; returns 0 if there is none. */
static inline int ncc_requests_take(struct ncc_requests *r, int64_t now_ns, uint32_t *flow)
{
    uint32_t at = 0;
    if (r->n_due == 0 || r->due[0].at_ns > now_ns)
        return 0;
    *flow = r->due[0].flow;
    const struct ncc_due last = r->due[--r->n_due];
    for (uint32_t next = 1; next < r->n_due; next = 2 * at + 1) {
        next += next + 1 < r->n_due && ncc_due_before(r->due[next + 1], r->due[next]);
        if (!ncc_due_before(r->due[next], last))
            break;
        r->due[at] = r->due[next];
        at = next;
    }
    r->due[at] = last;
    return 1;
}

#endif
