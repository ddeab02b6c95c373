// SPDX-License-Identifier: BSD-3-Clause
// The decision on a packet that joins a switch port's queue, which combines the headers of baselines/.
#pragma once

#include "mix.h"
#include "spec.h"

extern "C" {
#include "bcc.h"
#include "dynamic_threshold.h"
#include "red.h"
#include "step_mark.h"
}

#include <cmath>
#include <cstdint>
#include <limits>

namespace ncc
{

// Makes RED's parameters from a spec's numbers; max_bytes 0: off.
inline ncc_red RedOf(int64_t min_bytes, int64_t max_bytes, double max_prob)
{
    return {static_cast<ncc_u64>(min_bytes), static_cast<ncc_u64>(max_bytes),
            static_cast<ncc_u64>(std::llround(max_prob * static_cast<double>(NCC_RED_ONE)))};
}

// A buffer that several ports share. Their queues must be up to date before any of them admits a packet.
struct Pool {
    explicit Pool(const PoolSpec &spec)
        : size_bytes(static_cast<uint64_t>(spec.size_bytes)),
          alpha(static_cast<uint64_t>(std::llround(spec.alpha * static_cast<double>(NCC_DT_ALPHA_ONE)))),
          red(RedOf(spec.red_min_bytes, spec.red_max_bytes, spec.red_max_prob))
    {
    }

    uint64_t size_bytes;
    uint64_t alpha; // of NCC_DT_ALPHA_ONE
    ncc_red red;    // BCC's, on used_bytes; max_bytes 0: off
    uint64_t used_bytes = 0;
};

// Seed of a port's discipline in a run. Each port has another one, and every simulator the same.
inline uint64_t PortSeed(uint64_t run_seed, uint32_t port) { return Mix(Mix(run_seed) ^ port); }

class Discipline
{
  public:
    // `pool` is the one that `queue.pool` names, and outlives this object; null: the port has its own buffer only.
    Discipline(const QueueSpec &queue, Pool *pool, uint64_t seed)
        : step_{pool ? kUnbounded : static_cast<ncc_u64>(queue.buffer_bytes),
                static_cast<ncc_u64>(queue.threshold_bytes)},
          pool_(pool), plain_(pool == nullptr && queue.red_max_bytes == 0 && !queue.mark_leaving),
          leaving_(queue.mark_leaving), private_bytes_(static_cast<uint64_t>(queue.buffer_bytes)),
          red_(RedOf(queue.red_min_bytes, queue.red_max_bytes, queue.red_max_prob)), random_(seed)
    {
    }

    bool shared() const { return pool_ != nullptr; }
    // True if all that it does is to mark by a threshold what joins a buffer of the port's own.
    bool plain() const { return plain_; }
    ncc_verdict AdmitPlain(uint64_t queue_bytes, uint32_t packet_bytes, bool ecn_capable) const
    {
        return ncc_step_mark_admit(&step_, queue_bytes, packet_bytes, ecn_capable);
    }

    // Decides on a packet that must wait behind `queue_bytes`. It is marked if any marker says so (bai2020 section IV).
    ncc_verdict Admit(uint64_t queue_bytes, uint32_t packet_bytes, bool ecn_capable)
    {
        if (plain_) [[likely]] {
            return AdmitPlain(queue_bytes, packet_bytes, ecn_capable);
        }
        if (pool_) {
            const ncc_dynamic_threshold threshold{private_bytes_, pool_->size_bytes, pool_->alpha};
            if (ncc_dynamic_threshold_admit(&threshold, queue_bytes, pool_->used_bytes, packet_bytes) == NCC_DROP) {
                return NCC_DROP;
            }
        }
        return Marked(queue_bytes, packet_bytes, ecn_capable && !leaving_);
    }

    // True if a packet that leaves `queue_bytes` behind is to be marked; always false unless the port marks packets as
    // they leave.
    bool MarkLeaving(uint64_t queue_bytes, bool ecn_capable)
    {
        return leaving_ && Marked(queue_bytes, 0, ecn_capable) == NCC_MARK;
    }

    // Call for every packet that joins or leaves, with the queue before and after it.
    void Changed(uint64_t before_bytes, uint64_t after_bytes)
    {
        if (pool_) {
            pool_->used_bytes -= ncc_dynamic_threshold_share(private_bytes_, before_bytes);
            pool_->used_bytes += ncc_dynamic_threshold_share(private_bytes_, after_bytes);
        }
    }

  private:
    // Marks by the port's own queue, by RED on it, and by how full the pool is; drops if the port's own buffer is full.
    ncc_verdict Marked(uint64_t queue_bytes, uint32_t packet_bytes, bool ecn_capable)
    {
        ncc_verdict verdict = ncc_step_mark_admit(&step_, queue_bytes, packet_bytes, ecn_capable);
        if (verdict == NCC_PASS && red_.max_bytes != 0 && queue_bytes > red_.min_bytes) {
            verdict = ncc_red_admit(&red_, queue_bytes, ecn_capable, Draw());
        }
        if (verdict == NCC_PASS && pool_ && pool_->red.max_bytes != 0 && pool_->used_bytes > pool_->red.min_bytes) {
            verdict = ncc_bcc_admit(&pool_->red, pool_->used_bytes, ecn_capable, Draw());
        }
        return verdict;
    }

    ncc_u32 Draw()
    {
        random_ += kMixStep;
        return static_cast<ncc_u32>(Mix(random_) >> 32);
    }

    static constexpr ncc_u64 kUnbounded = std::numeric_limits<ncc_u64>::max() / 2; // the pool decides instead

    ncc_step_mark step_;
    Pool *pool_;
    bool plain_;   // nothing but step marking of what joins
    bool leaving_; // leaving packets are marked, not joining ones
    uint64_t private_bytes_;
    ncc_red red_;
    uint64_t random_;
};

} // namespace ncc
