// Package numbers gives objects numbers that C can hold where it must not hold pointers of Go.
package numbers

import "sync"

var (
	mu    sync.RWMutex
	last  uintptr
	every = map[uintptr]any{}
)

// Add gives the object a number; none is given twice.
func Add(object any) uintptr {
	mu.Lock()
	defer mu.Unlock()
	last++
	every[last] = object
	return last
}

// Get finds an object; nil if it is removed.
func Get(number uintptr) any {
	mu.RLock()
	defer mu.RUnlock()
	return every[number]
}

// Remove forgets the object.
func Remove(number uintptr) {
	mu.Lock()
	defer mu.Unlock()
	delete(every, number)
}

// Count is how many objects have numbers at the moment.
func Count() int {
	mu.RLock()
	defer mu.RUnlock()
	return len(every)
}
