/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of an entropy for each packet, by which switches spread a flow over paths of equal length. REPS (Bonato et
 * al., arXiv 2407.21625) reuses an entropy if its packet was not marked. The numbers are those of its simulators.
 * Also the answers of the receiver, which echo the entropy; an ACK may be for several packets.
 */
#ifndef NCC_TP_REPS_H
#define NCC_TP_REPS_H

#include "transport.h"

#define NCC_REPS_CACHED 8
#define NCC_REPS_EXPLORE 16            /* packets that explore after a freeze */
#define NCC_REPS_FREEZE_NS 10000000ULL /* time for which the cache is frozen after a timeout */

/* Values of `choice`. */
enum { NCC_REPS_ONE, NCC_REPS_TURN, NCC_REPS_RECYCLE, NCC_REPS_MIXED };

#define NCC_REPS_CHOICE_PARAM                                                                                          \
    {"choice", NCC_REPS_MIXED, 0, 3,                                                                                   \
     "entropies; 0: one, 1: in turn, 2: REPS, at random where its cache is empty, 3: REPS, in turn where it is empty"}
#define NCC_REPS_PATHS_PARAM {"paths", 128, 1, 65536, "number of entropies, rounded down to a power of 2"}

struct ncc_reps {
    ncc_u64 thaw_ns;                        /* end of the freeze; 0: there is none */
    unsigned short cached[NCC_REPS_CACHED]; /* a ring */
    ncc_u32 turn, salt;
    ncc_u8 head;    /* place of the next one */
    ncc_u8 fresh;   /* newest ones that have not been used again */
    ncc_u8 filled;  /* places that have ever been filled */
    ncc_u8 explore; /* packets that still explore */
};

/* A packet with this entropy has arrived without a mark. */
NCC_CC_FN void ncc_reps_good(struct ncc_reps *r, ncc_u32 entropy)
{
    r->cached[r->head++ % NCC_REPS_CACHED] = (unsigned short)entropy;
    r->fresh = (ncc_u8)(r->fresh + (r->fresh < NCC_REPS_CACHED));
    r->filled = (ncc_u8)(r->filled + (r->filled < NCC_REPS_CACHED));
}

/* A timeout: for a while only paths that have worked are used. A later timeout does not prolong that while, since these
 * paths may be dead: the next packet then empties the cache. */
NCC_CC_FN void ncc_reps_freeze(struct ncc_reps *r, ncc_u64 now_ns)
{
    if (!r->thaw_ns && !r->explore)
        r->thaw_ns = now_ns + NCC_REPS_FREEZE_NS;
}

/* Entropies in turn, in another order each round. */
NCC_CC_FN ncc_u32 ncc_reps_in_turn(struct ncc_reps *r, ncc_u32 mask, ncc_u32 random)
{
    if (!(r->turn & mask))
        r->salt = random;
    return (r->turn++ ^ r->salt) & mask;
}

/* The largest entropy of this number of paths: all bits below its highest. */
NCC_CC_FN ncc_u32 ncc_reps_mask(ncc_u64 paths)
{
    ncc_u32 mask = (ncc_u32)paths;

    mask |= mask >> 1;
    mask |= mask >> 2;
    mask |= mask >> 4;
    mask |= mask >> 8;
    mask |= mask >> 16;
    return mask >> 1;
}

/* The entropy of a control packet that echoes none: these are spread as data is. `random`: uniform. */
NCC_CC_FN ncc_u32 ncc_reps_of_word(ncc_u64 choice, ncc_u64 paths, ncc_u32 random)
{
    return choice == NCC_REPS_ONE ? 0 : random & ncc_reps_mask(paths);
}

