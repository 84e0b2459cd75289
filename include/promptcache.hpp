/* clang-format off: the example is text */
/*
 * promptcache.hpp: the library from C++17 on. Header only: it adds nothing to the library's binary
 * interface, and everything in it ends in calls of promptcache.h and the headers beside it. These
 * say what a call does and returns; here stands only what C++ adds. doc/cpp.md shows all of it.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 *
 * The smallest useful program, as in promptcache.h (bindings/cpp builds and runs exactly this
 * text):
 *
 * [example]
 *   #include <promptcache.hpp>
 *   #include <iostream>
 *   namespace pc = promptcache;
 *
 *   int main(int argc, char **argv) // model.gguf schema.pml prompt.pml
 *   try {
 *       if (argc != 4)
 *           return 2;
 *       auto context = pc::context::make();
 *       auto model = pc::model::load(context, argv[1]);
 *       auto cache = pc::cache::make(context);
 *       auto schema = pc::schema::load(model, argv[2]);
 *       auto prompt = pc::prompt::load(schema, argv[3]);
 *       auto print = [](std::string_view text) { std::cout << text; };
 *       pc::generate_options options;
 *       options.set_on_text(print);
 *       pc::stats stats = pc::generate(prompt, cache, options);
 *       std::cout << "\n" << stats.tokens_cached << " of " << stats.tokens_prompt
 *                 << " tokens came from the cache\n";
 *   } catch (const pc::error &error) {
 *       std::cerr << pc_status_name(error.status()) << ": " << error.what() << "\n";
 *       return 1;
 *   }
 * [/example]
 *
 * Names
 * - pc_noun is the class noun. pc_noun_verb(noun, ...) is noun.verb(...), pc_noun_new(&noun, ...)
 *   is noun::make(...); pc_noun_load and others that make a noun are functions of its class. Calls
 *   that are about no object are functions of the namespace. task.h has promptcache_task.hpp,
 * bench.h has no C++.
 * - Constants are those of C: PC_END, PC_GENERATE_KEEP. So are structs in arrays (pc_span).
 * - A struct with struct_size is the type of its name without pc_, which derives from it:
 *   `pc::generate_options options; options.max_tokens = 40;`. It begins with all defaults. set_...
 *   functions put what C++ has into fields: functions, spans, texts.
 *
 * Conventions
 * - A handle owns its object. It can be moved and not copied; an empty one is `false`. get() lends
 *   the pointer of C, release() gives it away. An empty handle is NULL to the library: an empty
 *   cache is no cache, where promptcache.h allows NULL; else it is PC_ERR_INVALID.
 * - Errors are exceptions of the class `error`. With PROMPTCACHE_NO_EXCEPTIONS, or compiled without
 *   exceptions, each call that can fail returns result<T> in place of T (result<> in place of
 *   nothing), which is much like std::expected. Both kinds of code may be in one program.
 * - Calls with an outcome that is no error (PC_MISS, PC_AGAIN, PC_END, PC_EXISTS) return pc_status,
 *   or a handle, which is then empty.
 * - Texts are std::string_view where the library takes their size. Where it wants a final NUL
 *   (names, paths, roles) they are c_string, which takes literals, std::string and paths.
 * - Texts and spans in structs and options are borrowed, as the pointers of C are. A string or
 *   container that is a temporary is refused by the compiler.
 * - pc::span is std::span from C++20 on, before it a small type with the same use.
 * - set_... of a function keep a reference to it: it must live as long as what gets the options. A
 *   temporary is refused by the compiler. What it returns: nothing: go on; bool: true goes on;
 *   int32_t: as the function of C. Of set_cancelled: bool, true cancels.
 * - An exception may leave such a function if it runs on the calling thread (it must be noexcept
 *   otherwise, and the compiler says so). The library gets PC_ERR_INTERNAL (std::bad_alloc:
 *   PC_ERR_NOMEM; `error`: its status) with the exception's text. When the call of the library is
 *   over, the exception goes on to its caller. batch::step finishes its step before that; only the
 *   sequence of that function has failed.
 * - Nothing here allocates memory but what returns std::string or std::vector, and errors.
 */
/* clang-format on */
#ifndef PROMPTCACHE_HPP
#define PROMPTCACHE_HPP

#include "promptcache.h"
#include "promptcache/admin.h"
#include "promptcache/attend.h"
#include "promptcache/batch.h"
#include "promptcache/cache.h"
#include "promptcache/embed.h"
#include "promptcache/extend.h"
#include "promptcache/memo.h"
#include "promptcache/prompt.h"
#include "promptcache/sampling.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus > 201703L && __has_include(<span>)
#include <span>
#endif

/* ---- Switches: each combination has types of its own, by an inline namespace. Headers beside this
 * one go by them. */

#ifdef __cpp_exceptions
#define PROMPTCACHE_CATCHES_ 1 /* functions of the application may throw */
#else
#define PROMPTCACHE_CATCHES_ 0
#endif
#if PROMPTCACHE_CATCHES_ && !defined(PROMPTCACHE_NO_EXCEPTIONS)
#define PROMPTCACHE_THROWS_ 1 /* errors are exceptions */
#else
#define PROMPTCACHE_THROWS_ 0
#endif
#if PROMPTCACHE_THROWS_ && defined(__cpp_lib_span)
#define PROMPTCACHE_KIND_ throwing
#elif PROMPTCACHE_THROWS_
#define PROMPTCACHE_KIND_ throwing_own_span
#elif PROMPTCACHE_CATCHES_ && defined(__cpp_lib_span)
#define PROMPTCACHE_KIND_ results
#elif PROMPTCACHE_CATCHES_
#define PROMPTCACHE_KIND_ results_own_span
#elif defined(__cpp_lib_span)
#define PROMPTCACHE_KIND_ no_exceptions
#else
#define PROMPTCACHE_KIND_ no_exceptions_own_span
#endif

