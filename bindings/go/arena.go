package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// Forever is a duration without end, where the headers say INFINITY.
const Forever = time.Duration(math.MaxInt64)

// Key names a segment, a saved sequence, a fingerprint of a model: 32 bytes.
type Key [32]byte

// arena is all that one call needs: memory of C for options, handles that are held, callbacks, and
// the error. No pointer of Go gets into that memory. free gives everything back.
type arena struct {
	blocks    []unsafe.Pointer
	held      []*handle
	callbacks *callbacks
	kept      bool // the callbacks belong to an object now
	stop      func()
	ctx       context.Context
	deadline  bool  // the options have one: what cancels beside ctx and callbacks
	err       error // what is wrong with the arguments
	failure   C.go_error
}

func (a *arena) free() {
	if a.stop != nil {
		a.stop()
	}
	for _, block := range a.blocks {
		C.free(block)
	}
	for _, h := range a.held {
		h.release()
	}
	if !a.kept {
		a.callbacks.drop()
	}
	C.free(unsafe.Pointer(a.failure.text)) // of a call whose callback has panicked
}

// done is the error of a call; nil if it did not fail. A panic of a callback goes on here.
func (a *arena) done(status C.pc_status) error {
	var cause error
	if a.callbacks != nil {
		a.callbacks.rethrow()
		cause = a.callbacks.takeError()
	}
	if status >= 0 {
		return nil
	}
	if cause == nil && Status(status) == ErrCancelled {
		if a.ctx != nil {
			cause = a.ctx.Err()
		}
		if cause == nil && a.deadline {
			cause = context.DeadlineExceeded
		}
	}
	return a.failure.take(status, cause)
}

func (a *arena) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// hold keeps an object from being freed until the call is over. nil: C's NULL.
func (a *arena) hold(h *handle) unsafe.Pointer {
	p, err := h.acquire()
	if err != nil {
		a.fail(err)
		return nil
	}
	a.held = append(a.held, h)
	return p
}

// holdNeeded holds an object that another held one needs: the caller may have closed it.
func (a *arena) holdNeeded(h *handle) unsafe.Pointer {
	h.need()
	a.held = append(a.held, h)
	return h.p
}

// alloc gives zeroed memory of C.
func (a *arena) alloc(size int) unsafe.Pointer {
	if size < 1 {
		size = 1
	}
	p := C.calloc(1, C.size_t(size))
	if p == nil {
		panic("promptcache: out of memory")
	}
	a.blocks = append(a.blocks, p)
	return p
}

// watch gives the number that go_cancelled reads: 1 as soon as ctx is done. NULL: it never is.
func (a *arena) watch(ctx context.Context) *C.int32_t {
	a.ctx = ctx
	if err := ctx.Err(); err != nil {
		a.fail(cancelled(err))
	}
	if ctx.Done() == nil {
		return nil
	}
	flag := (*C.int32_t)(a.alloc(4))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			atomic.StoreInt32((*int32)(flag), 1)
		case <-over:
		}
		close(ended)
	}()
	a.stop = func() {
		close(over)
		<-ended
	}
	return flag
}

func cancelled(cause error) error {
	return &Error{Status: ErrCancelled, Text: "cancelled: " + cause.Error(), cause: cause}
}

// watchProgress lets ctx end work that reports its progress.
func (a *arena) watchProgress(ctx context.Context, progress *C.pc_progress_fn,
	user *unsafe.Pointer) {
	a.ctx = ctx
	if err := ctx.Err(); err != nil {
		a.fail(cancelled(err))
	}
	a.calls().ctx = ctx
	*progress = C.pc_progress_fn(C.go_on_progress)
	a.setUser(user)
}

func (a *arena) calls() *callbacks {
	if a.callbacks == nil {
		a.callbacks = newCallbacks()
	}
	return a.callbacks
}

// keep hands the callbacks to an object that outlives the call.
func (a *arena) keep() *callbacks {
	a.kept = true
	return a.callbacks
}

// setUser writes the number of the callbacks where C has a pointer that it only passes on.
func (a *arena) setUser(user *unsafe.Pointer) {
	*(*uintptr)(unsafe.Pointer(user)) = a.calls().id
}

// name copies a text that ends at a NUL; "" is NULL.
func (a *arena) name(field, text string) *C.char {
	if text == "" {
		return nil
	}
	if strings.IndexByte(text, 0) >= 0 {
		a.fail(errorf(ErrInvalid, "%s: a NUL in %q", field, text))
		return nil
	}
	p := a.alloc(len(text) + 1)
	copy(unsafe.Slice((*byte)(p), len(text)), text)
	return (*C.char)(p)
}

// text copies a text that has its size beside it; never NULL.
func (a *arena) text(text string) *C.char {
	p := a.alloc(len(text))
	copy(unsafe.Slice((*byte)(p), len(text)), text)
	return (*C.char)(p)
}