/* The entropy of the next packet. `random`: uniform. */
NCC_CC_FN ncc_u32 ncc_reps_next(struct ncc_reps *r, ncc_u64 choice, ncc_u64 paths, ncc_u64 now_ns, ncc_u32 random)
{
    const ncc_u32 mask = ncc_reps_mask(paths);

    if (choice == NCC_REPS_ONE)
        return 0;
    if (choice == NCC_REPS_TURN)
        return ncc_reps_in_turn(r, mask, random);
    if (r->thaw_ns && now_ns < r->thaw_ns && r->filled)
        return r->cached[r->turn++ % r->filled];
    if (r->thaw_ns && now_ns >= r->thaw_ns) {
        r->thaw_ns = 0;
        r->fresh = r->filled = r->head = 0;
        r->explore = NCC_REPS_EXPLORE;
    }
    if (r->explore)
        r->explore--;
    else if (r->fresh)
        return r->cached[(ncc_u8)(r->head - r->fresh--) % NCC_REPS_CACHED];
    return choice == NCC_REPS_RECYCLE ? random & mask : ncc_reps_in_turn(r, mask, random);
}

/* True if a packet that leaves asks for an ACK at once: nothing can follow it now, or it goes again. */
NCC_CC_FN ncc_u32 ncc_reps_asks(const struct ncc_tp_flow *f, const struct ncc_tp_packet *k)
{
    return !f->granted || !(f->fresh + f->again) || k->flags & NCC_TP_AGAIN;
}

struct ncc_reps_acks {
    ncc_u32 here;   /* packets that had arrived by the last one */
    ncc_u32 bytes;  /* of data on the wire since the last ACK */
    ncc_u32 number; /* of the last packet */
};

/* Bytes that the host's line carries in this time. */
NCC_CC_FN ncc_u64 ncc_reps_bdp(const struct ncc_tp_flow *f, ncc_u64 rtt_ns)
{
    return f->line_bytes_per_s / 1000 * rtt_ns / 1000000;
}

/* Bytes that an ACK may wait for: at most a quarter of a BDP, so that a window has several ACKs. */
NCC_CC_FN ncc_u64 ncc_reps_wait_bytes(ncc_u64 ack_bytes, const struct ncc_tp_flow *f)
{
    const ncc_u64 rtt_ns = ncc_min_u64(f->longest_rtt_ns, NCC_NS_PER_S);

    return ncc_min_u64(ack_bytes, ncc_reps_bdp(f, rtt_ns) / 4);
}

/*
 * Answers data: at once if it was trimmed (NACK), marked, a duplicate, the first or the last that was missing, or if
 * its sender asks for it (`stamp`); else after `ack_bytes`, or an RTT later. Answers echo what the packet says of its
 * path.
 */
NCC_CC_FN void ncc_reps_answer(struct ncc_reps_acks *s, ncc_u64 ack_bytes, const struct ncc_tp_flow *f,
                               const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u32 trimmed = (k->flags & NCC_TP_TRIMMED) != 0, again = f->here == s->here;
    struct ncc_tp_packet *said;

    if (k->kind != NCC_TP_DATA)
        return;
    if (!trimmed) {
        s->bytes += f->wire_bytes;
        s->here = f->here;
        s->number = k->number;
        if (!(k->stamp || k->flags & NCC_TP_CE || again || f->here == 1 || f->here == f->pkts ||
              s->bytes >= ncc_reps_wait_bytes(ack_bytes, f))) {
            o->timer_ns = f->longest_rtt_ns;
            return;
        }
        s->bytes = 0;
        o->timer_ns = NCC_TP_OFF;
    }
    said = ncc_tp_say(o, trimmed ? NCC_TP_NACK : NCC_TP_ACK);
    said->number = k->number;
    said->count = trimmed;
    said->flags = (k->flags & (NCC_TP_CE | NCC_TP_TRIMMED)) | (trimmed ? 0 : NCC_TP_MAPPED);
    said->sent_ns = k->sent_ns;
    said->entropy = k->entropy;
}

/* An RTT has passed since data that has no ACK: its sender cannot send more. The ACK is late (`stamp`): its time is no
 * sample of the RTT, and its entropy, which is its own, does not show a free path. */
NCC_CC_FN void ncc_reps_late(struct ncc_reps_acks *s, ncc_u32 entropy, struct ncc_tp_out *o)
{
    struct ncc_tp_packet *said = ncc_tp_say(o, NCC_TP_ACK);

    said->number = s->number;
    said->stamp = 1;
    said->entropy = entropy;
    said->flags = NCC_TP_MAPPED;
    s->bytes = 0;
}

#endif