namespace promptcache {

/* One for all kinds of code and all libraries of a program. */
#pragma GCC visibility push(default)
inline namespace shared {
#if PROMPTCACHE_CATCHES_
/* What a call of the library on this thread has to do with exceptions of the application's
 * functions: the first one waits here until the call is over. */
class call_border {
  public:
    call_border() noexcept : outer_(current_) { current_ = this; }
    call_border(const call_border &) = delete;
    call_border &operator=(const call_border &) = delete;
    ~call_border() { current_ = outer_; }
    /* While a function of the application runs: what it calls is not the call of this border. */
    static call_border *leave() noexcept { return inside_++, std::exchange(current_, nullptr); }
    static void enter(call_border *border) noexcept { inside_--, current_ = border; }
    static void keep() noexcept
    {
        if (current_ && !current_->thrown)
            current_->thrown = std::current_exception();
        else if (!current_ && !inside_ && keep_for_task) /* on a thread of the library */
            keep_for_task(std::current_exception());
    }
    std::exception_ptr thrown;
    static inline void (*keep_for_task)(std::exception_ptr) noexcept = nullptr;

  private:
    call_border *outer_;
    static inline thread_local call_border *current_ = nullptr;
    static inline thread_local std::size_t inside_ = 0; /* functions of the application */
};
#endif
#if PROMPTCACHE_THROWS_
/* A call of the library has failed. what() is pc_error_text, which names place and cause. */
class error : public std::runtime_error {
  public:
    error(pc_status status, const char *text, std::uint64_t line = 0, std::uint64_t column = 0)
        : std::runtime_error(text), status_(status), line_(line), column_(column)
    {
    }
    /* PC_ERR_… */
    pc_status status() const noexcept { return status_; }
    /* As of pc_error_place: in the document that the error is about, from 1; 0: there is none. */
    std::uint64_t line() const noexcept { return line_; }
    std::uint64_t column() const noexcept { return column_; }

  private:
    pc_status status_;
    std::uint64_t line_, column_;
};
#endif
} // namespace shared
#pragma GCC visibility pop

inline namespace PROMPTCACHE_KIND_ {

/* ---- Arguments */

#ifdef __cpp_lib_span
template <class T> using span = std::span<T>;
#else
/* Elements of somebody else, one behind the other: what std::span is. */
template <class T> class span {
  public:
    using element_type = T;

    constexpr span() noexcept = default;
    template <class P, class = std::enable_if_t<std::is_pointer_v<P>>> /* {0, 2} is no span */
    constexpr span(P first, std::size_t count) noexcept : first_(first), count_(count)
    {
    }
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : first_(array), count_(N) {}
    /* A container with data() and size(); a temporary only of constant elements. */
    template <class C, class = std::enable_if_t<
                           std::is_convertible_v<
                               std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[],
                               T (*)[]> && (std::is_lvalue_reference_v<C> || std::is_const_v<T>)>>
    constexpr span(C &&container) noexcept : first_(container.data()), count_(container.size())
    {
    }
    constexpr T *data() const noexcept { return first_; }
    constexpr std::size_t size() const noexcept { return count_; }
    constexpr bool empty() const noexcept { return count_ == 0; }
    constexpr T *begin() const noexcept { return first_; }
    constexpr T *end() const noexcept { return first_ + count_; }
    constexpr T &operator[](std::size_t index) const noexcept { return first_[index]; }

  private:
    T *first_ = nullptr;
    std::size_t count_ = 0;
};
#endif

/* A text with a final NUL: a literal, a std::string, a std::filesystem::path. Borrowed. nullptr is
 * the NULL of C. It ends at its first NUL. */
class c_string {
  public:
    constexpr c_string(const char *text) noexcept : text_(text) {}
    template <class S, class = std::enable_if_t<std::is_same_v<
                           decltype(std::declval<const S &>().c_str()), const char *>>>
    c_string(const S &text) noexcept : text_(text.c_str())
    {
    }
    constexpr const char *get() const noexcept { return text_; }

  private:
    const char *text_;
};

/* A span or text that options or a struct keep: not of a container or string that is a temporary,
 * whose memory would be gone. */
template <class T, class = void> inline constexpr bool owns = false;
template <class T> inline constexpr bool owns<T, std::void_t<typename T::allocator_type>> = true;
template <class T, std::size_t N> inline constexpr bool owns<std::array<T, N>> = true;
template <class View> class kept : public View {
  public:
    constexpr kept() noexcept = default;
    template <class T, class = std::enable_if_t<
                           std::is_convertible_v<T, View> && !owns<std::remove_const_t<T>>>>
    constexpr kept(T &&from) noexcept : View(std::forward<T>(from))
    {
    }
};

/* The 32 bytes of a key or digest, and a reference to those of others. */
using digest = std::array<std::uint8_t, 32>;
class key_ref {
  public:
    key_ref(const digest &key) noexcept : bytes_(key.data()) {}
    key_ref(const std::uint8_t (&key)[32]) noexcept : bytes_(key) {}
    const std::uint8_t *get() const noexcept { return bytes_; }

  private:
    const std::uint8_t *bytes_;
};

/* ---- Errors */

#if PROMPTCACHE_THROWS_
template <class T = void> using returns = T;
#else
/* A call of the library has failed: the same as a value. */
class error {
  public:
    error() noexcept = default; /* none: PC_OK */
    error(pc_status status, const char *text, std::uint64_t line = 0,
          std::uint64_t column = 0) noexcept
        : status_(status), line_(line), column_(column)
    {
        const std::size_t size = std::strlen(text) + 1;
        text_ = new (std::nothrow) char[size];
        if (text_)
            std::memcpy(text_, text, size);
    }
    /* What was moved from keeps its status: it is still a failure. */
    error(error &&other) noexcept
    {
        swap(other);
        other.status_ = status_;
    }
    error &operator=(error &&other) noexcept
    {
        error moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~error() { delete[] text_; }
    pc_status status() const noexcept { return status_; }
    /* One line; without memory for it, the text of the status. */
    const char *what() const noexcept { return text_ ? text_ : pc_status_text(status_); }
    std::uint64_t line() const noexcept { return line_; }
    std::uint64_t column() const noexcept { return column_; }

  private:
    void swap(error &other) noexcept
    {
        std::swap(status_, other.status_);
        std::swap(line_, other.line_);
        std::swap(column_, other.column_);
        std::swap(text_, other.text_);
    }
    pc_status status_ = PC_OK;
    std::uint64_t line_ = 0, column_ = 0;
    char *text_ = nullptr;
};

/* A value, or the error why there is none. `*` and `->` of a result without a value are a fault of
 * the program (assert), as is error() of one with a value. */
template <class T = void> class [[nodiscard]] result {
  public:
    using value_type = T;
    using error_type = promptcache::error;

    result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
    result(promptcache::error error) noexcept : error_(std::move(error)) {}
    bool has_value() const noexcept { return value_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }
    T &operator*() &noexcept
    {
        assert(has_value());
        return *value_;
    }
    const T &operator*() const &noexcept
    {
        assert(has_value());
        return *value_;
    }
    T &&operator*() &&noexcept
    {
        assert(has_value());
        return std::move(*value_);
    }
    T *operator->() noexcept
    {
        assert(has_value());
        return &*value_;
    }
    const T *operator->() const noexcept
    {
        assert(has_value());
        return &*value_;
    }
    template <class U> T value_or(U &&other) &&
    {
        return has_value() ? std::move(*value_) : static_cast<T>(std::forward<U>(other));
    }
    const promptcache::error &error() const &noexcept
    {
        assert(!has_value());
        return error_;
    }
    promptcache::error &&error() &&noexcept { return std::move(error_); }

  private:
    std::optional<T> value_;
    promptcache::error error_;
};
template <> class [[nodiscard]] result<void> {
  public:
    using value_type = void;
    using error_type = promptcache::error;

    result() noexcept = default;
    result(promptcache::error error) noexcept : error_(std::move(error)) {}
    bool has_value() const noexcept { return error_.status() >= 0; }
    explicit operator bool() const noexcept { return has_value(); }
    const promptcache::error &error() const &noexcept
    {
        assert(!has_value());
        return error_;
    }
    promptcache::error &&error() &&noexcept { return std::move(error_); }

  private:
    promptcache::error error_;
};
template <class T = void> using returns = result<T>;
#endif

namespace detail {

#if PROMPTCACHE_CATCHES_
/* In a handler: what the library and pc_error_text get of the exception. */
inline pc_status status_of_exception() noexcept
{
    try {
        throw;
#if PROMPTCACHE_THROWS_
    } catch (const error &thrown) {
        pc_error_set(thrown.what());
        return thrown.status() < 0 ? thrown.status() : PC_ERR_INTERNAL;
#endif
    } catch (const std::bad_alloc &) {
        return PC_ERR_NOMEM;
    } catch (const std::exception &thrown) {
        pc_error_set(thrown.what());
    } catch (...) {
        pc_error_set("an exception that is no std::exception");
    }
    return PC_ERR_INTERNAL;
}
#endif

/* Runs a function of the application: what it returns, or an error for its exception, which waits
 * for the end of the library's call if `keep`. */
template <bool keep, class Function> std::int32_t run(Function function) noexcept
{
#if PROMPTCACHE_CATCHES_
    call_border *const border = call_border::leave();
    try {
        const std::int32_t out = function();
        call_border::enter(border);
        return out;
    } catch (...) {
        call_border::enter(border);
        if constexpr (keep)
            call_border::keep();
        return status_of_exception();
    }
#else
    return function();
#endif
}

/* Calls it, and turns its result into that of C. */
template <class F, class... Arguments> std::int32_t answer(F &function, Arguments... arguments)
{
    using result_type = std::invoke_result_t<F &, Arguments...>;
    if constexpr (std::is_void_v<result_type>) {
        function(arguments...);
        return 0;
    } else if constexpr (std::is_same_v<result_type, bool>) {
        return function(arguments...) ? 0 : 1;
    } else {
        static_assert(
            (std::is_integral_v<result_type> || std::is_enum_v<result_type>)&&sizeof(result_type)
                <= sizeof(std::int32_t),
            "the function returns nothing, bool or int32_t");
        return static_cast<std::int32_t>(function(arguments...));
    }
}

template <class F> void *user_of(F &function) noexcept
{
    static_assert(std::is_object_v<F>, "a lambda or an object with operator(), not a function");
    return const_cast<void *>(static_cast<const void *>(&function));
}
template <class F> F &function_of(void *user) noexcept { return *static_cast<F *>(user); }

/* The functions of C that call an F. */
template <class F>
std::int32_t on_text(void *user, std::uint32_t sample, const char *text, std::size_t size) noexcept
{
    return run<true>([&] {
        if constexpr (std::is_invocable_v<F &, std::uint32_t, std::string_view>)
            return answer(function_of<F>(user), sample, std::string_view(text, size));
        else
            return answer(function_of<F>(user), std::string_view(text, size));
    });
}
template <class F> std::int32_t on_token(void *user, const pc_token *token) noexcept
{
    return run<true>([&] { return answer<F, const pc_token &>(function_of<F>(user), *token); });
}
template <class F>
std::int32_t on_logits(void *user, std::uint32_t sample, float *logits, std::size_t count) noexcept
{
    return run<true>(
        [&] { return answer(function_of<F>(user), sample, span<float>(logits, count)); });
}
template <class F> std::int32_t cancelled(void *user) noexcept
{
    return run<true>([&]() -> std::int32_t { return function_of<F>(user)() ? 1 : 0; });
}
template <class F>
std::int32_t progress(void *user, const char *what, std::uint64_t done,
                      std::uint64_t total) noexcept
{
    return run<true>([&] { return answer(function_of<F>(user), what, done, total); });
}

/* pc_error_text and pc_error_place of the call that has just failed. */
inline error last_error(pc_status status)
{
    std::uint64_t line = 0, column = 0;
    pc_error_place(&line, &column);
    return error(status, pc_error_text(), line, column);
}

/* An error that this header finds. */
template <class T = void> returns<T> fail(pc_status status, const char *text)
{
#if PROMPTCACHE_THROWS_
    throw error(status, text);
#else
    return error(status, text);
#endif
}

/* One call of the library: value(status), unless it fails, or a function that it calls throws. */
template <class Call, class Value>
auto call_for(Call c_call, Value value) -> returns<std::invoke_result_t<Value, pc_status>>
{
    using value_type = std::invoke_result_t<Value, pc_status>;
#if PROMPTCACHE_CATCHES_
    call_border border;
#endif
    const pc_status status = c_call();
#if PROMPTCACHE_THROWS_
    if (border.thrown)
        std::rethrow_exception(std::move(border.thrown));
    if (status < 0)
        throw last_error(status);
#else
#if PROMPTCACHE_CATCHES_
    if (border.thrown) {
        try {
            std::rethrow_exception(std::move(border.thrown));
        } catch (...) {
            const pc_status thrown = status_of_exception();
            return error(thrown, thrown == PC_ERR_NOMEM ? pc_status_text(thrown) : pc_error_text());
        }
    }
#endif
    if (status < 0)
        return last_error(status);
#endif
    if constexpr (std::is_void_v<value_type>) {
        value(status);
        return returns<>();
    } else {
        return returns<value_type>(value(status));
    }
}

/* A function of C with these arguments. */
template <class Function, class... Arguments>
returns<> call(Function function, Arguments... arguments)
{
    return call_for([&] { return function(arguments...); }, [](pc_status) {});
}
/* The same, for the caller to look at outcomes that are no error. */
template <class Function, class... Arguments>
returns<pc_status> call_status(Function function, Arguments... arguments)
{
    return call_for([&] { return function(arguments...); },
                    [](pc_status status) { return status; });
}
/* A function that gives an object, by its first argument. */
template <class T, class Function, class... Arguments>
returns<T> make(Function function, Arguments... arguments)
{
    T object;
    return call_for(
        [&] {
            typename T::c_type *out = nullptr;
            const pc_status status = function(&out, arguments...);
            object.reset(out);
            return status;
        },
        [&](pc_status) { return std::move(object); });
}
/* A function that fills a struct, or sets a number, by its last argument. */
template <class T, class Function, class... Arguments>
returns<T> fill(Function function, Arguments... arguments)
{
    T out = T();
    return call_for([&] { return function(arguments..., &out); }, [&](pc_status) { return out; });
}
/* A function that fills an array by its last three arguments. PC_ERR_LIMIT: it grew meanwhile. */
template <class C, class Function, class... Arguments>
returns<C> list(Function function, Arguments... arguments)
{
    C out;
    std::size_t count = 0;
    return call_for(
        [&] {
            const pc_status status = function(arguments..., nullptr, std::size_t{0}, &count);
            if (status < 0 || !count)
                return status;
            out.resize(count);
            return function(arguments..., out.data(), out.size(), &count);
        },
        [&](pc_status) {
            out.resize(count);
            return std::move(out);
        });
}

inline const char *chars(std::string_view text) noexcept { return text.data() ? text.data() : ""; }
inline const void *salt_of(std::string_view salt) noexcept
{
    return salt.empty() ? nullptr : salt.data();
}

/* An array that a set_ function was given: whether it has room for `need`, if `now` is still it. A
 * field that was set by hand is as unchecked as in C. */
class checked_array {
  public:
    void set(const void *data, std::size_t size) noexcept
    {
        data_ = data;
        size_ = size;
    }
    bool has(const void *now, std::size_t need) const noexcept
    {
        return !now || now != data_ || size_ >= need;
    }

  private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
};

/* An object of the library, which the handle frees. */
template <class C, void (*Free)(C *)> class handle {
  public:
    using c_type = C;

    handle() noexcept = default;
    explicit handle(C *owned) noexcept : object_(owned) {}
    handle(handle &&other) noexcept : object_(other.release()) {}
    handle &operator=(handle &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    ~handle() { reset(); }
    C *get() const noexcept { return object_; }
    C *release() noexcept { return std::exchange(object_, nullptr); }
    void reset(C *owned = nullptr) noexcept
    {
        if (C *old = std::exchange(object_, owned))
            Free(old);
    }
    explicit operator bool() const noexcept { return object_ != nullptr; }

  private:
    C *object_ = nullptr;
};

} // namespace detail

/* A handle of somebody else's object: `pc::borrowed<pc::sequence> s(pointer); s->finish()`. */
template <class Handle> class borrowed {
  public:
    explicit borrowed(typename Handle::c_type *object) noexcept : handle_(object) {}
    borrowed(const borrowed &other) noexcept : handle_(other.handle_.get()) {}
    borrowed &operator=(const borrowed &other) noexcept
    {
        typename Handle::c_type *const object = other.handle_.get();
        handle_.release();
        handle_.reset(object);
        return *this;
    }
    ~borrowed() { handle_.release(); }
    Handle &operator*() noexcept { return handle_; }
    const Handle &operator*() const noexcept { return handle_; }
    Handle *operator->() noexcept { return &handle_; }
    const Handle *operator->() const noexcept { return &handle_; }

  private:
    Handle handle_;
};

/* ---- Structs of the library
 *
 * A struct with struct_size, with all defaults: zero, as its INIT macro writes it. */
template <class C> struct sized : C {
    sized() noexcept : C() { this->struct_size = sizeof(C); }
};

using model_info = sized<pc_model_info>;
using schema_options = sized<pc_schema_options>;
using prompt_options = sized<pc_prompt_options>;
using stats = sized<pc_stats>;
using fork_options = sized<pc_fork_options>;
using batch_options = sized<pc_batch_options>;
using batch_stats = sized<pc_batch_stats>;
using item = sized<pc_item>;
using part = sized<pc_part>;
using chat_options = sized<pc_chat_options>;
using embed_stats = sized<pc_embed_stats>;
using cache_stats = sized<pc_cache_stats>;
using prometheus_options = sized<pc_prometheus_options>;
using tier_stats = sized<pc_tier_stats>;
using get_info = sized<pc_get_info>;
using get_options = sized<pc_get_options>;
using find_options = sized<pc_find_options>;
using remove_options = sized<pc_remove_options>;
using model_ops = sized<pc_model_ops>;
using codec_ops = sized<pc_codec_ops>;
using attend_shape = sized<pc_attend_shape>;
using pages_args = sized<pc_pages_args>;
using pool = sized<pc_pool>;
using rope = sized<pc_rope>;
using merge_args = sized<pc_merge_args>;
using memo_bucket = sized<pc_memo_bucket>;
using memo_stats = sized<pc_memo_stats>;
using prefill_stats = sized<pc_prefill_stats>;
using systems_options = sized<pc_systems_options>;
using system_info = sized<pc_system_info>;
using model_file_info = sized<pc_model_file_info>;
using model_file_type = sized<pc_model_file_type>;
using folder_options = sized<pc_folder_options>;
using record_info = sized<pc_record_info>;
using costs = sized<pc_costs>;
using plugin_info = sized<pc_plugin_info>;

/* Memory from a std::pmr::memory_resource, which any thread may use at once and which lives as long
 * as everything that the library makes with it. */
struct allocator : sized<pc_allocator> {
    allocator() noexcept = default;
    explicit allocator(std::pmr::memory_resource &resource) noexcept
    {
        user = &resource;
        alloc = [](void *memory, std::size_t size, std::size_t align) noexcept -> void * {
            void *out = nullptr;
            detail::run<false>([&]() -> std::int32_t {
                out = static_cast<std::pmr::memory_resource *>(memory)->allocate(size, align);
                return 0;
            });
            return out;
        };
        free = [](void *memory, void *ptr, std::size_t size, std::size_t align) noexcept {
            static_cast<std::pmr::memory_resource *>(memory)->deallocate(ptr, size, align);
        };
    }
};

struct context_options : sized<pc_context_options> {
    /* function(uint32_t level, std::string_view line), noexcept: any thread calls it. */
    template <class F> context_options &set_log(F &function) noexcept
    {
        static_assert(std::is_nothrow_invocable_v<F &, std::uint32_t, std::string_view>,
                      "any thread calls it: it must be noexcept");
        log = [](void *user, std::uint32_t level, const char *line) {
            detail::function_of<F>(user)(level, std::string_view(line));
        };
        log_user = detail::user_of(function);
        return *this;
    }
    /* function(size_t n, body), noexcept: calls body(i) for every i < n on threads of its own and
     * returns when all are done. */
    template <class F> context_options &set_parallel_for(F &function) noexcept
    {
        struct each {
            void (*body)(void *, std::size_t);
            void *argument;
            void operator()(std::size_t i) const noexcept { body(argument, i); }
        };
        static_assert(std::is_nothrow_invocable_v<F &, std::size_t, each>,
                      "any thread calls it: it must be noexcept");
        parallel_for = [](void *user, std::size_t n, void (*body)(void *, std::size_t),
                          void *argument) {
            detail::function_of<F>(user)(n, each{body, argument});
        };
        parallel_user = detail::user_of(function);
        return *this;
    }
};

/* What several structs have. */
template <class Self, class Base> struct with_progress : Base {
    /* function(const char *what, uint64_t done, uint64_t total) */
    template <class F> Self &set_progress(F &function) noexcept
    {
        this->progress = detail::progress<F>;
        this->progress_user = detail::user_of(function);
        return static_cast<Self &>(*this);
    }
};
template <class Self, class Base> struct with_cancelled : Base {
    /* function() returns true to cancel. */
    template <class F> Self &set_cancelled(F &function) noexcept
    {
        this->cancelled = detail::cancelled<F>;
        this->cancel_user = detail::user_of(function);
        return static_cast<Self &>(*this);
    }
};
template <class Self, class Base> struct with_salt : Base {
    Self &set_salt(kept<std::string_view> text) noexcept
    {
        this->salt = detail::salt_of(text);
        this->salt_size = text.size();
        return static_cast<Self &>(*this);
    }
};
template <class Self, class Base> struct with_salts : Base {
    Self &set_salts(kept<span<const pc_salt>> list) noexcept
    {
        this->salts = list.data();
        this->salt_stride = sizeof(pc_salt);
        this->salt_count = list.size();
        return static_cast<Self &>(*this);
    }
};

struct model_options : with_progress<model_options, sized<pc_model_options>> {};
struct memo_work : with_progress<memo_work, sized<pc_memo_work>> {};
struct calibrate_options : with_progress<calibrate_options, sized<pc_calibrate_options>> {};
struct save_options : with_salt<save_options, sized<pc_save_options>> {};
struct key_parts : with_salt<key_parts, sized<pc_key_parts>> {};
struct put_options : with_salt<put_options, sized<pc_put_options>> {};
struct encode_options
    : with_progress<encode_options, with_salts<encode_options, sized<pc_encode_options>>> {};
struct embed_options
    : with_cancelled<embed_options, with_salts<embed_options, sized<pc_embed_options>>> {};

struct cache_options : with_salt<cache_options, sized<pc_cache_options>> {
    cache_options &set_codecs(kept<span<const pc_codec_ops>> list) noexcept
    {
        codecs = list.data();
        codec_count = list.size();
        return *this;
    }
    /* function(const pc_event &), noexcept: threads of the cache call it, too. */
    template <class F> cache_options &set_on_event(F &function) noexcept
    {
        static_assert(std::is_nothrow_invocable_v<F &, const pc_event &>,
                      "threads of the cache call it: it must be noexcept");
        on_event = [](void *user, const pc_event *event) { detail::function_of<F>(user)(*event); };
        event_user = detail::user_of(function);
        return *this;
    }
    /* function(uint32_t tier, uint64_t bytes, uint64_t budget), noexcept as above. */
    template <class F> cache_options &set_on_bytes(F &function) noexcept
    {
        static_assert(std::is_nothrow_invocable_v<F &, std::uint32_t, std::uint64_t, std::uint64_t>,
                      "threads of the cache call it: it must be noexcept");
        on_bytes = [](void *user, std::uint32_t tier, std::uint64_t bytes, std::uint64_t budget) {
            detail::function_of<F>(user)(tier, bytes, budget);
        };
        bytes_user = detail::user_of(function);
        return *this;
    }
};

/* From position `first` on, states belong to the tenant of this salt. */
inline pc_salt salt(std::int64_t first, kept<std::string_view> data) noexcept
{
    return pc_salt{first, detail::salt_of(data), data.size()};
}

struct sampling : sized<pc_sampling> {
    sampling &set_dry_breakers(kept<span<const std::int32_t>> tokens) noexcept
    {
        dry_breakers = tokens.data();
        dry_breaker_count = tokens.size();
        return *this;
    }
    /* Both of one length: what the shorter one has counts. */
    sampling &set_biases(kept<span<const std::int32_t>> tokens,
                         kept<span<const float>> values) noexcept
    {
        bias_tokens = tokens.data();
        bias_values = values.data();
        bias_count = tokens.size() < values.size() ? tokens.size() : values.size();
        return *this;
    }
};

struct generate_options
    : with_cancelled<generate_options, with_salts<generate_options, sized<pc_generate_options>>> {
    /* function(std::string_view text), or function(uint32_t sample, std::string_view text) */
    template <class F> generate_options &set_on_text(F &function) noexcept
    {
        on_text = detail::on_text<F>;
        on_text_user = detail::user_of(function);
        return *this;
    }
    /* function(const pc_token &) */
    template <class F> generate_options &set_on_token(F &function) noexcept
    {
        on_token = detail::on_token<F>;
        on_token_user = detail::user_of(function);
        return *this;
    }
    /* function(uint32_t sample, pc::span<float> logits) */
    template <class F> generate_options &set_on_logits(F &function) noexcept
    {
        on_logits = detail::on_logits<F>;
        on_logits_user = detail::user_of(function);
        return *this;
    }
    generate_options &set_stop_tokens(kept<span<const std::int32_t>> tokens) noexcept
    {
        stop_tokens = tokens.data();
        stop_token_count = tokens.size();
        return *this;
    }
    generate_options &set_stop_strings(kept<span<const char *const>> strings) noexcept
    {
        stop_strings = strings.data();
        stop_string_count = strings.size();
        return *this;
    }
};

struct system_format : sized<pc_system_format> {
    system_format &set_format(kept<std::string_view> text) noexcept
    {
        format = detail::chars(text);
        format_size = text.size();
        return *this;
    }
    system_format &set_system(kept<std::string_view> text) noexcept
    {
        system = detail::chars(text);
        system_size = text.size();
        return *this;
    }
    system_format &set_tokens(kept<span<const std::int32_t>> list) noexcept
    {
        tokens = list.data();
        token_count = list.size();
        return *this;
    }
};

/* A message of a conversation, which borrows all three. modules: paths of modules of the schema in
 * chat_options. */
inline pc_message message(kept<c_string> role, kept<std::string_view> content,
                          kept<span<const char *const>> modules = {}) noexcept
{
    pc_message out = {};
    out.role = role.get();
    out.content = detail::chars(content);
    out.content_size = content.size();
    out.modules = modules.data();
    out.module_count = modules.size();
    return out;
}

struct key_segment_args : sized<pc_key_segment_args> {
    key_segment_args &set_tokens(kept<span<const std::int32_t>> list) noexcept
    {
        tokens = list.data();
        count = list.size();
        return *this;
    }
};

struct raw : sized<pc_raw> {
    raw &set_tokens(kept<span<const std::int32_t>> list) noexcept
    {
        tokens = list.data();
        token_count = list.size();
        return *this;
    }
    /* Both of one length: what the shorter one has counts. */
    raw &set_blocks(kept<span<const void *const>> first,
                    kept<span<const std::uint64_t>> bytes) noexcept
    {
        blocks = first.data();
        block_bytes = bytes.data();
        block_count = first.size() < bytes.size() ? first.size() : bytes.size();
        return *this;
    }
};

struct memo_options : sized<pc_memo_options> {
    memo_options &set_bucket_tokens(kept<span<const std::uint32_t>> list) noexcept
    {
        bucket_tokens = list.data();
        bucket_count = list.size();
        return *this;
    }
    /* function(uint32_t bucket, double loss, double limit) */
    template <class F> memo_options &set_on_disabled(F &function) noexcept
    {
        on_disabled = [](void *user, std::uint32_t bucket, double loss, double limit) {
            detail::run<true>([&]() -> std::int32_t {
                detail::function_of<F>(user)(bucket, loss, limit);
                return 0;
            });
        };
        disabled_user = detail::user_of(function);
        return *this;
    }
};

/* A prompt without an answer, for memos and prefill. types: empty, or of one length with tokens:
 * what the shorter one has counts. */
inline pc_input input(kept<span<const std::int32_t>> tokens,
                      kept<span<const std::int32_t>> types = {}) noexcept
{
    const bool fewer = !types.empty() && types.size() < tokens.size();
    return pc_input{tokens.data(), (fewer ? types : tokens).size(),
                    types.empty() ? nullptr : types.data()};
}

/* ---- Context and models */

class context : public detail::handle<pc_context, pc_context_free> {
  public:
    using handle::handle;
    static returns<context> make(const pc_context_options &options = context_options())
    {
        return detail::make<context>(pc_context_new, &options);
    }
    returns<costs> get_costs() const { return detail::fill<costs>(pc_costs_get, get()); }
    returns<> calibrate(const pc_calibrate_options &options = calibrate_options()) const
    {
        return detail::call(pc_calibrate, get(), &options);
    }
};

namespace detail {

/* clang-format off */
#define PROMPTCACHE_MODEL_OPS_(X) \
    X(describe) X(tokenize) X(detokenize) X(encode) X(release) X(size) X(sequence_new) X(attach) \
    X(fork) X(step) X(drop) X(deviation) X(truncate) X(export_segment) X(import_segment) \
    X(step_hidden) X(export_layer) X(import_layer)
/* clang-format on */
/* Of each function of pc_model_ops: whether T has a function of its name, or several of which one
 * takes its arguments; and what calls it. An exception becomes a status and does not go on: the
 * library may call again, on any of its threads. */
#define PROMPTCACHE_MODEL_OP_(name)                                                              \
    template <class T, class = void> inline constexpr bool only_##name = false;                  \
    template <class T>                                                                           \
    inline constexpr bool only_##name<T, std::void_t<decltype(&T::name)>> =                      \
        !std::is_member_object_pointer_v<decltype(&T::name)>;                                    \
    template <class T, class Function, class = void> inline constexpr bool takes_##name = false; \
    template <class T, class R, class... A>                                                      \
    inline constexpr bool takes_##name<                                                          \
        T, R (*)(void *, A...),                                                                  \
        std::void_t<decltype(std::declval<T &>().name(std::declval<A>()...))>> = true;           \
    template <class T, class R, class... A>                                                      \
    auto call_##name(R (*)(void *, A...)) noexcept->R (*)(void *, A...)                          \
    {                                                                                            \
        return [](void *user, A... arguments) noexcept -> R {                                    \
            if constexpr (std::is_void_v<R>)                                                     \
                static_cast<T *>(user)->name(arguments...);                                      \
            else                                                                                 \
                return run<false>(                                                               \
                    [&]() -> R { return static_cast<T *>(user)->name(arguments...); });          \
        };                                                                                       \
    }                                                                                            \
    template <class T> void set_##name(pc_model_ops &ops) noexcept                               \
    {                                                                                            \
        if constexpr (only_##name<T> || takes_##name<T, decltype(ops.name)>)                     \
            ops.name = call_##name<T>(ops.name);                                                 \
    }
PROMPTCACHE_MODEL_OPS_(PROMPTCACHE_MODEL_OP_)
#undef PROMPTCACHE_MODEL_OP_

/* on_free cannot say that it failed: an exception ends the program, as of a destructor. */
template <class T>
auto on_free_of(int)
    -> decltype(std::declval<T &>().on_free(), static_cast<void (*)(void *)>(nullptr))
{
    return [](void *user) noexcept { static_cast<T *>(user)->on_free(); };
}
template <class T> void (*on_free_of(long))(void *) { return nullptr; }

} // namespace detail

/* The functions of pc_model_ops by the members of T that have their names. They have the arguments
 * of C without `user`. What T lacks stays NULL. */
template <class T> model_ops model_ops_of(std::uint64_t flags = 0) noexcept
{
    model_ops ops;
    ops.flags = flags;
#define PROMPTCACHE_MODEL_OP_(name) detail::set_##name<T>(ops);
    PROMPTCACHE_MODEL_OPS_(PROMPTCACHE_MODEL_OP_)
#undef PROMPTCACHE_MODEL_OP_
    return ops;
}
#undef PROMPTCACHE_MODEL_OPS_

class model : public detail::handle<pc_model, pc_model_free> {
  public:
    using handle::handle;
    static returns<model> load(const context &in, c_string path,
                               const pc_model_options &options = model_options())
    {
        return detail::make<model>(pc_model_load, in.get(), path.get(), &options);
    }
    static returns<model> from_ops(const context &in, const pc_model_ops &ops, void *user,
                                   void (*on_free)(void *user) = nullptr,
                                   const pc_model_options &options = model_options())
    {
        return detail::make<model>(pc_model_from_ops, in.get(), &ops, user, on_free, &options);
    }
    /* A model of the application: an object with the functions of model_ops_of. It must live until
     * the library calls its function on_free(), if it has one, or until nothing uses the model. */
    template <class T>
    static returns<model> from_object(const context &in, T &own, std::uint64_t flags = 0,
                                      const pc_model_options &options = model_options())
    {
        return from_ops(in, model_ops_of<T>(flags), &own, detail::on_free_of<T>(0), options);
    }
    returns<model_info> get_info() const
    {
        return detail::fill<model_info>(pc_model_get_info, get());
    }
    returns<std::vector<std::int32_t>> tokenize(std::string_view text,
                                                std::uint64_t flags = 0) const
    {
        return detail::list<std::vector<std::int32_t>>(pc_tokenize, get(), detail::chars(text),
                                                       text.size(), flags);
    }
    /* Into memory of the caller; gives the number of tokens. */
    returns<std::size_t> tokenize(std::string_view text, span<std::int32_t> tokens,
                                  std::uint64_t flags = 0) const
    {
        return detail::fill<std::size_t>(pc_tokenize, get(), detail::chars(text), text.size(),
                                         flags, tokens.data(), tokens.size());
    }
    returns<std::string> detokenize(span<const std::int32_t> tokens, std::uint64_t flags = 0) const
    {
        return detail::list<std::string>(pc_detokenize, get(), tokens.data(), tokens.size(), flags);
    }
    returns<std::string> chat_format(span<const pc_message> messages,
                                     const pc_chat_options &options = chat_options()) const
    {
        return detail::list<std::string>(pc_chat_format, get(), messages.data(), sizeof(pc_message),
                                         messages.size(), &options);
    }
};

/* The fingerprint of an own model: a digest of its files. */
inline returns<digest> fingerprint_files(span<const char *const> paths)
{
    digest out = {};
    return detail::call_for(
        [&] {
            return pc_fingerprint_files(out.data(), paths.data(), paths.size(), nullptr, nullptr);
        },
        [&](pc_status) { return out; });
}
/* The same; function as of model_options. */
template <class F> returns<digest> fingerprint_files(span<const char *const> paths, F &function)
{
    digest out = {};
    return detail::call_for(
        [&] {
            return pc_fingerprint_files(out.data(), paths.data(), paths.size(), detail::progress<F>,
                                        detail::user_of(function));
        },
        [&](pc_status) { return out; });
}

/* What a model's file is, before it is loaded. */
class model_file : public detail::handle<pc_model_file, pc_model_file_free> {
  public:
    using handle::handle;
    static returns<model_file> open(const context &in, c_string path,
                                    const pc_model_options &options = model_options())
    {
        return detail::make<model_file>(pc_model_file_open, in.get(), path.get(), &options);
    }
    returns<model_file_info> get_info() const
    {
        return detail::fill<model_file_info>(pc_model_file_get_info, get());
    }
    /* Its vocabulary; lives as long as this. */
    borrowed<promptcache::model> model() const noexcept
    {
        return borrowed<promptcache::model>(const_cast<pc_model *>(pc_model_file_model(get())));
    }
    std::size_t type_count() const noexcept { return pc_model_file_type_count(get()); }
    returns<model_file_type> get_type(std::size_t index) const
    {
        return detail::fill<model_file_type>(pc_model_file_get_type, get(), index);
    }
};

/* ---- Segments and the cache */

class segment : public detail::handle<pc_segment, pc_segment_free> {
  public:
    using handle::handle;
    /* Around memory of the application. function(), noexcept, is called when the last reference is
     * gone, on any thread; it must live until then. */
    template <class F>
    static returns<segment> wrap(const context &in, const pc_raw &states, F &function)
    {
        static_assert(std::is_nothrow_invocable_v<F &>, "any thread calls it: it must be noexcept");
        return detail::make<segment>([&](pc_segment **out) {
            return pc_segment_wrap(
                out, in.get(), &states, [](void *user) { detail::function_of<F>(user)(); },
                detail::user_of(function));
        });
    }
    /* Its memory, borrowed from it. */
    returns<promptcache::raw> raw() const
    {
        return detail::fill<promptcache::raw>(pc_segment_raw, get());
    }
    span<const std::int32_t> tokens() const noexcept
    {
        std::size_t count = 0;
        const std::int32_t *first = pc_segment_tokens(get(), &count);
        return {first, count};
    }
    /* k and v [kv_head][token][head_dim] of one layer: of the size that the model has, or empty. */
    returns<> read(std::int32_t layer, std::int64_t start, span<float> k, span<float> v) const
    {
        return detail::call(pc_segment_read, get(), layer, start, k.empty() ? nullptr : k.data(),
                            v.empty() ? nullptr : v.data());
    }
    /* This segment at a position of a sequence; it must live as long as the span is used. */
    pc_span at(std::int64_t start, std::uint32_t lo = 0, std::uint32_t hi = 0) const noexcept
    {
        return pc_span{get(), start, lo, hi};
    }
};

/* The digest of everything but tokens that decides K and V. */
inline returns<digest> key_base(const pc_key_parts &parts)
{
    digest out = {};
    return detail::call_for([&] { return pc_key_base(out.data(), &parts); },
                            [&](pc_status) { return out; });
}
inline returns<digest> key_segment(const pc_key_segment_args &args)
{
    digest out = {};
    return detail::call_for([&] { return pc_key_segment(out.data(), &args); },
                            [&](pc_status) { return out; });
}

/* Loads of many entries: cache::get_many. */
class load : public detail::handle<pc_load, pc_load_free> {
  public:
    using handle::handle;
    returns<pc_status> wait(double seconds) const
    {
        return detail::call_status(pc_load_wait, get(), seconds);
    }
    returns<pc_status> poll(std::size_t *done = nullptr) const
    {
        return detail::call_status(pc_load_poll, get(), done);
    }
    /* out and info may be NULL. */
    returns<pc_status> result(std::size_t index, segment *out, pc_get_info *info = nullptr) const
    {
        return detail::call_status([&] {
            pc_segment *got = nullptr;
            const pc_status status = pc_load_result(get(), index, out ? &got : nullptr, info);
            if (out)
                out->reset(got);
            return status;
        });
    }
};

class cache : public detail::handle<pc_cache, pc_cache_free> {
  public:
    using handle::handle;
    static returns<cache> make(const context &in, const pc_cache_options &options = cache_options())
    {
        return detail::make<cache>(pc_cache_new, in.get(), &options);
    }
    returns<pc_status> flush() const { return detail::call_status(pc_cache_flush, get()); }
    returns<cache_stats> get_stats() const
    {
        return detail::fill<cache_stats>(pc_cache_get_stats, get());
    }
    returns<tier_stats> get_tier_stats(std::uint32_t tier) const
    {
        return detail::fill<tier_stats>(pc_cache_get_tier_stats, get(), tier);
    }
    returns<std::string> prometheus(
        const pc_prometheus_options &options = prometheus_options()) const
    {
        return detail::list<std::string>([&](char *text, std::size_t capacity, std::size_t *size) {
            return pc_cache_prometheus(get(), text, capacity, size, &options);
        });
    }
    returns<> clear() const { return detail::call(pc_cache_clear, get()); }
    returns<pc_status> trim(std::uint64_t bytes, std::uint64_t *freed = nullptr) const
    {
        return detail::call_status(pc_cache_trim, get(), bytes, freed);
    }
    returns<> set_quota(std::uint32_t tier, std::string_view salt, std::uint64_t bytes) const
    {
        return detail::call(pc_cache_set_quota, get(), tier, detail::salt_of(salt), salt.size(),
                            bytes);
    }
    returns<pc_status> pin(key_ref key, std::uint64_t owner, double seconds = 0) const
    {
        return detail::call_status(pc_cache_pin, get(), key.get(), owner, seconds);
    }
    returns<pc_status> unpin(key_ref key, std::uint64_t owner) const
    {
        return detail::call_status(pc_cache_unpin, get(), key.get(), owner);
    }
    returns<> unpin_owner(std::uint64_t owner) const
    {
        return detail::call(pc_cache_unpin_owner, get(), owner);
    }
    returns<pc_status> put(key_ref key, const segment &stored,
                           const pc_put_options &options = put_options()) const
    {
        return detail::call_status(pc_cache_put, get(), key.get(), stored.get(), &options);
    }
    returns<pc_status> put_copy(key_ref key, const pc_raw &states,
                                const pc_put_options &options = put_options()) const
    {
        return detail::call_status(pc_cache_put_copy, get(), key.get(), &states, &options);
    }
    /* Empty: a miss, whose reason is in *info. */
    returns<segment> get_segment(key_ref key, const pc_raw &expect,
                                 const pc_get_options &options = get_options(),
                                 pc_get_info *info = nullptr) const
    {
        return detail::make<segment>(pc_cache_get, get(), key.get(), &expect, &options, info);
    }
    /* How many of the keys, from the first on, are in some tier. tiers: empty, or one of each. */
    returns<std::size_t> find(span<const digest> keys, span<std::uint32_t> tiers = {},
                              const pc_find_options &options = find_options()) const
    {
        if (!tiers.empty() && tiers.size() < keys.size())
            return detail::fail<std::size_t>(PC_ERR_LIMIT, "find: fewer tiers than keys");
        std::size_t found = 0;
        return detail::call_for(
            [&] {
                return pc_cache_find(get(), bytes_of(keys), keys.size(), &found,
                                     tiers.empty() ? nullptr : tiers.data(), &options);
            },
            [&](pc_status) { return found; });
    }
    returns<load> get_many(const pc_raw &expect, span<const pc_get_entry> wanted,
                           const pc_get_options &options = get_options()) const
    {
        return detail::make<load>(pc_cache_get_many, get(), &expect, wanted.data(),
                                  sizeof(pc_get_entry), wanted.size(), &options);
    }
    /* How many loads have begun. */
    returns<std::size_t> prefetch(const pc_raw &expect, span<const pc_get_entry> wanted,
                                  const pc_get_options &options = get_options()) const
    {
        return detail::fill<std::size_t>(pc_cache_prefetch, get(), &expect, wanted.data(),
                                         sizeof(pc_get_entry), wanted.size(), &options);
    }
    /* How many of the keys some tier had. */
    returns<std::size_t> remove(span<const digest> keys,
                                const pc_remove_options &options = remove_options()) const
    {
        std::size_t removed = 0;
        return detail::call_for(
            [&] { return pc_cache_remove(get(), bytes_of(keys), keys.size(), &removed, &options); },
            [&](pc_status) { return removed; });
    }

  private:
    static const std::uint8_t *bytes_of(span<const digest> keys) noexcept
    {
        static_assert(sizeof(digest) == 32, "keys stand one behind the other");
        return keys.empty() ? nullptr : keys.data()->data();
    }
};

/* ---- Schemas and prompts */

class schema_builder : public detail::handle<pc_schema_builder, pc_schema_builder_free> {
  public:
    using handle::handle;
    static returns<schema_builder> make(const model &of, c_string name,
                                        const pc_schema_options &options = schema_options())
    {
        return detail::make<schema_builder>(pc_schema_builder_new, of.get(), name.get(), &options);
    }
    returns<> add_text(std::string_view text, std::uint64_t flags = 0) const
    {
        return detail::call(pc_schema_builder_add_text, get(), detail::chars(text), text.size(),
                            flags);
    }
    returns<> begin_module(c_string name, std::uint64_t flags = 0) const
    {
        return detail::call(pc_schema_builder_begin_module, get(), name.get(), flags);
    }
    returns<> begin_union(c_string scaffold = nullptr) const
    {
        return detail::call(pc_schema_builder_begin_union, get(), scaffold.get());
    }
    returns<> begin_turn(c_string role) const
    {
        return detail::call(pc_schema_builder_begin_turn, get(), role.get());
    }
    returns<> end() const { return detail::call(pc_schema_builder_end, get()); }
    returns<> add_parameter(c_string name, std::int64_t length,
                            std::string_view scaffold = {}) const
    {
        return detail::call(pc_schema_builder_add_parameter, get(), name.get(), length,
                            scaffold.empty() ? nullptr : scaffold.data(), scaffold.size());
    }
    returns<> add_scaffold(span<const char *const> modules) const
    {
        return detail::call(pc_schema_builder_add_scaffold, get(), modules.data(), modules.size());
    }
};

class schema : public detail::handle<pc_schema, pc_schema_free> {
  public:
    using handle::handle;
    static returns<schema> load(const model &of, c_string path,
                                const pc_schema_options &options = schema_options())
    {
        return detail::make<schema>(pc_schema_load, of.get(), path.get(), &options);
    }
    static returns<schema> parse(const model &of, std::string_view text,
                                 const pc_schema_options &options = schema_options())
    {
        return detail::make<schema>(pc_schema_parse, of.get(), detail::chars(text), text.size(),
                                    &options);
    }
    static returns<schema> from_format(const model &of, const pc_system_format &format)
    {
        return detail::make<schema>(pc_schema_from_format, of.get(), &format);
    }
    static returns<schema> from_builder(const schema_builder &builder)
    {
        return detail::make<schema>(pc_schema_from_builder, builder.get());
    }
    const char *name() const noexcept { return pc_schema_name(get()); }
    std::int64_t length() const noexcept { return pc_schema_length(get()); }
    returns<pc_status> encode(const cache &into,
                              const pc_encode_options &options = encode_options()) const
    {
        return detail::call_status(pc_schema_encode, get(), into.get(), &options);
    }
    /* How many loads have begun. */
    returns<std::uint64_t> prefetch(const cache &into,
                                    const pc_encode_options &options = encode_options()) const
    {
        return detail::fill<std::uint64_t>(pc_schema_prefetch, get(), into.get(), &options);
    }
    std::size_t item_count() const noexcept { return pc_schema_item_count(get()); }
    returns<item> get_item(std::size_t index) const
    {
        return detail::fill<item>(pc_schema_get_item, get(), index);
    }
};

class prompt_builder : public detail::handle<pc_prompt_builder, pc_prompt_builder_free> {
  public:
    using handle::handle;
    static returns<prompt_builder> make(const schema &of)
    {
        return detail::make<prompt_builder>(pc_prompt_builder_new, of.get());
    }
    returns<> use(c_string module) const
    {
        return detail::call(pc_prompt_builder_use, get(), module.get());
    }
    returns<> add_argument(c_string parameter, std::string_view text) const
    {
        return detail::call(pc_prompt_builder_add_argument, get(), parameter.get(),
                            detail::chars(text), text.size());
    }
    returns<> add_text(std::string_view text, std::uint64_t flags = 0) const
    {
        return detail::call(pc_prompt_builder_add_text, get(), detail::chars(text), text.size(),
                            flags);
    }
    returns<> begin_turn(c_string role) const
    {
        return detail::call(pc_prompt_builder_begin_turn, get(), role.get());
    }
    returns<> end() const { return detail::call(pc_prompt_builder_end, get()); }
};

class prompt : public detail::handle<pc_prompt, pc_prompt_free> {
  public:
    using handle::handle;
    static returns<prompt> load(span<pc_schema *const> schemas, c_string path,
                                const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_load, schemas.data(), schemas.size(), path.get(),
                                    &options);
    }
    static returns<prompt> load(const schema &of, c_string path,
                                const pc_prompt_options &options = prompt_options())
    {
        pc_schema *const one = of.get();
        return load(span<pc_schema *const>(&one, 1), path, options);
    }
    static returns<prompt> parse(span<pc_schema *const> schemas, std::string_view text,
                                 const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_parse, schemas.data(), schemas.size(),
                                    detail::chars(text), text.size(), &options);
    }
    static returns<prompt> parse(const schema &of, std::string_view text,
                                 const pc_prompt_options &options = prompt_options())
    {
        pc_schema *const one = of.get();
        return parse(span<pc_schema *const>(&one, 1), text, options);
    }
    static returns<prompt> from_tokens(const model &of, span<const std::int32_t> tokens,
                                       const pc_prompt_options &options = prompt_options())
    {
        const std::int32_t none = 0;
        return detail::make<prompt>(pc_prompt_from_tokens, of.get(),
                                    tokens.empty() ? &none : tokens.data(), tokens.size(),
                                    &options);
    }
    static returns<prompt> from_text(const model &of, std::string_view text,
                                     const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_from_text, of.get(), detail::chars(text), text.size(),
                                    &options);
    }
    static returns<prompt> fill(const schema &of, std::string_view text,
                                const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_fill, of.get(), detail::chars(text), text.size(),
                                    &options);
    }
    static returns<prompt> fill_tokens(const schema &of, span<const std::int32_t> tokens,
                                       const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_fill_tokens, of.get(), tokens.data(), tokens.size(),
                                    &options);
    }
    static returns<prompt> from_builder(const prompt_builder &builder,
                                        const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_from_builder, builder.get(), &options);
    }
    static returns<prompt> from_messages(const model &of, span<const pc_message> messages,
                                         const pc_chat_options &options = chat_options())
    {
        return detail::make<prompt>(pc_prompt_from_messages, of.get(), messages.data(),
                                    sizeof(pc_message), messages.size(), &options);
    }
    static returns<prompt> from_spans(const model &of, span<const pc_span> spans,
                                      std::int64_t start, span<const std::int32_t> tokens = {},
                                      const pc_prompt_options &options = prompt_options())
    {
        return detail::make<prompt>(pc_prompt_from_spans, of.get(), spans.data(), sizeof(pc_span),
                                    spans.size(), start, tokens.data(), tokens.size(), &options);
    }
    std::size_t part_count() const noexcept { return pc_prompt_part_count(get()); }
    returns<part> get_part(std::size_t index) const
    {
        return detail::fill<part>(pc_prompt_get_part, get(), index);
    }
};