func (a *arena) texts(field string, list []string) **C.char {
	if len(list) == 0 {
		return nil
	}
	p := (**C.char)(a.alloc(len(list) * int(unsafe.Sizeof(uintptr(0)))))
	for i, text := range list {
		if text == "" {
			a.fail(errorf(ErrInvalid, "%s: text %d is empty", field, i))
		}
		unsafe.Slice(p, len(list))[i] = a.name(field, text)
	}
	return p
}

func (a *arena) bytes(data []byte) unsafe.Pointer {
	if len(data) == 0 {
		return nil
	}
	return copyOf(a, data)
}

func (a *arena) key(key *Key) *C.uint8_t {
	if key == nil {
		return nil
	}
	return (*C.uint8_t)(copyOf(a, key[:]))
}

// fixedText copies a text into an array of a struct, with a NUL behind it.
func (a *arena) fixedText(field string, to []C.char, text string) {
	if len(text) >= len(to) {
		a.fail(errorf(ErrInvalid, "%s: %q has more than %d bytes", field, text, len(to)-1))
		return
	}
	for i := range []byte(text) {
		to[i] = C.char(text[i])
	}
}

// same says that an array must be as long as the one whose count stands for both; none is, too.
func (a *arena) same(field string, count int, first string, its int) {
	if count != 0 && count != its {
		a.fail(errorf(ErrInvalid, "%s has %d elements, %s has %d", field, count, first, its))
	}
}

// blockList copies blocks of states.
func (a *arena) blockList(list [][]byte) *unsafe.Pointer {
	if len(list) == 0 {
		return nil
	}
	p := (*unsafe.Pointer)(a.alloc(len(list) * int(unsafe.Sizeof(uintptr(0)))))
	for i, block := range list {
		unsafe.Slice(p, len(list))[i] = copyOf(a, block)
	}
	return p
}

// blockBytes are the sizes of the blocks, or of those that are expected.
func (a *arena) blockBytes(blocks [][]byte, expected []uint64) (*C.uint64_t, C.size_t) {
	sizes := expected
	if blocks != nil {
		sizes = make([]uint64, len(blocks))
		for i := range blocks {
			sizes[i] = uint64(len(blocks[i]))
			if expected != nil && (len(expected) != len(blocks) || expected[i] != sizes[i]) {
				a.fail(errorf(ErrInvalid, "Raw.BlockBytes does not fit Raw.Blocks"))
				return nil, 0
			}
		}
	}
	return (*C.uint64_t)(copyOf(a, sizes)), C.size_t(len(sizes))
}

// rows copies arrays of numbers; an empty one is NULL.
func (a *arena) rows(list [][]int32) **C.int32_t {
	if len(list) == 0 {
		return nil
	}
	p := (**C.int32_t)(a.alloc(len(list) * int(unsafe.Sizeof(uintptr(0)))))
	for i, row := range list {
		unsafe.Slice(p, len(list))[i] = (*C.int32_t)(copyOf(a, row))
	}
	return p
}

type number interface {
	~byte | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// copyOf copies numbers into memory of C; none are NULL.
func copyOf[T number](a *arena, list []T) unsafe.Pointer {
	if len(list) == 0 {
		return nil
	}
	p := a.alloc(len(list) * int(unsafe.Sizeof(list[0])))
	copy(unsafe.Slice((*T)(p), len(list)), list)
	return p
}

// copyFrom copies numbers out of memory of C.
func copyFrom[T number](p unsafe.Pointer, count int) []T {
	if count == 0 || p == nil {
		return nil
	}
	return append([]T(nil), unsafe.Slice((*T)(p), count)...)
}

// first points to the numbers of a slice, for the time of a call; nil if there are none.
func first[T any](list []T) unsafe.Pointer {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Pointer(&list[0])
}

func keyFrom(p *C.uint8_t) (key Key) {
	copy(key[:], unsafe.Slice((*byte)(p), len(key)))
	return key
}

func keyPointer(p *C.uint8_t) *Key {
	if p == nil {
		return nil
	}
	key := keyFrom(p)
	return &key
}

func fixedText(from []C.char) string {
	var text strings.Builder
	for _, c := range from {
		if c == 0 {
			break
		}
		text.WriteByte(byte(c))
	}
	return text.String()
}

// blockViews are the library's memory.
func blockViews(blocks *unsafe.Pointer, bytes *C.uint64_t, count C.size_t) [][]byte {
	views := make([][]byte, count)
	for i := range views {
		size := unsafe.Slice(bytes, count)[i]
		views[i] = unsafe.Slice((*byte)(unsafe.Slice(blocks, count)[i]), size)
	}
	return views
}

func seconds(d time.Duration) C.double {
	if d == Forever {
		return C.double(math.Inf(1))
	}
	return C.double(d.Seconds())
}

func duration(s C.double) time.Duration {
	if !(float64(s)*1e9 < float64(math.MaxInt64)) {
		return Forever
	}
	return time.Duration(float64(s) * 1e9)
}

func unixTime(s C.int64_t) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}

func unixOf(t time.Time) C.int64_t {
	if t.IsZero() {
		return 0
	}
	return C.int64_t(t.Unix())
}
