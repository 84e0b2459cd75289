package promptcache

import (
	"runtime"
	"sync"
	"unsafe"
)

// handle is an object of the library that any goroutine may use. Close gives up the caller's
// reference. The object is freed when no call uses it any more, and no object that was made with
// it is left: so Close is safe at any time, a finaliser cannot free what a call still uses, and
// the callbacks of a context outlive everything that may still call them.
type handle struct {
	what   string // "model", for errors
	mu     sync.Mutex
	p      unsafe.Pointer
	users  int // calls under way, and handles that need this one
	closed bool
	free   func(unsafe.Pointer)
	needs  []*handle
	calls  *callbacks // given up when the object is freed; may be nil
}

// newHandle takes over p, and calls. It needs the others until it is freed; nil ones are ignored.
func newHandle(what string, p unsafe.Pointer, calls *callbacks, free func(unsafe.Pointer),
	needs ...*handle) *handle {
	h := &handle{what: what, p: p, free: free, calls: calls}
	for _, need := range needs {
		if need != nil {
			need.need()
			h.needs = append(h.needs, need)
		}
	}
	return h
}

// acquire holds the object for a call.
func (h *handle) acquire() (unsafe.Pointer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, closed(h.what)
	}
	h.users++
	return h.p, nil
}

// need holds an object that is in use already, closed or not, for another one.
func (h *handle) need() {
	h.mu.Lock()
	h.users++
	h.mu.Unlock()
}

func (h *handle) release() {
	h.mu.Lock()
	h.users--
	h.mu.Unlock()
	h.freeIfUnused()
}

func (h *handle) close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.freeIfUnused()
	return nil
}

func (h *handle) freeIfUnused() {
	h.mu.Lock()
	p := h.p
	if !h.closed || h.users > 0 {
		p = nil
	} else {
		h.p = nil
	}
	h.mu.Unlock()
	if p == nil {
		return
	}
	h.free(p)
	h.calls.drop()
	for _, need := range h.needs {
		need.release()
	}
}

// finalise closes an object that the program has forgotten. It runs on a goroutine of its own,
// since freeing may wait: for writes of a cache, for the step of a batch.
func finalise[T interface{ Close() error }](object T) T {
	runtime.SetFinalizer(object, func(object T) { go object.Close() })
	return object
}