/* Answers a prompt. */
inline returns<stats> generate(const prompt &of, const cache &with,
                               const pc_generate_options &options = generate_options())
{
    return detail::fill<stats>(pc_generate, of.get(), with.get(), &options);
}
/* The same; statistics are written on failure too, as far as the work came. */
inline returns<> generate(const prompt &of, const cache &with, const pc_generate_options &options,
                          pc_stats &out)
{
    return detail::call(pc_generate, of.get(), with.get(), &options, &out);
}

/* ---- Sequences and batches */

/* States of a sequence as segments in place: sequence::spans. */
struct placed_segments {
    std::vector<segment> segments; /* own what spans name */
    std::vector<pc_span> spans;
};

/* Why a sequence has failed; PC_OK and "" if it has not. */
struct sequence_error {
    pc_status status;
    std::string_view text; /* borrowed until the next push or truncation */
};

class sequence : public detail::handle<pc_sequence, pc_sequence_free> {
  public:
    using handle::handle;
    static returns<sequence> make(const prompt &of, const cache &with,
                                  const pc_generate_options &options = generate_options())
    {
        return detail::make<sequence>(pc_sequence_new, of.get(), with.get(), &options);
    }
    /* Empty: a miss, whose reason (PC_REASON_…) is in *reason. */
    static returns<sequence> load(const model &of, const cache &from, key_ref key,
                                  const pc_generate_options &options = generate_options(),
                                  const pc_save_options &save = save_options(),
                                  std::uint32_t *reason = nullptr)
    {
        return detail::make<sequence>(pc_sequence_load, of.get(), from.get(), key.get(), &options,
                                      &save, reason);
    }
    static returns<pc_status> forget(const model &of, const cache &in, key_ref key,
                                     const pc_save_options &options = save_options())
    {
        return detail::call_status(pc_sequence_forget, of.get(), in.get(), key.get(), &options);
    }
    returns<pc_status> save(const cache &into, key_ref key,
                            const pc_save_options &options = save_options()) const
    {
        return detail::call_status(pc_sequence_save, get(), into.get(), key.get(), &options);
    }
    returns<sequence> fork(const pc_fork_options &options = fork_options()) const
    {
        return detail::make<sequence>(pc_sequence_fork, get(), &options);
    }
    returns<> set_options(const pc_generate_options &options) const
    {
        return detail::call(pc_sequence_set_options, get(), &options);
    }
    /* Any thread, at any time, as long as nobody frees or moves from the handle meanwhile. */
    returns<> cancel() const { return detail::call(pc_sequence_cancel, get()); }
    /* Borrowed until the next step or change. */
    span<const std::int32_t> tokens() const noexcept
    {
        std::size_t count = 0;
        const std::int32_t *first = pc_sequence_tokens(get(), &count);
        return {first, count};
    }
    std::string_view text() const noexcept
    {
        std::size_t size = 0;
        const char *first = pc_sequence_text(get(), &size);
        return first ? std::string_view(first, size) : std::string_view();
    }
    /* Empty: there are none. */
    span<const float> logits() const noexcept
    {
        std::size_t count = 0;
        const float *first = pc_sequence_logits(get(), &count);
        return first ? span<const float>(first, count) : span<const float>();
    }
    /* PC_FINISH_…; PC_FINISH_NONE while it runs */
    std::uint32_t finish() const noexcept { return pc_sequence_finish(get()); }
    sequence_error error() const noexcept
    {
        const char *text = "";
        const pc_status status = pc_sequence_error(get(), &text);
        return {status, text};
    }
    returns<stats> get_stats() const { return detail::fill<stats>(pc_sequence_get_stats, get()); }
    returns<> push(span<const std::int32_t> tokens = {}) const
    {
        return detail::call(pc_sequence_push, get(), tokens.data(), tokens.size());
    }
    returns<> push_messages(span<const pc_message> messages,
                            const pc_chat_options &options = chat_options()) const
    {
        return detail::call(pc_sequence_push_messages, get(), messages.data(), sizeof(pc_message),
                            messages.size(), &options);
    }
    returns<> truncate(std::size_t count) const
    {
        return detail::call(pc_sequence_truncate, get(), count);
    }
    returns<placed_segments> spans() const
    {
        placed_segments out;
        std::size_t count = 0;
        return detail::call_for(
            [&] {
                pc_status status = pc_sequence_spans(get(), nullptr, sizeof(pc_span), 0, &count);
                if (status < 0)
                    return status;
                out.segments.reserve(count);
                out.spans.resize(count);
                status = pc_sequence_spans(get(), out.spans.data(), sizeof(pc_span), count, &count);
                for (const pc_span &span : out.spans)
                    if (status >= 0)
                        out.segments.emplace_back(static_cast<pc_segment *>(span.segment));
                return status;
            },
            [&](pc_status) { return std::move(out); });
    }
};

