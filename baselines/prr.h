/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proportional rate reduction: how a window shrinks to the controller's target over one round trip (RFC 6937, with the
 * reduction bound of draft-ietf-tcpm-prr-rfc6937bis section 6.2, as Linux' tcp_cwnd_reduction has it). It is not a
 * controller: datapaths use it below every controller that does not set its own rate.
 */
#ifndef NCC_PRR_H
#define NCC_PRR_H

#include "cc.h"

struct ncc_prr {
    ncc_u64 prior_bytes;     /* RecoverFS: window before the reduction */
    ncc_u64 delivered_bytes; /* prr_delivered: acknowledged since then */
    ncc_u64 out_bytes;       /* prr_out: sent since then */
};

enum ncc_prr_flags {
    NCC_PRR_ADVANCED = 1, /* SafeACK: the cumulative ACK moved, and nothing more was found lost */
};

NCC_CC_FN void ncc_prr_begin(struct ncc_prr *r, ncc_u64 window_bytes)
{
    r->prior_bytes = window_bytes;
    r->delivered_bytes = 0;
    r->out_bytes = 0;
}

/* Returns `bytes` rounded up to whole packets. */
NCC_CC_FN ncc_u64 ncc_prr_whole(ncc_u64 bytes, ncc_u64 mss) { return (bytes + mss - 1) / mss * mss; }

/*
 * Returns the window after an ACK that delivered `delivered_bytes` more, with `pipe_bytes` in flight and the
 * controller's window `target_bytes` (ssthresh). It counts whole packets: a part of a packet sends one early, as in
 * Linux. Needs `prior_bytes` > 0, and windows of at most 2^31 bytes.
 */
NCC_CC_FN ncc_u64 ncc_prr_window(struct ncc_prr *r, ncc_u64 pipe_bytes, ncc_u64 target_bytes, ncc_u64 delivered_bytes,
                                 ncc_u64 mss_bytes, ncc_u32 flags)
{
    ncc_u64 may_send, sent = r->out_bytes;

    r->delivered_bytes += delivered_bytes;
    if (pipe_bytes > target_bytes) { /* sndcnt = ceil(prr_delivered * ssthresh / RecoverFS) - prr_out */
        may_send = ncc_prr_whole(r->delivered_bytes * target_bytes / r->prior_bytes, mss_bytes);
        may_send = may_send > sent ? may_send - sent : 0;
    } else { /* sndcnt = min(ssthresh - pipe, max(prr_delivered - prr_out, DeliveredData) + 1 if SafeACK) */
        may_send = r->delivered_bytes > sent ? r->delivered_bytes - sent : 0;
        may_send = ncc_prr_whole(ncc_max_u64(may_send, delivered_bytes), mss_bytes);
        if (flags & NCC_PRR_ADVANCED)
            may_send += mss_bytes;
        may_send = ncc_min_u64(may_send, target_bytes - pipe_bytes);
    }
    if (!sent) /* the first packet of a reduction is always sent */
        may_send = ncc_max_u64(may_send, mss_bytes);
    return pipe_bytes + may_send;
}

#endif
