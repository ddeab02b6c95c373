// SPDX-License-Identifier: BSD-3-Clause
#include "pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <numeric>

namespace ncc::packetsim
{

namespace
{

using Clock = std::chrono::steady_clock;

// Time for which threads stay awake. Waking one takes about as long as a row, and an environment needs less than this
// between two tasks.
constexpr std::chrono::microseconds kAwake{200};

// Waits until `word` is no longer `old`: actively for a while, then asleep.
template <class Word>
void Await(const std::atomic<Word> &word, Word old)
{
    const Clock::time_point until = Clock::now() + kAwake;
    do {
        for (int i = 0; i < 32; ++i) {
            if (word.load(std::memory_order_acquire) != old) {
                return;
            }
            __builtin_ia32_pause();
        }
    } while (Clock::now() < until);
    word.wait(old, std::memory_order_acquire);
}

} // namespace

ThreadPool::ThreadPool(size_t rows, size_t threads)
    : rows_(rows), threads_(threads), errors_(rows), took_ns_(rows), turns_(rows)
{
    std::iota(turns_.begin(), turns_.end(), size_t{0});
}

ThreadPool::~ThreadPool()
{
    stop_ = true;
    task_number_.fetch_add(1);
    task_number_.notify_all();
    for (std::thread &helper : helpers_) {
        helper.join();
    }
}

void ThreadPool::Each(const Task &task)
{
    if (rows_ == 0) {
        return;
    }
    const size_t wanted = std::min(threads_, rows_) - 1;
    if (helpers_.size() < wanted) {
        // Signals must not be delivered to the new threads.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        next_ = rows_;
        try {
            while (helpers_.size() < wanted) {
                helpers_.emplace_back([this] { Help(); });
            }
        } catch (...) {
            pthread_sigmask(SIG_SETMASK, &before, nullptr);
            throw;
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    std::fill(errors_.begin(), errors_.end(), nullptr);
    if (wanted > 0) {
        std::sort(turns_.begin(), turns_.end(), [this](size_t a, size_t b) { return took_ns_[a] > took_ns_[b]; });
    }
    task_ = &task;
    done_.store(0, std::memory_order_relaxed);
    // A thread that takes a row after this has seen the task. A late helper finds no rows, or rows of the next task,
    // because callers wait for rows, not for helpers.
    next_.store(0, std::memory_order_release);
    if (!helpers_.empty()) {
        task_number_.fetch_add(1, std::memory_order_release);
        task_number_.notify_all();
    }
    Share();
    for (size_t done = done_.load(std::memory_order_acquire); done < rows_;
         done = done_.load(std::memory_order_acquire)) {
        Await(done_, done);
    }
}

size_t ThreadPool::failed_row() const
{
    const auto first = std::find_if(errors_.begin(), errors_.end(), [](const auto &error) { return error != nullptr; });
    return static_cast<size_t>(first - errors_.begin());
}

void ThreadPool::Help()
{
    for (uint32_t seen = 0;;) {
        Await(task_number_, seen);
        seen = task_number_.load(std::memory_order_acquire);
        if (stop_) {
            return;
        }
        Share();
    }
}

void ThreadPool::Share()
{
    for (size_t turn; (turn = next_.fetch_add(1, std::memory_order_acq_rel)) < rows_;) {
        const size_t row = turns_[turn];
        const Clock::time_point began = Clock::now();
        try {
            (*task_)(row);
        } catch (...) {
            errors_[row] = std::current_exception();
        }
        took_ns_[row] = (Clock::now() - began).count();
        if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == rows_) {
            done_.notify_one();
        }
    }
}

} // namespace ncc::packetsim