class batch : public detail::handle<pc_batch, pc_batch_free> {
  public:
    using handle::handle;
    static returns<batch> make(const model &of, const pc_batch_options &options = batch_options())
    {
        return detail::make<batch>(pc_batch_new, of.get(), &options);
    }
    returns<> add(const sequence &member) const
    {
        return detail::call(pc_batch_add, get(), member.get());
    }
    returns<> remove(const sequence &member) const
    {
        return detail::call(pc_batch_remove, get(), member.get());
    }
    returns<batch_stats> get_stats() const
    {
        return detail::fill<batch_stats>(pc_batch_get_stats, get());
    }
    /* One token for every unfinished sequence. PC_END: all are finished. */
    returns<pc_status> step() const { return detail::call_status(pc_batch_step, get()); }
    /* The sequences that got a token or finished in the last step. Borrowed until the next one. */
    span<pc_sequence *const> changed() const noexcept
    {
        std::size_t count = 0;
        pc_sequence *const *first = pc_batch_changed(get(), &count);
        return {first, count};
    }
};

/* ---- One pass, embeddings, memos */

namespace detail {

/* Pointers that the library fills, and the handles that get them. */
class segment_room {
  public:
    explicit segment_room(std::vector<segment> *out, std::size_t count) : out_(out)
    {
        if (out) {
            out->clear();
            out->reserve(count);
            pointers_.resize(count);
        }
    }
    segment_room(const segment_room &) = delete;
    ~segment_room() /* what nobody took, since an exception has passed */
    {
        for (pc_segment *pointer : pointers_)
            pc_segment_free(pointer);
    }
    pc_segment **get() noexcept { return out_ ? pointers_.data() : nullptr; }
    void take() noexcept
    {
        for (pc_segment *&pointer : pointers_) /* reserved: it does not throw */
            out_->emplace_back(std::exchange(pointer, nullptr));
    }

