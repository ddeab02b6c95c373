// SPDX-License-Identifier: BSD-3-Clause
// Threads that share the rows of one task after another, and sleep between tasks. The row that took longest last time
// begins first, so that no thread has a long row left at the end while the others have nothing to do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace ncc::packetsim
{

class ThreadPool
{
  public:
    using Task = std::function<void(size_t row)>;

    // The caller of Each is one of the `threads`, of which there is at least one; the others are started by the first
    // call that has rows for them.
    ThreadPool(size_t rows, size_t threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    // Calls task(row) once for every row, in any order on any thread, and returns when all are done. An exception of a
    // row is kept until then, and does not prevent other rows. Only one call at a time.
    void Each(const Task &task);
    // Returns the first row that threw in the last call, or rows() if none did.
    size_t failed_row() const;
    const std::exception_ptr &error(size_t row) const { return errors_[row]; }
    size_t rows() const { return rows_; }

  private:
    void Help();
    void Share();

    const size_t rows_, threads_;
    std::vector<std::exception_ptr> errors_; // by row, like the next
    std::vector<int64_t> took_ns_;           // time that each row took in the last task
    std::vector<size_t> turns_;              // rows in the order in which they begin
    std::vector<std::thread> helpers_;
    const Task *task_ = nullptr;
    bool stop_ = false;
    // These have cache lines of their own, because all threads write to the first two.
    alignas(64) std::atomic<size_t> next_{0}; // next turn; there are none from rows_ on
    alignas(64) std::atomic<size_t> done_{0};
    alignas(64) std::atomic<uint32_t> task_number_{0};
};

} // namespace ncc::packetsim
