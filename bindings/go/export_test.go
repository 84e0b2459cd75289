package promptcache

// RegisteredCallbacks is how many objects have callbacks at the moment.
func RegisteredCallbacks() int {
	registry.RLock()
	defer registry.RUnlock()
	return len(registry.every)
}