  private:
    std::vector<segment> *out_;
    std::vector<pc_segment *> pointers_;
};

} // namespace detail

/* One sequence of an evaluation. */
inline pc_lane lane(kept<span<const pc_span>> spans, kept<span<const std::int32_t>> tokens,
                    kept<span<const std::int64_t>> positions) noexcept
{
    pc_lane out = {};
    out.spans = spans.data();
    out.span_stride = sizeof(pc_span);
    out.span_count = spans.size();
    out.tokens = tokens.data();
    out.positions = positions.data();
    out.count = tokens.size() < positions.size() ? tokens.size() : positions.size();
    return out;
}

struct eval_args : sized<pc_eval_args> {
    eval_args &set_lanes(kept<span<const pc_lane>> list) noexcept
    {
        lanes = list.data();
        lane_stride = sizeof(pc_lane);
        lane_count = list.size();
        return *this;
    }
    /* [all tokens of all lanes][vocab], which eval checks. */
    eval_args &set_logits(kept<span<float>> out) noexcept
    {
        logits = out.data();
        logits_.set(out.data(), out.size());
        return *this;
    }
    const detail::checked_array &checked_logits() const noexcept { return logits_; }

  private:
    detail::checked_array logits_;
};

/* One forward pass over several lanes. segments: gets the new tokens' states, one of each lane;
 * NULL: they are not wanted. */
