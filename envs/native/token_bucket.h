// SPDX-License-Identifier: BSD-3-Clause
// The rate limiter of a host's NIC.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ncc
{

// A token bucket with an exact level. A token is 1e-12 bits, so that rate (in 1e-3 bits/s) times time (in ns) is a
// whole number of tokens. It starts full. With an infinite rate nothing waits.
class TokenBucket
{
  public:
    explicit TokenBucket(uint64_t bucket_bytes)
        : level_(static_cast<Level>(bucket_bytes) * kTokensPerByte), bucket_(level_)
    {
    }

    double limit_bps() const { return limit_bps_; }

    void SetLimit(double bps, int64_t now_ns)
    {
        Refill(now_ns);
        limited_ = std::isfinite(bps);
        limit_bps_ = bps;
        // Rounded down: the limit is never exceeded.
        milli_bps_ = limited_ ? static_cast<uint64_t>(std::min(bps, kMaxBps) * 1e3) : 0;
    }

    // Returns the time until a packet of that size may go; 0: now.
    int64_t WaitNs(uint32_t bytes, int64_t now_ns)
    {
        if (!limited_) {
            return 0;
        }
        Refill(now_ns);
        const Level missing = static_cast<Level>(bytes) * kTokensPerByte - level_;
        if (missing <= 0) {
            return 0;
        }
        constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 4;
        if (milli_bps_ == 0) {
            return kForever;
        }
        return static_cast<int64_t>(std::min<Level>((missing + milli_bps_ - 1) / milli_bps_, kForever));
    }

    void Take(uint32_t bytes)
    {
        if (limited_) {
            level_ -= static_cast<Level>(bytes) * kTokensPerByte;
        }
    }

  private:
    __extension__ typedef __int128 Level;
    static constexpr uint64_t kTokensPerByte = 8'000'000'000'000ULL; // in 1e-12 bits
    static constexpr double kMaxBps = 1e15;                          // as milli-bits it must fit 64 bits

    void Refill(int64_t now_ns)
    {
        level_ =
            limited_ ? std::min(bucket_, level_ + static_cast<Level>(milli_bps_) * (now_ns - refilled_ns_)) : bucket_;
        refilled_ns_ = now_ns;
    }

    double limit_bps_ = std::numeric_limits<double>::infinity();
    uint64_t milli_bps_ = 0;
    bool limited_ = false;
    Level level_;
    Level bucket_;
    int64_t refilled_ns_ = 0;
};

} // namespace ncc
