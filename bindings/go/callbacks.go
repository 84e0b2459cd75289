package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"promptcache/internal/numbers"
)

// callbacks are the functions of one option struct. C gets their number, not a pointer: a late
// call, of a thread that had begun it before the object was freed, finds nothing and does nothing.
//
// Functions that a call waits for (text, logits, token, progress) run on its goroutine. Their
// panics are caught before C and go on when the call returns. The others run on any thread of the
// library: a panic there ends the program, as it does on any goroutine that nobody watches.
type callbacks struct {
	id       uintptr
	users    int32           // objects that have them; forks of a sequence share them
	ctx      context.Context // ends work with progress; may be nil
	sequence bool            // of a sequence: panics wait in the domain of the call
	fault    fault           // where panics of others wait, and errors
	log      func(level LogLevel, line string)
	progress func(what string, done, total uint64) error
	event    func(event Event)
	bytes    func(tier Tier, bytes, budget uint64)
	disabled func(bucket int, loss, limit float64)
	text     func(sample int, text string) error
	logits   func(sample int, logits []float32) error
	token    func(token Token) error
}

// fault is what callbacks have done that the call must tell when it returns.
type fault struct {
	mu       sync.Mutex
	panicked bool
	value    any
	err      error
	told     []told // of a sequence and its forks
}

// told is the last error that a function of one sample has returned.
type told struct {
	sample int
	err    error
	text   string // as the library keeps it
}

func newCallbacks() *callbacks {
	c := &callbacks{users: 1}
	c.id = numbers.Add(c)
	return c
}

func (c *callbacks) share() *callbacks {
	if c != nil {
		atomic.AddInt32(&c.users, 1)
	}
	return c
}

func (c *callbacks) drop() {
	if c == nil || atomic.AddInt32(&c.users, -1) > 0 {
		return
	}
	numbers.Remove(c.id)
}

func find(id C.uintptr_t) *callbacks {
	c, _ := numbers.Get(uintptr(id)).(*callbacks)
	return c
}

// panics is where a panic waits for the end of the call. Forks share callbacks, so that it is not
// the sequence but the thread that tells which call is meant.
func (c *callbacks) panics() *fault {
	if c.sequence {
		if d, ok := inside.Load(thread()); ok {
			return &d.(*domain).fault
		}
	}
	return &c.fault
}

func (f *fault) takePanic() (panicked bool, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	panicked, value = f.panicked, f.value
	f.panicked, f.value = false, nil
	return panicked, value
}

// rethrow goes on with a panic of a callback.
func (c *callbacks) rethrow() {
	if panicked, value := c.fault.takePanic(); panicked {
		panic(value)
	}
}

// causeOf finds the error whose text, behind the name of the function, is that of a sequence. The
// library makes texts fit to be shown, and cuts long ones.
func (c *callbacks) causeOf(text string) (cause error) {
	_, text, _ = strings.Cut(text, ": ")
	start := strings.TrimSuffix(text, "...")
	c.fault.mu.Lock()
	defer c.fault.mu.Unlock()
	for _, t := range c.fault.told {
		if t.text == text || (len(start) < len(text) && strings.HasPrefix(t.text, start)) {
			cause = t.err
		}
	}
	return cause
}

// tell remembers the error of a sample for causeOf.
func (f *fault) tell(new told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.told {
		if f.told[i].sample == new.sample {
			f.told = append(f.told[:i], f.told[i+1:]...)
			break
		}
	}
	f.told = append(f.told, new)
}

// takeError gives the error that a callback has ended the call with.
func (c *callbacks) takeError() error {
	c.fault.mu.Lock()
	defer c.fault.mu.Unlock()
	err := c.fault.err
	c.fault.err = nil
	return err
}

