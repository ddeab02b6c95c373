// SPDX-License-Identifier: BSD-3-Clause
// A set of packet numbers in a window that slides.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ncc
{

// A bit for each number. Its memory is that of the widest window so far: whoever moves the window on must first remove
// the numbers that fall out of it.
class Numbers
{
  public:
    // `number` is in the window or beyond it.
    bool Has(uint32_t number) const { return number < end_ && (Word(number) >> number % 64 & 1) != 0; }

    // Adds a number to a window that begins at `first`. Returns false if it was here.
    bool Add(uint32_t first, uint32_t number)
    {
        if (number / 64 - first / 64 >= words_.size()) {
            Grow(first, number);
        }
        uint64_t &word = words_[number / 64 & (words_.size() - 1)];
        const uint64_t bit = 1ULL << number % 64;
        const bool added = (word & bit) == 0;
        word |= bit;
        end_ = std::max(end_, number + 1);
        return added;
    }
    // Returns false if it was not here.
    bool Remove(uint32_t number)
    {
        if (!Has(number)) {
            return false;
        }
        words_[number / 64 & (words_.size() - 1)] &= ~(1ULL << number % 64);
        return true;
    }

    // Returns the first of [from, end) that is here, or that is not; `end` without one.
    uint32_t FirstOf(uint32_t from, uint32_t end) const { return First(from, end, 0); }
    uint32_t FirstGap(uint32_t from, uint32_t end) const { return First(from, end, ~0ULL); }

    // Bit i says that `from` + i is here, in the window or beyond it; bits of numbers before the window mean nothing.
    uint64_t Bits(uint32_t from) const
    {
        if (from >= end_) {
            return 0;
        }
        const uint64_t low = Word(from) >> from % 64, high = from % 64 == 0 ? 0 : Word(from + 64) << (64 - from % 64);
        const uint32_t n = end_ - from;
        return n < 64 ? (low | high) & ((1ULL << n) - 1) : low | high;
    }

  private:
    uint64_t Word(uint32_t number) const { return words_[number / 64 & (words_.size() - 1)]; }

    uint32_t First(uint32_t from, uint32_t end, uint64_t invert) const
    {
        for (uint64_t at = from; at < end; at = (at / 64 + 1) * 64) {
            const uint64_t here = at < end_ ? Word(static_cast<uint32_t>(at)) : 0;
            if (const uint64_t bits = (here ^ invert) >> at % 64; bits != 0) {
                return std::min(static_cast<uint32_t>(at) + static_cast<uint32_t>(std::countr_zero(bits)), end);
            }
        }
        return end;
    }

    void Grow(uint32_t first, uint32_t number)
    {
        size_t size = std::max<size_t>(words_.size() * 2, 1);
        while (number / 64 - first / 64 >= size) {
            size *= 2;
        }
        std::vector<uint64_t> words(size);
        for (uint64_t at = first / 64; at * 64 < end_; ++at) {
            words[at & (size - 1)] = words_[at & (words_.size() - 1)];
        }
        words_ = std::move(words);
    }

    std::vector<uint64_t> words_; // a power of 2
    uint32_t end_ = 0;            // above all numbers that were ever here
};

} // namespace ncc
