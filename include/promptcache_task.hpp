/*
 * promptcache_task.hpp: promptcache/task.h from C++17 on. Conventions: promptcache.hpp.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_TASK_HPP
#define PROMPTCACHE_TASK_HPP

#include "promptcache.hpp"
#include "promptcache/task.h"

#include <limits>
#include <mutex>

namespace promptcache {

#pragma GCC visibility push(default)
inline namespace shared {
#if PROMPTCACHE_CATCHES_
/* The pc_task of a task, in a list of all, where a function on a thread of the library finds its
 * own: the first exception waits here until somebody has waited for the task. */
class listed_task {
  public:
    listed_task() noexcept = default;
    listed_task(listed_task &&other) noexcept { take(other); }
    listed_task &operator=(listed_task &&other) noexcept
    {
        if (this != &other) {
            reset();
            take(other);
        }
        return *this;
    }
    ~listed_task() { reset(); }
    /* start(&task) starts one. Its functions find it from the first on: they wait for the lock. */
    template <class Start> pc_status start(Start call)
    {
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        pc_task *made = nullptr;
        const pc_status status = call(&made);
        enter(made);
        return status;
    }
    pc_task *get() const noexcept { return task_; }
    pc_task *release() noexcept
    {
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        return leave();
    }
    void reset(pc_task *owned = nullptr) noexcept
    {
        if (task_) /* without the lock, which its functions may need */
            (void)pc_task_wait(task_, std::numeric_limits<double>::infinity());
        pc_task_free(release());
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        enter(owned);
    }
    /* The task is done: what was thrown comes out of the call of this thread. */
    void give() noexcept
    {
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        call_border *const border = call_border::leave();
        if (border && !border->thrown)
            border->thrown = std::exchange(thrown_, nullptr);
        call_border::enter(border);
    }
    /* On a thread of the library: the task whose function this is gets its first exception. */
    static void keep(std::exception_ptr thrown) noexcept
    {
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        for (listed_task *one = first_; one; one = one->next_)
            if (pc_task_wait(one->task_, 0) == PC_ERR_STATE) {
                if (!one->thrown_)
                    one->thrown_ = std::move(thrown);
                break;
            }
        pc_error_set(nullptr); /* asking has changed it */
    }

  private:
    void enter(pc_task *owned) noexcept
    {
        task_ = owned;
        if (!owned)
            return;
        next_ = first_;
        first_ = this;
    }
    pc_task *leave() noexcept
    {
        listed_task **link = &first_;
        while (*link && *link != this)
            link = &(*link)->next_;
        if (*link)
            *link = next_;
        thrown_ = nullptr;
        return std::exchange(task_, nullptr);
    }
    void take(listed_task &other) noexcept
    {
        const std::lock_guard<std::recursive_mutex> hold(lock_);
        std::exception_ptr thrown = other.thrown_;
        enter(other.leave());
        thrown_ = std::move(thrown);
    }

    pc_task *task_ = nullptr;
    listed_task *next_ = nullptr;
    std::exception_ptr thrown_;
    static inline std::recursive_mutex lock_;
    static inline listed_task *first_ = nullptr;
};
inline const bool keeps_for_tasks = (call_border::keep_for_task = listed_task::keep, true);
#endif
} // namespace shared
#pragma GCC visibility pop

inline namespace PROMPTCACHE_KIND_ {

/* Work on a thread of the library. A handle as others; when it goes, it waits for the work.
 *
 * Functions of the application run on that thread. What the first one throws comes out of the
 * `wait` that finds the task done, once. */
class task {
  public:
    using c_type = pc_task;

    task() noexcept = default;
    explicit task(pc_task *owned) noexcept { task_.reset(owned); }
    pc_task *get() const noexcept { return task_.get(); }
    pc_task *release() noexcept { return task_.release(); }
    void reset(pc_task *owned = nullptr) noexcept { task_.reset(owned); }
    explicit operator bool() const noexcept { return get() != nullptr; }

    /* PC_AGAIN: it is not done within that time. Else what the call without a task returns. */
    returns<pc_status> wait(double seconds = std::numeric_limits<double>::infinity())
    {
        return detail::call_for(
            [&] {
                const pc_status status = pc_task_wait(get(), seconds);
#if PROMPTCACHE_CATCHES_
                if (status != PC_AGAIN && status != PC_ERR_STATE)
                    task_.give();
#endif
                return status;
            },
            [](pc_status status) { return status; });
    }
    /* Whether there is nothing to wait for. Changes the error text of this thread. */
    bool done() const noexcept { return !get() || pc_task_wait(get(), 0) != PC_AGAIN; }
    /* For poll and event loops: readable when it is done. The task closes it. */
    returns<std::int32_t> fd() const { return detail::fill<std::int32_t>(pc_task_fd, get()); }

    /* start(&task) starts one: for step_async and attend_async. */
    template <class Start> static returns<task> started(Start start)
    {
        task made;
        return detail::call_for(
            [&] {
#if PROMPTCACHE_CATCHES_
                return made.task_.start(start);
#else
                pc_task *out = nullptr;
                const pc_status status = start(&out);
                made.reset(out);
                return status;
#endif
            },
            [&](pc_status) { return std::move(made); });
    }

  private:
#if PROMPTCACHE_CATCHES_
    listed_task task_;
#else
    detail::handle<pc_task, pc_task_free> task_;
#endif
};

/* batch::step as a task. Until it is done, calls of the batch and its sequences are PC_ERR_STATE,
 * but sequence::cancel. They may be freed. */
inline returns<task> step_async(const batch &of)
{
    return task::started([&](pc_task **out) { return pc_batch_step_async(out, of.get()); });
}

/* plan::attend as a task. */
inline returns<task> attend_async(const plan &by, const attend_args &args)
{
    if (const char *fault = args.too_short(by.shape_, by.runs_, by.rows_))
        return detail::fail<task>(PC_ERR_LIMIT, fault);
    return task::started([&](pc_task **out) { return pc_attend_async(out, by.get(), &args); });
}

} // namespace PROMPTCACHE_KIND_
} // namespace promptcache
#endif
