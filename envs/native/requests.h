/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests as a graph of flows that is drawn once (docs/requests.md): a flow may wait until all flows of a group are
 * complete, and for a while after that. A query then also waits for its host's front end (front.h), if there is one.
 * This is in C, for every program that sends flows. Completions of one instant may come in any order: flows that they
 * release are due at least 1 ns later, a front end gets an answer 1 ns after its end, and entries due at one time go by
 * number. The caller lists the graph, calls when a flow's own start time or its completion comes, and takes due flows.
 */
#ifndef NCC_REQUESTS_H
#define NCC_REQUESTS_H

#include "front.h"

#include <stdint.h>

/* `number` is a flow that is due; or the number of flows + an answer that has come; or, beyond twice the number of
 * flows, a front end's tick (even) or the end of its pause between two queries (odd). */
struct ncc_due {
    int64_t at_ns;
    uint32_t number;
};

/* The front end of a host. */
struct ncc_front_end {
    struct ncc_front seen;
    struct ncc_front_out out;
    uint64_t state[(NCC_FRONT_STATE_MAX + 7) / 8];
    uint32_t first, last;  /* queries that wait, while seen.waiting is not 0 */
    int64_t next_ns;       /* earliest time of the next query */
    uint8_t ticks, pauses; /* 1: the heap has its tick, or the end of its pause */
};

/* All arrays are the caller's. */
struct ncc_requests {
    const int32_t *group;    /* by flow: the group that it is in; -1: none */
    const int32_t *after;    /* by flow: the group that it waits for; -1: none, it starts at its own time */
    const int64_t *think_ns; /* by flow that waits for a group: time from then to its start, >= 1 */
    uint32_t *waiting;       /* flows by the group that they wait for */
    uint32_t *first;         /* by group: place of its first flow in `waiting`; one more at the end */
    uint32_t *left;          /* by group: its flows that are not complete */
    struct ncc_due *due;     /* a heap, the earliest first; room for `waiting`, or with front ends for twice the flows
                                and twice the front ends */
    uint32_t n_due;
    /* Front ends. */
    const struct ncc_front_ops *front; /* null: every query leaves at once, and the rest is not used */
    const ncc_u64 *params;
    struct ncc_front_end *ends;
    uint32_t n_flows;
    const int32_t *end_of;      /* by flow: place in `ends` of the front end of this query; -1: no query */
    const int32_t *query_of;    /* by flow: the query that it answers; -1: none */
    const uint64_t *wire_bytes; /* by flow: its bytes on the line */
    uint32_t *next;             /* by flow: the query that waits behind it */
    int64_t *asked_ns;          /* by flow: when the query left; -1: it has not */
    int64_t late_ns;            /* time from which on an answer is late */
};

static inline int ncc_due_before(struct ncc_due a, struct ncc_due b)
{
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.number < b.number;
}

static inline void ncc_due_push(struct ncc_requests *r, int64_t at_ns, uint32_t number)
{
    const struct ncc_due due = {at_ns, number};
    uint32_t at = r->n_due++;
    for (; at > 0 && ncc_due_before(due, r->due[(at - 1) / 2]); at = (at - 1) / 2)
        r->due[at] = r->due[(at - 1) / 2];
    r->due[at] = due;
}

static inline struct ncc_due ncc_due_pop(struct ncc_requests *r)
{
    const struct ncc_due top = r->due[0], last = r->due[--r->n_due];
    uint32_t at = 0;
    for (uint32_t next = 1; next < r->n_due; next = 2 * at + 1) {
        next += next + 1 < r->n_due && ncc_due_before(r->due[next + 1], r->due[next]);
        if (!ncc_due_before(r->due[next], last))
            break;
        r->due[at] = r->due[next];
        at = next;
    }
    r->due[at] = last;
    return top;
}

/* Number of groups of a graph. */
static inline uint32_t ncc_requests_groups(const struct ncc_requests *r, uint32_t n_flows)
{
    int32_t last = -1;
    for (uint32_t flow = 0; flow < n_flows; flow++) {
        last = r->group[flow] > last ? r->group[flow] : last;
        last = r->after[flow] > last ? r->after[flow] : last;
    }
    return (uint32_t)(last + 1);
}

/* Fills `waiting`, which has room for all flows, and `first` and `left`, which are zeroed. */
static inline void ncc_requests_list(struct ncc_requests *r, uint32_t n_flows, uint32_t n_groups)
{
    for (uint32_t flow = 0; flow < n_flows; flow++) {
        if (r->group[flow] >= 0)
            r->left[r->group[flow]]++;
        if (r->after[flow] >= 0)
            r->first[r->after[flow]]++;
    }
    for (uint32_t group = 1; group <= n_groups; group++)
        r->first[group] += r->first[group - 1];
    for (uint32_t flow = n_flows; flow-- > 0;) { /* from the end of each list to its first place */
        if (r->after[flow] >= 0)
            r->waiting[--r->first[r->after[flow]]] = flow;
    }
}

