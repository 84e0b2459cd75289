package promptcache

// #include "bridge.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// Error says why a call failed. errors.Is compares it with a Status:
//
//	if errors.Is(err, promptcache.ErrNotFound) { … }
//
// It also wraps what a function of the application returned, and the error of the context that
// cancelled the call: errors.Is(err, context.DeadlineExceeded).
type Error struct {
	Status Status
	// Text names place and cause in one line.
	Text string
	// Line and Column, from 1, are a place in PML, a format string or JSON; 0: none.
	Line, Column int
	cause        error
}

func (e *Error) Error() string {
	if e.Text == "" {
		return "promptcache: " + e.Status.Error()
	}
	return "promptcache: " + e.Text
}

// Is reports whether target is the Status of e.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status
}

// Unwrap returns the error of a context or of a callback, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Error makes a Status an error, for errors.Is.
func (v Status) Error() string {
	if text, ok := statusTexts[v]; ok {
		return text
	}
	return v.String()
}

// Stop, returned by a callback, ends a sample: the request succeeds (FinishCallback).
var Stop = errors.New("promptcache: stop")

// errorf is a fault that the package itself finds.
func errorf(status Status, format string, arguments ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, arguments...)}
}

// closed wraps os.ErrClosed.
func closed(what string) error {
	return &Error{Status: ErrState, Text: "the " + what + " is closed", cause: os.ErrClosed}
}

// take makes an error of a failed call's text, and frees that.
func (f *C.go_error) take(status C.pc_status, cause error) error {
	e := &Error{Status: Status(status), Line: int(f.line), Column: int(f.column), cause: cause}
	if f.text != nil {
		e.Text = C.GoString(f.text)
		C.free(unsafe.Pointer(f.text))
		f.text = nil
	}
	return e
}

func enumString[T ~uint32 | ~int32](kind string, value T, names map[T]string) string {
	if name, ok := names[value]; ok {
		return name
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

func flagsString[T ~uint64](kind string, value T, names map[T]string) string {
	if value == 0 {
		return "0"
	}
	var words []string
	for bit := T(1); bit != 0; bit <<= 1 {
		if name, ok := names[bit]; ok && value&bit != 0 {
			words = append(words, name)
			value &^= bit
		}
	}
	if value != 0 {
		words = append(words, fmt.Sprintf("%s(%#x)", kind, uint64(value)))
	}
	return strings.Join(words, "|")
}