inline returns<> eval(const model &of, const eval_args &args,
                      std::vector<segment> *segments = nullptr)
{
    model_info info;
    std::size_t tokens = 0;
    const bool known = args.logits && args.lanes && args.lane_stride >= offsetof(pc_lane, types);
    for (std::size_t i = 0; known && i < args.lane_count; i++) {
        pc_lane lane = {};
        std::memcpy(&lane, reinterpret_cast<const char *>(args.lanes) + i * args.lane_stride,
                    args.lane_stride < sizeof lane ? args.lane_stride : sizeof lane);
        tokens += lane.count;
    }
    detail::segment_room room(segments, args.lane_count);
    pc_eval_args given = args;
    if (segments)
        given.segments = room.get();
    if (pc_model_get_info(of.get(), &info) == PC_OK
        && !args.checked_logits().has(args.logits, tokens * static_cast<std::size_t>(info.vocab)))
        return detail::fail(PC_ERR_LIMIT, "eval: logits has no room for all tokens");
    return detail::call_for([&] { return pc_eval(of.get(), &given); },
                            [&](pc_status) { room.take(); });
}

/* Embeds prompts of one model: embeddings [prompts][model_info.hidden]. out may be NULL. */
inline returns<> embed(const model &of, span<pc_prompt *const> prompts, const cache &with,
                       span<float> embeddings, const pc_embed_options &options = embed_options(),
                       pc_embed_stats *out = nullptr)
{
    model_info info;
    if (pc_model_get_info(of.get(), &info) != PC_OK)
        return detail::fail(PC_ERR_INVALID, "embed: model is NULL");
    if (embeddings.size() < prompts.size() * static_cast<std::size_t>(info.hidden))
        return detail::fail(PC_ERR_LIMIT, "embed: no room for the embeddings of all prompts");
    return detail::call(pc_embed, prompts.data(), prompts.size(), with.get(), &options,
                        embeddings.data(), out);
}