/* Call when a flow is complete. */
static inline void ncc_requests_complete(struct ncc_requests *r, uint32_t flow, int64_t now_ns)
{
    const int32_t group = r->group[flow];
    if (r->front && r->query_of[flow] >= 0)
        ncc_due_push(r, now_ns + 1, r->n_flows + flow);
    if (group < 0 || --r->left[group] > 0)
        return;
    for (uint32_t i = r->first[group]; i < r->first[group + 1]; i++)
        ncc_due_push(r, now_ns + r->think_ns[r->waiting[i]], r->waiting[i]);
}

/* Prepares a front end, of which the caller has set what it sees of its port. */
static inline void ncc_front_begin(const struct ncc_requests *r, struct ncc_front_end *end)
{
    r->front->init(end->state, r->params, &end->seen, &end->out);
}

/* Lets queries leave: puts them into the heap as due now. */
static inline void ncc_front_ask(struct ncc_requests *r, uint32_t which, int64_t now_ns)
{
    struct ncc_front_end *end = &r->ends[which];
    while (end->seen.waiting > 0 && (end->out.window == 0 || end->seen.outstanding < end->out.window)) {
        if (now_ns < end->next_ns) {
            if (!end->pauses)
                ncc_due_push(r, end->next_ns, 2 * r->n_flows + 2 * which + 1);
            end->pauses = 1;
            return;
        }
        const uint32_t flow = end->first;
        end->first = r->next[flow];
        end->seen.waiting--;
        end->seen.outstanding++;
        end->next_ns = now_ns + (int64_t)end->out.pace_ns;
        r->asked_ns[flow] = now_ns;
        ncc_due_push(r, now_ns, flow);
    }
}

/* True if the flow is a query that waits for its front end once it is ready. */
static inline int ncc_front_holds(const struct ncc_requests *r, uint32_t flow)
{
    return r->front && r->end_of[flow] >= 0 && r->asked_ns[flow] < 0;
}

/* Call when such a query is ready. */
static inline void ncc_front_ready(struct ncc_requests *r, uint32_t flow, int64_t now_ns)
{
    const uint32_t which = (uint32_t)r->end_of[flow];
    struct ncc_front_end *end = &r->ends[which];
    if (end->seen.waiting++ > 0)
        r->next[end->last] = flow;
    else
        end->first = flow;
    end->last = flow;
    if (r->front->tick && end->out.tick_ns > 0 && !end->ticks) {
        end->ticks = 1;
        ncc_due_push(r, now_ns + (int64_t)end->out.tick_ns, 2 * r->n_flows + 2 * which);
    }
    ncc_front_ask(r, which, now_ns);
}

/* Call at the start time that was drawn for a flow. Returns 1 if it starts; else a group or a front end releases it. */
static inline int ncc_requests_starts(struct ncc_requests *r, uint32_t flow, int64_t now_ns)
{
    if (r->after && r->after[flow] >= 0)
        return 0;
    if (!ncc_front_holds(r, flow))
        return 1;
    ncc_front_ready(r, flow, now_ns);
    return 0;
}

static inline void ncc_front_answered(struct ncc_requests *r, uint32_t answer, int64_t now_ns)
{
    const uint32_t query = (uint32_t)r->query_of[answer], which = (uint32_t)r->end_of[query];
    struct ncc_front_end *end = &r->ends[which];
    const int64_t took_ns = now_ns - r->asked_ns[query];
    const struct ncc_front_answer seen = {r->wire_bytes[answer], (ncc_u64)took_ns, took_ns >= r->late_ns};
    end->seen.outstanding--;
    end->seen.now_ns = (ncc_u64)now_ns;
    r->front->answered(end->state, r->params, &end->seen, &seen, &end->out);
    ncc_front_ask(r, which, now_ns);
}

/* Handles an entry of the heap that is a front end's own. */
static inline void ncc_front_due(struct ncc_requests *r, uint32_t entry, int64_t now_ns)
{
    const uint32_t which = entry / 2;
    struct ncc_front_end *end = &r->ends[which];
    if (entry % 2 != 0) {
        end->pauses = 0;
    } else {
        end->ticks = end->seen.outstanding + end->seen.waiting > 0;
        if (!end->ticks)
            return;
        end->seen.now_ns = (ncc_u64)now_ns;
        r->front->tick(end->state, r->params, &end->seen, &end->out);
        end->ticks = end->out.tick_ns > 0;
        if (end->ticks)
            ncc_due_push(r, now_ns + (int64_t)end->out.tick_ns, entry + 2 * r->n_flows);
    }
    ncc_front_ask(r, which, now_ns);
}

/* Takes the next flow that is due by `now_ns` into `flow`; returns 0 if there is none. */
static inline int ncc_requests_take(struct ncc_requests *r, int64_t now_ns, uint32_t *flow)
{
    while (r->n_due > 0 && r->due[0].at_ns <= now_ns) {
        const struct ncc_due due = ncc_due_pop(r);
        if (r->front && due.number >= 2 * r->n_flows) {
            ncc_front_due(r, due.number - 2 * r->n_flows, now_ns);
        } else if (r->front && due.number >= r->n_flows) {
            ncc_front_answered(r, due.number - r->n_flows, now_ns);
        } else if (ncc_front_holds(r, due.number)) {
            ncc_front_ready(r, due.number, now_ns);
        } else {
            *flow = due.number;
            return 1;
        }
    }
    return 0;
}

#endif
