// SPDX-License-Identifier: BSD-3-Clause
// Memory for TCP's state of single packets, shared and reused by the connections of a network.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace ncc::packetsim
{

// A pool of blocks of 2^k words.
class TcpRings
{
  public:
    static constexpr unsigned kSmallest = 4; // 16 words: an initial window of 10 packets

    uint64_t *Take(unsigned log2_words)
    {
        std::vector<uint64_t *> &free = free_[log2_words];
        if (free.empty()) {
            Fill(log2_words);
        }
        uint64_t *words = free.back();
        free.pop_back();
        return words;
    }
    void Give(uint64_t *words, unsigned log2_words) { free_[log2_words].push_back(words); }

  private:
    void Fill(unsigned log2_words)
    {
        constexpr unsigned kSlab = 12; // words at a time: 32 KiB
        const unsigned blocks = log2_words < kSlab ? 1U << (kSlab - log2_words) : 1;
        slabs_.push_back(std::make_unique_for_overwrite<uint64_t[]>(static_cast<uint64_t>(blocks) << log2_words));
        for (unsigned i = blocks; i-- > 0;) {
            free_[log2_words].push_back(slabs_.back().get() + (static_cast<uint64_t>(i) << log2_words));
        }
    }

    std::vector<uint64_t *> free_[33];
    std::vector<std::unique_ptr<uint64_t[]>> slabs_;
};

// A word for each packet of a sliding window, by packet number; the ring grows with the window.
class TcpRing
{
  public:
    uint64_t &operator[](uint32_t number) { return words_[number & mask_]; }
    uint64_t operator[](uint32_t number) const { return words_[number & mask_]; }
    bool empty() const { return words_ == nullptr; }
    uint32_t capacity() const { return words_ == nullptr ? 0 : mask_ + 1; }

    // Makes room for numbers [first, end]; words of [first, end) are kept, new ones are 0.
    void Reserve(TcpRings &rings, uint32_t first, uint32_t end)
    {
        if (end - first >= capacity()) {
            Grow(rings, first, end);
        }
    }
    void Release(TcpRings &rings)
    {
        if (words_ != nullptr) {
            rings.Give(words_, log2_);
            words_ = nullptr;
        }
    }

  private:
    void Grow(TcpRings &rings, uint32_t first, uint32_t end)
    {
        unsigned log2 = words_ == nullptr ? TcpRings::kSmallest : log2_ + 1;
        while (end - first >= 1ULL << log2) {
            ++log2;
        }
        uint64_t *words = rings.Take(log2);
        const auto mask = static_cast<uint32_t>((1ULL << log2) - 1);
        std::fill(words, words + mask + 1, 0);
        const uint32_t kept = std::min(end - first, capacity());
        for (uint32_t number = first; number != first + kept; ++number) {
            words[number & mask] = words_[number & mask_];
        }
        Release(rings);
        words_ = words;
        mask_ = mask;
        log2_ = log2;
    }

    uint64_t *words_ = nullptr;
    uint32_t mask_ = 0;
    uint32_t log2_ = 0;
};

} // namespace ncc::packetsim
