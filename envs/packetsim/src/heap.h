// SPDX-License-Identifier: BSD-3-Clause
// A heap for events of the far future, which is also the simplest scheduler to compare with.
#pragma once

#include "event.h"

#include <cstddef>
#include <vector>

namespace ncc::packetsim
{

// A heap with four children per node: half as deep as a binary one, and the children of a node share a cache line.
class Heap
{
  public:
    Heap() { heap_.reserve(256); }

    bool empty() const { return heap_.empty(); }
    size_t size() const { return heap_.size(); }
    const Event &top() const { return heap_.front(); }

    bool PopBefore(const Event &end, Event &event)
    {
        if (empty() || !(top() < end)) {
            return false;
        }
        event = top();
        Pop();
        return true;
    }

    void Push(Event event)
    {
        heap_.push_back(event);
        SiftUp(heap_.size() - 1, event);
    }

    void Pop()
    {
        const Event last = heap_.back();
        heap_.pop_back();
        if (!heap_.empty()) {
            SiftDown(last);
        }
    }

  private:
    void SiftUp(size_t at, Event event)
    {
        while (at > 0) {
            const size_t parent = (at - 1) / 4;
            if (!(event < heap_[parent])) {
                break;
            }
            heap_[at] = heap_[parent];
            at = parent;
        }
        heap_[at] = event;
    }

    void SiftDown(Event event)
    {
        const size_t n = heap_.size();
        Event *heap = heap_.data();
        size_t at = 0;
        for (size_t child; (child = 4 * at + 1) + 3 < n; at = child) {
            const size_t left = heap[child + 1] < heap[child] ? child + 1 : child;
            const size_t right = heap[child + 3] < heap[child + 2] ? child + 3 : child + 2;
            child = heap[right] < heap[left] ? right : left;
            if (!(heap[child] < event)) {
                heap[at] = event;
                return;
            }
            heap[at] = heap[child];
        }
        for (size_t first = 4 * at + 1; first < n; first = 4 * at + 1) { // the last node may have fewer children
            size_t child = first;
            for (size_t i = first + 1; i < n && i < first + 4; ++i) {
                child = heap[i] < heap[child] ? i : child;
            }
            if (!(heap[child] < event)) {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = event;
    }

    std::vector<Event> heap_;
};

} // namespace ncc::packetsim
