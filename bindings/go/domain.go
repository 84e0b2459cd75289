package promptcache

// #include "bridge.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// domain lets one goroutine at a time use a batch with its sequences, or a sequence in no batch.
// A callback runs in the middle of a call, on its goroutine, and may make further calls: it is
// known by its thread, which Go does not change while C is on the stack.
type domain struct {
	mu    sync.Mutex
	owner uintptr  // go_thread of the goroutine inside; 0: none
	fault fault    // of callbacks, until the goroutine leaves
	after []func() // what callbacks leave for then
}

// inside has the domain that each thread has entered last.
var inside sync.Map

// thread is the caller's. It holds while the goroutine is locked to it.
func thread() uintptr { return uintptr(C.go_thread()) }

// enter waits for the others. The caller calls the result when it is done with the objects; a panic
// of a callback goes on there.
func (d *domain) enter() (leave func()) {
	runtime.LockOSThread() // or the thread could be another one right after it was asked for
	me := thread()
	if atomic.LoadUintptr(&d.owner) == me {
		return runtime.UnlockOSThread
	}
	d.mu.Lock()
	atomic.StoreUintptr(&d.owner, me)
	before, _ := inside.Load(me) // a callback of another domain may have called
	inside.Store(me, d)
	return func() {
		for _, function := range d.after {
			function()
		}
		d.after = nil
		if before != nil {
			inside.Store(me, before)
		} else {
			inside.Delete(me)
		}
		atomic.StoreUintptr(&d.owner, 0)
		panicked, value := d.fault.takePanic()
		d.mu.Unlock()
		runtime.UnlockOSThread()
		if panicked {
			panic(value)
		}
	}
}

// domainOf says which domain a sequence is in at the moment: its own, or that of a batch.
type domainOf struct{ p unsafe.Pointer }

func (o *domainOf) current() *domain { return (*domain)(atomic.LoadPointer(&o.p)) }
func (o *domainOf) set(d *domain)    { atomic.StorePointer(&o.p, unsafe.Pointer(d)) }

func (o *domainOf) enter() (leave func()) {
	for {
		d := o.current()
		leave = d.enter()
		if o.current() == d {
			return leave
		}
		leave()
	}
}
