// SPDX-License-Identifier: BSD-3-Clause
// Threads that share out the rows of a task, again and again. They stay between tasks, asleep. What took longest last
// time is begun first, so that no thread is left with a long row at the end while the others have nothing to do.
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

    // The caller of Each is one of the `threads`, at least 1 (std::invalid_argument if not); the others are started by
    // its first call that has rows for them.
    ThreadPool(size_t rows, size_t threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    // task(row) for every row, each once, in any order on any thread; returns when all are done. What a row throws is
    // kept until then, and does not keep others from being done. One call at a time.
    void Each(const Task &task);
    // Of the first row that threw in the last call, or rows(); null if none did.
    size_t failed_row() const;
    const std::exception_ptr &error(size_t row) const { return errors_[row]; }
    size_t rows() const { return rows_; }

  private:
    void Help();
    void Share();

    const size_t rows_, threads_;
    std::vector<std::exception_ptr> errors_; // by row, as is
    std::vector<int64_t> took_ns_;           // the last time
    std::vector<size_t> turns_;              // rows in the order in which they are begun
    std::vector<std::thread> helpers_;
    const Task *task_ = nullptr;
    bool stop_ = false;
    // On lines of their own, as all threads write to the first two.
    alignas(64) std::atomic<size_t> next_{0}; // turn; from rows_ on there is nothing to take
    alignas(64) std::atomic<size_t> done_{0};
    alignas(64) std::atomic<uint32_t> task_number_{0};
};

} // namespace ncc::packetsim