// answer runs a function that the call waits for, and says what C returns.
func (c *callbacks) answer(sample C.uint32_t, function func() error) (result C.int32_t) {
	defer func() {
		if value := recover(); value != nil {
			f := c.panics()
			f.mu.Lock()
			f.panicked, f.value = true, value
			f.mu.Unlock()
			result = c.fails(sample, fmt.Errorf("a function of the application panicked: %v", value))
		}
	}()
	err := function()
	if err == nil {
		return 0
	}
	if errors.Is(err, Stop) {
		return 1
	}
	return c.fails(sample, err)
}

// fails says why, and what C returns.
func (c *callbacks) fails(sample C.uint32_t, err error) C.int32_t {
	words := err.Error()
	if words == "" {
		words = fmt.Sprintf("an error without a text (%T)", err)
	}
	text := C.CString(words)
	C.pc_error_set(text)
	C.free(unsafe.Pointer(text))
	if c.sequence {
		c.fault.tell(told{int(sample), err, C.GoString(C.go_kept_text())})
	} else {
		c.fault.mu.Lock()
		c.fault.err = err
		c.fault.mu.Unlock()
	}
	var own *Error
	if errors.As(err, &own) && own.Status < 0 {
		return C.int32_t(own.Status)
	}
	return C.PC_ERR_CANCELLED
}

// unwatched runs a function on a thread of the library.
func unwatched(function func()) {
	defer func() {
		if value := recover(); value != nil {
			go panic(value)
		}
	}()
	function()
}

// known copies a struct that the library gave: an older one has fewer fields.
func known[T any](p *T, size C.size_t) (full T) {
	if most := C.size_t(unsafe.Sizeof(full)); size > most {
		size = most
	}
	C.memcpy(unsafe.Pointer(&full), unsafe.Pointer(p), size)
	return full
}

//export goLog
func goLog(id C.uintptr_t, level C.uint32_t, line *C.char) {
	if c := find(id); c != nil {
		unwatched(func() { c.log(LogLevel(level), C.GoString(line)) })
	}
}

//export goProgress
func goProgress(id C.uintptr_t, what *C.char, done, total C.uint64_t) C.int32_t {
	c := find(id)
	if c == nil {
		return 0
	}
	return c.answer(0, func() error {
		if c.ctx != nil && c.ctx.Err() != nil {
			return cancelled(c.ctx.Err())
		}
		if c.progress != nil {
			return c.progress(C.GoString(what), uint64(done), uint64(total))
		}
		return nil
	})
}

//export goEvent
func goEvent(id C.uintptr_t, event *C.pc_event) {
	if c := find(id); c != nil {
		full := known(event, event.struct_size)
		var told Event
		told.from(&full)
		unwatched(func() { c.event(told) })
	}
}

//export goBytes
func goBytes(id C.uintptr_t, tier C.uint32_t, bytes, budget C.uint64_t) {
	if c := find(id); c != nil {
		unwatched(func() { c.bytes(Tier(tier), uint64(bytes), uint64(budget)) })
	}
}

//export goDisabled
func goDisabled(id C.uintptr_t, bucket C.uint32_t, loss, limit C.double) {
	if c := find(id); c != nil {
		unwatched(func() { c.disabled(int(bucket), float64(loss), float64(limit)) })
	}
}

//export goText
func goText(id C.uintptr_t, sample C.uint32_t, text *C.char, size C.size_t) C.int32_t {
	c := find(id)
	if c == nil {
		return 0
	}
	return c.answer(sample, func() error {
		return c.text(int(sample), C.GoStringN(text, C.int(size)))
	})
}

//export goLogits
func goLogits(id C.uintptr_t, sample C.uint32_t, logits *C.float, count C.size_t) C.int32_t {
	c := find(id)
	if c == nil {
		return 0
	}
	return c.answer(sample, func() error {
		return c.logits(int(sample), unsafe.Slice((*float32)(logits), count))
	})
}

//export goToken
func goToken(id C.uintptr_t, token *C.pc_token) C.int32_t {
	c := find(id)
	if c == nil {
		return 0
	}
	return c.answer(C.uint32_t(token.sample), func() error {
		full := known(token, token.struct_size)
		var told Token
		told.from(&full)
		return c.token(told)
	})
}