class memo : public detail::handle<pc_memo, pc_memo_free> {
  public:
    using handle::handle;
    /* Empty: another process is adding to it (PC_AGAIN). */
    static returns<memo> open(const model &of, c_string folder,
                              const pc_memo_options &options = memo_options())
    {
        return detail::make<memo>(pc_memo_open, of.get(), folder.get(), &options);
    }
    returns<> add(span<const pc_input> inputs, const pc_memo_work &work = memo_work()) const
    {
        return detail::call(pc_memo_add, get(), inputs.data(), sizeof(pc_input), inputs.size(),
                            &work);
    }
    returns<> train(const pc_memo_work &work = memo_work()) const
    {
        return detail::call(pc_memo_train, get(), &work);
    }
    returns<> tune(span<const pc_input> inputs, const pc_memo_work &work) const
    {
        return detail::call(pc_memo_tune, get(), inputs.data(), sizeof(pc_input), inputs.size(),
                            &work);
    }
    returns<> tidy() const { return detail::call(pc_memo_tidy, get()); }
    std::size_t bucket_count() const noexcept { return pc_memo_bucket_count(get()); }
    returns<memo_bucket> get_bucket(std::size_t index) const
    {
        return detail::fill<memo_bucket>(pc_memo_get_bucket, get(), index);
    }
    returns<> set_threshold(std::size_t index, double threshold,
                            std::uint32_t loss = PC_LOSS_COSINE, double hit_limit = 0,
                            const pc_memo_bucket *measured = nullptr) const
    {
        return detail::call(pc_memo_set_threshold, get(), index, threshold, loss, hit_limit,
                            measured);
    }
    returns<memo_stats> get_stats() const
    {
        return detail::fill<memo_stats>(pc_memo_get_stats, get());
    }
};

/* Spans that set_ functions were given are checked by prefill. */
struct prefill_options : with_cancelled<prefill_options, sized<pc_prefill_options>> {
    prefill_options &set_embeddings(kept<span<float>> out) noexcept
    {
        embeddings = out.data();
        embeddings_.set(out.data(), out.size());
        return *this;
    }
    prefill_options &set_logits(kept<span<float>> out) noexcept
    {
        logits = out.data();
        logits_.set(out.data(), out.size());
        return *this;
    }
    prefill_options &set_results(kept<span<pc_memo_result>> out) noexcept
    {
        results = out.data();
        result_stride = sizeof(pc_memo_result);
        results_.set(out.data(), out.size());
        return *this;
    }
    prefill_options &set_map_layers(kept<span<const std::int32_t>> layers) noexcept
    {
        map_layers = layers.data();
        map_layers_.set(layers.data(), layers.size());
        return *this;
    }
    /* NULL, or what is too short for so many inputs of this model. */
    const char *too_short(const pc_model_info &info, std::size_t inputs) const noexcept
    {
        const auto wide = [](std::int32_t width) { return static_cast<std::size_t>(width); };
        const std::size_t classes = info.bidirectional ? info.classes : wide(info.vocab);
        if (!embeddings_.has(embeddings, inputs * wide(info.hidden)))
            return "prefill: embeddings has no room for all inputs";
        if (!logits_.has(logits, inputs * classes))
            return "prefill: logits has no room for all inputs";
        if (!results_.has(results, inputs))
            return "prefill: results has no room for all inputs";
        return map_layers_.has(map_layers, wide(info.layers))
                   ? nullptr
                   : "prefill: map_layers has fewer layers than the model";
    }

  private:
    detail::checked_array embeddings_, logits_, results_, map_layers_;
};

