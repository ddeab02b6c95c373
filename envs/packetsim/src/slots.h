// SPDX-License-Identifier: BSD-3-Clause
// Objects that few packets have, by numbers that are used again.
#pragma once

#include <cstdint>
#include <vector>

namespace ncc::packetsim
{

// `T::Clear` resets an object to its initial state.
template <class T>
class Slots
{
  public:
    T &operator[](uint32_t index) { return all_[index]; }

    uint32_t Take()
    {
        if (free_.empty()) {
            all_.emplace_back();
            return static_cast<uint32_t>(all_.size() - 1);
        }
        const uint32_t index = free_.back();
        free_.pop_back();
        all_[index].Clear();
        return index;
    }
    void Release(uint32_t index) { free_.push_back(index); }

  private:
    std::vector<T> all_;
    std::vector<uint32_t> free_;
};

} // namespace ncc::packetsim