/* Prompts that need no answer. out and segments may be NULL. */
inline returns<> prefill(const model &of, span<const pc_input> inputs,
                         const prefill_options &options, pc_prefill_stats *out = nullptr,
                         std::vector<segment> *segments = nullptr)
{
    model_info info;
    if (pc_model_get_info(of.get(), &info) == PC_OK)
        if (const char *fault = options.too_short(info, inputs.size()))
            return detail::fail(PC_ERR_LIMIT, fault);
    detail::segment_room room(segments, inputs.size());
    pc_prefill_options given = options;
    if (segments)
        given.segments = room.get();
    return detail::call_for(
        [&] {
            return pc_prefill(of.get(), inputs.data(), sizeof(pc_input), inputs.size(), &given,
                              out);
        },
        [&](pc_status) { room.take(); });
}

/* ---- Attention by hand */

inline std::size_t pages_bytes(const pc_attend_shape &shape, std::size_t tokens) noexcept
{
    return pc_pages_bytes(&shape, tokens);
}
inline returns<> pages_write(const pc_pages_args &args)
{
    return detail::call(pc_pages_write, &args);
}
inline returns<> pages_read(const pc_pages_args &args)
{
    return detail::call(pc_pages_read, &args);
}
inline returns<> merge(const pc_merge_args &args) { return detail::call(pc_merge, &args); }

/* Spans that set_ functions were given are checked by plan::make. */
struct plan_args : sized<pc_plan_args> {
    plan_args &set_runs(kept<span<const pc_run>> list) noexcept
    {
        runs = list.data();
        run_stride = sizeof(pc_run);
        run_count = list.size();
        return *this;
    }
    plan_args &set_dtypes(kept<span<const std::uint32_t>> list) noexcept
    {
        dtypes = list.data();
        dtypes_.set(list.data(), list.size());
        return *this;
    }
    /* Row r, at its position, holds span first_span[r] to span first_span[r + 1] - 1. */
    plan_args &set_rows(kept<span<const std::int64_t>> at,
                        kept<span<const std::uint32_t>> first_span,
                        kept<span<const pc_row_span>> list) noexcept
    {
        positions = at.data();
        row_count = at.size();
        first = first_span.data();
        first_.set(first_span.data(), first_span.size());
        spans = list.data();
        span_stride = sizeof(pc_row_span);
        spans_.set(list.data(), list.size());
        return *this;
    }
    /* NULL, or what is too short. */
    const char *too_short() const noexcept
    {
        if (!first_.has(first, row_count + 1))
            return "plan: first has fewer numbers than rows + 1";
        if (first && !spans_.has(spans, first[row_count]))
            return "plan: fewer spans than the last number of first";
        return dtypes_.has(dtypes, run_count) ? nullptr : "plan: fewer dtypes than runs";
    }

  private:
    detail::checked_array dtypes_, first_, spans_;
};

/* plan::attend checks spans of set_ functions. Memory of a device goes into the fields of C. */
struct attend_args : sized<pc_attend_args> {
    attend_args &set_pages(kept<span<const void *const>> of_each_run) noexcept
    {
        pages = of_each_run.data();
        pages_.set(of_each_run.data(), of_each_run.size());
        return *this;
    }
    attend_args &set_q(kept<span<const float>> queries) noexcept
    {
        q = queries.data();
        q_dtype = PC_DTYPE_F32;
        q_.set(queries.data(), queries.size());
        return *this;
    }
    /* dtype: PC_DTYPE_BF16 or PC_DTYPE_F16 */
    attend_args &set_q(kept<span<const std::uint16_t>> queries, std::uint32_t dtype) noexcept
    {
        q = queries.data();
        q_dtype = dtype;
        q_.set(queries.data(), queries.size());
        return *this;
    }
    attend_args &set_out(kept<span<float>> values) noexcept
    {
        out = values.data();
        out_dtype = PC_DTYPE_F32;
        out_.set(values.data(), values.size());
        return *this;
    }
    attend_args &set_out(kept<span<std::uint16_t>> values, std::uint32_t dtype) noexcept
    {
        out = values.data();
        out_dtype = dtype;
        out_.set(values.data(), values.size());
        return *this;
    }
    attend_args &set_lse(kept<span<float>> values) noexcept
    {
        lse = values.data();
        lse_.set(values.data(), values.size());
        return *this;
    }
    attend_args &set_slopes(kept<span<const float>> of_each_head) noexcept
    {
        slopes = of_each_head.data();
        slopes_.set(of_each_head.data(), of_each_head.size());
        return *this;
    }
    attend_args &set_sinks(kept<span<const float>> of_each_head) noexcept
    {
        sinks = of_each_head.data();
        sinks_.set(of_each_head.data(), of_each_head.size());
        return *this;
    }
    /* NULL, or what is too short. */
    const char *too_short(const pc_attend_shape &shape, std::size_t runs,
                          std::size_t rows) const noexcept
    {
        const auto heads = static_cast<std::size_t>(shape.heads);
        if (!pages_.has(pages, runs))
            return "attend: fewer pages than the plan has runs";
        if (!q_.has(q, rows * heads * static_cast<std::size_t>(shape.k_dim)))
            return "attend: q has fewer numbers than rows * heads * k_dim";
        if (!out_.has(out, rows * heads * static_cast<std::size_t>(shape.v_dim)))
            return "attend: out has fewer numbers than rows * heads * v_dim";
        if (!lse_.has(lse, rows * heads))
            return "attend: lse has fewer numbers than rows * heads";
        if (!slopes_.has(slopes, heads))
            return "attend: fewer slopes than heads";
        return sinks_.has(sinks, heads) ? nullptr : "attend: fewer sinks than heads";
    }

  private:
    detail::checked_array pages_, q_, out_, lse_, slopes_, sinks_;
};

class plan : public detail::handle<pc_plan, pc_plan_free> {
  public:
    using handle::handle;
    static returns<plan> make(const context &in, const plan_args &args)
    {
        if (const char *fault = args.too_short())
            return detail::fail<plan>(PC_ERR_LIMIT, fault);
        plan made;
        return detail::call_for(
            [&] {
                pc_plan *out = nullptr;
                const pc_status status = pc_plan_new(&out, in.get(), &args);
                made.reset(out);
                return status;
            },
            [&](pc_status) {
                made.shape_ = *args.shape;
                made.runs_ = args.run_count;
                made.rows_ = args.row_count;
                return std::move(made);
            });
    }
    returns<> attend(const attend_args &args) const
    {
        if (const char *fault = args.too_short(shape_, runs_, rows_))
            return detail::fail(PC_ERR_LIMIT, fault);
        return detail::call(pc_attend, get(), &args);
    }
    friend returns<class task> attend_async(const plan &, const attend_args &);

  private:
    pc_attend_shape shape_ = {};
    std::size_t runs_ = 0, rows_ = 0;
};

/* ---- Administration */

/* System prompts by name. */
class systems : public detail::handle<pc_systems, pc_systems_free> {
  public:
    using handle::handle;
    static returns<systems> make(const model &of, const cache &with,
                                 const pc_systems_options &options = systems_options())
    {
        return detail::make<systems>(pc_systems_new, of.get(), with.get(), &options);
    }
    returns<pc_status> fill(c_string name, std::string_view text) const
    {
        return detail::call_status(pc_systems_fill, get(), name.get(), detail::chars(text),
                                   text.size());
    }
    returns<pc_status> fill_tokens(c_string name, span<const std::int32_t> tokens) const
    {
        return detail::call_status(pc_systems_fill_tokens, get(), name.get(), tokens.data(),
                                   tokens.size());
    }
    returns<pc_status> fill_schema(c_string name, const schema &with) const
    {
        return detail::call_status(pc_systems_fill_schema, get(), name.get(), with.get());
    }
    returns<> drop(c_string name) const { return detail::call(pc_systems_drop, get(), name.get()); }
    returns<> clear() const { return detail::call(pc_systems_clear, get()); }
    returns<schema> find(c_string name) const
    {
        return detail::make<schema>(pc_systems_find, get(), name.get());
    }
    std::size_t count() const noexcept { return pc_systems_count(get()); }
    returns<system_info> get_system(std::size_t index) const
    {
        return detail::fill<system_info>(pc_systems_get, get(), index);
    }
};

/* The records of a DISK folder. */
class folder : public detail::handle<pc_folder, pc_folder_free> {
  public:
    using handle::handle;
    static returns<folder> open(const context &in, c_string path,
                                const pc_folder_options &options = folder_options())
    {
        return detail::make<folder>(pc_folder_open, in.get(), path.get(), &options);
    }
    std::size_t count() const noexcept { return pc_folder_count(get()); }
    /* Some of `out` is set on failure, too. */
    returns<> get_record(std::size_t index, pc_record_info &out) const
    {
        return detail::call(pc_folder_get, get(), index, &out);
    }
    returns<std::vector<std::int32_t>> tokens(std::size_t index) const
    {
        return detail::list<std::vector<std::int32_t>>(pc_folder_tokens, get(), index);
    }
    returns<> verify(std::size_t index) const
    {
        return detail::call(pc_folder_verify, get(), index);
    }
    returns<> remove(std::size_t index) const
    {
        return detail::call(pc_folder_remove, get(), index);
    }
    returns<> trim(std::uint64_t bytes, std::uint64_t *removed = nullptr,
                   std::uint64_t *freed = nullptr) const
    {
        return detail::call(pc_folder_trim, get(), bytes, removed, freed);
    }
};

/* The plug-in module with this index, from 0. PC_ERR_NOT_FOUND beyond the last. */
inline returns<plugin_info> plugin_get(std::size_t index)
{
    return detail::fill<plugin_info>(pc_plugin_get, index);
}
/* Foreign text, fit to be shown. */
inline std::string text_show(std::string_view text)
{
    std::string out(text.size() * 8 + 1, '\0');
    out.resize(pc_text_show(detail::chars(text), text.size(), &out[0], out.size()));
    return out;
}
/* Says why a function of the application fails, right before it returns an error. */
inline void error_set(c_string text) noexcept { pc_error_set(text.get()); }

} // namespace PROMPTCACHE_KIND_
} // namespace promptcache

#endif /* PROMPTCACHE_HPP */
