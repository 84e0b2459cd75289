//! What every call needs: handles that free themselves, strings and arrays for C, and the border
//! that panics of callbacks must not cross.
use crate::error::{check, Error, Result};
use crate::{sys, Salt, Sampling};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

/// An object of the library, and the function that releases the caller's reference.
pub(crate) trait Object {
    const FREE: unsafe extern "C" fn(*mut Self);
}

/// The caller's reference to an object.
pub(crate) struct Handle<T: Object>(*mut T);

impl<T: Object> Handle<T> {
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }

    /// Takes the reference that a call gave. `object` is not null.
    pub(crate) fn take(object: *mut T) -> Self {
        debug_assert!(!object.is_null());
        Handle(object)
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and given up once.
        unsafe { T::FREE(self.0) };
    }
}

macro_rules! objects {
    ($($name:ident $free:ident $($shared:ident)?;)*) => {$(
        impl Object for sys::$name {
            const FREE: unsafe extern "C" fn(*mut Self) = sys::$free;
        }
        // SAFETY: the header ties no object to the thread that made it.
        unsafe impl Send for Handle<sys::$name> {}
        objects!(@shared $name $($shared)?);
    )*};
    (@shared $name:ident shared) => {
        // SAFETY: the header says "immutable" or "internally locked".
        unsafe impl Sync for Handle<sys::$name> {}
    };
    (@shared $name:ident) => {};
}

objects! {
    pc_context pc_context_free shared;
    pc_model pc_model_free shared;
    pc_segment pc_segment_free shared;
    pc_cache pc_cache_free shared;
    pc_schema pc_schema_free shared;
    pc_prompt pc_prompt_free shared;
    pc_memo pc_memo_free shared;
    pc_systems pc_systems_free shared;
    pc_task pc_task_free shared;
    pc_model_file pc_model_file_free shared;
    pc_batch pc_batch_free;
    pc_sequence pc_sequence_free;
    pc_plan pc_plan_free;
    pc_folder pc_folder_free;
    pc_load pc_load_free;
    pc_schema_builder pc_schema_builder_free;
    pc_prompt_builder pc_prompt_builder_free;
}

/// The object that a call makes, or None with the code of another outcome (above 0).
pub(crate) fn try_make<T: Object>(
    call: impl FnOnce(*mut *mut T) -> sys::pc_status,
) -> Result<std::result::Result<Handle<T>, sys::pc_status>> {
    let mut out = ptr::null_mut();
    let status = run(|| call(&mut out))?;
    Ok(if out.is_null() { Err(status) } else { Ok(Handle::take(out)) })
}

/// The object that a call makes. The call has no outcome beside success and errors.
pub(crate) fn make<T: Object>(
    call: impl FnOnce(*mut *mut T) -> sys::pc_status,
) -> Result<Handle<T>> {
    try_make(call)?.map_err(|status| Error::of_status(status, "nothing was made".to_string()))
}

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

thread_local! {
    /// A callback of a call of this thread has panicked. The call's return resumes that.
    static PANIC: RefCell<Option<Panic>> = const { RefCell::new(None) };
    /// Calls that this thread is in, one within a callback of the other. 0 in a callback: a thread
    /// of the library makes the call.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count_calls(more: impl FnOnce(usize) -> usize) {
    let _ = CALLS.try_with(|calls| calls.set(more(calls.get())));
}

/// Calls the library. If a callback panicked on this thread meanwhile, that goes on from here.
pub(crate) fn guard<T>(call: impl FnOnce() -> T) -> T {
    count_calls(|calls| calls + 1);
    let result = call();
    count_calls(|calls| calls - 1);
    if let Ok(Some(panic)) = PANIC.try_with(|slot| slot.borrow_mut().take()) {
        resume_unwind(panic);
    }
    result
}

/// As guard, for a call that returns a code. The error is read before anything else is called.
pub(crate) fn run(call: impl FnOnce() -> sys::pc_status) -> Result<sys::pc_status> {
    guard(|| check(call()))
}

/// Runs a callback of a call of this thread. A panic is kept for the call, which must fail:
/// `failed` is what the callback returns then.
pub(crate) fn border<T>(failed: T, callback: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|panic| {
        set_error("a callback panicked");
        // of several panics in a call, the first goes on
        if let Some(later) = PANIC.try_with(|slot| keep_first(slot, panic)).ok().flatten() {
            discard(later);
        }
        failed
    })
}

/// As border, of a callback that a thread of the library may call: there a panic is kept in `apart`.
pub(crate) fn border_apart<T>(
    apart: &Mutex<Option<Panic>>,
    failed: T,
    callback: impl FnOnce() -> T,
) -> T {
    if CALLS.try_with(Cell::get).unwrap_or(0) > 0 {
        return border(failed, callback);
    }
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|panic| {
        set_error("a callback panicked");
        let mut slot = apart.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if slot.is_none() {
            *slot = Some(panic);
        } else {
            drop(slot);
            discard(panic);
        }
        failed
    })
}

fn keep_first(slot: &RefCell<Option<Panic>>, panic: Panic) -> Option<Panic> {
    let mut slot = slot.borrow_mut();
    if slot.is_some() {
        return Some(panic);
    }
    *slot = Some(panic);
    None
}

/// Drops what a panic carries, which may panic itself.
fn discard(panic: Panic) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

thread_local! {
    /// This thread is in a callback that no call waits for. It may be a thread of a cache.
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may be one of a cache, which then ends after `pc_cache_free` has returned.
pub(crate) fn may_be_of_cache() -> bool {
    APART.try_with(Cell::get).unwrap_or(true)
}

/// Runs a callback that no call waits for. A panic ends here; the panic hook has shown it.
pub(crate) fn last_border(callback: impl FnOnce()) -> bool {
    let before = APART.try_with(|apart| apart.replace(true));
    let result = catch_unwind(AssertUnwindSafe(callback)).map_err(discard);
    if let Ok(before) = before {
        let _ = APART.try_with(|apart| apart.set(before));
    }
    result.is_ok()
}

/// Says why a callback fails.
pub(crate) fn set_error(text: &str) {
    let text: String = text.chars().map(|c| if c == '\0' { ' ' } else { c }).collect();
    if let Ok(text) = CString::new(text) {
        // SAFETY: copied.
        unsafe { sys::pc_error_set(text.as_ptr()) };
    }
}

pub(crate) fn c_string(what: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{what} has a NUL")))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::invalid(format!("path {} is not UTF-8", path.display())))?;
    c_string("path", text)
}

/// A string of C, or "" for null, copied.
pub(crate) fn borrowed(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: strings of the library end in a NUL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A string in an array of a struct.
pub(crate) fn chars(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An array of C.
///
/// # Safety
/// It has `count` elements, or is null, and lives as long as `'a`.
pub(crate) unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        &[]
    } else {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(start, count) }
    }
}

pub(crate) fn array_of<T>(array: &[T]) -> *const T {
    if array.is_empty() {
        ptr::null()
    } else {
        array.as_ptr()
    }
}

pub(crate) fn pointer_of(digest: &Option<[u8; 32]>) -> *const u8 {
    digest.as_ref().map_or(ptr::null(), |digest| digest.as_ptr())
}

pub(crate) fn data_of(data: &[u8]) -> *const c_void {
    array_of(data).cast()
}

pub(crate) fn text_of(text: &Option<String>) -> (*const c_char, usize) {
    text.as_ref().map_or((ptr::null(), 0), |text| (text.as_ptr().cast(), text.len()))
}

/// What C structs point to for the time of a call, beside what the options hold themselves.
#[derive(Default)]
pub(crate) struct Keep {
    strings: Vec<CString>,
    lists: Vec<Vec<*const c_char>>,
    salts: Vec<Vec<sys::pc_salt>>,
    // boxed: what they are pointed to must not move
    #[allow(clippy::vec_box)]
    samplings: Vec<Box<sys::pc_sampling>>,
}

impl Keep {
    pub(crate) fn text(&mut self, what: &str, text: &str) -> Result<*const c_char> {
        let made = c_string(what, text)?;
        let pointer = made.as_ptr();
        self.strings.push(made);
        Ok(pointer)
    }

    pub(crate) fn string(&mut self, what: &str, text: &Option<String>) -> Result<*const c_char> {
        text.as_ref().map_or(Ok(ptr::null()), |text| self.text(what, text))
    }

    pub(crate) fn strings<S: AsRef<str>>(
        &mut self,
        what: &str,
        texts: &[S],
    ) -> Result<*const *const c_char> {
        let list =
            texts.iter().map(|text| self.text(what, text.as_ref())).collect::<Result<Vec<_>>>()?;
        let pointer = array_of(&list);
        self.lists.push(list);
        Ok(pointer)
    }

    pub(crate) fn salts(&mut self, salts: &[Salt]) -> (*const sys::pc_salt, usize, usize) {
        let list: Vec<_> = salts
            .iter()
            .map(|salt| sys::pc_salt {
                first: salt.first,
                data: data_of(&salt.data),
                size: salt.data.len(),
            })
            .collect();
        let pointer = array_of(&list);
        self.salts.push(list);
        (pointer, std::mem::size_of::<sys::pc_salt>(), salts.len())
    }

    pub(crate) fn sampling(
        &mut self,
        sampling: &Option<Sampling>,
    ) -> Result<*const sys::pc_sampling> {
        let sampling = match sampling {
            Some(sampling) => sampling,
            None => return Ok(ptr::null()),
        };
        if sampling.bias_tokens.len() != sampling.bias_values.len() {
            return Err(Error::invalid("sampling: as many bias_tokens as bias_values"));
        }
        let made = Box::new(sampling.raw(self)?);
        let pointer: *const _ = &*made;
        self.samplings.push(made);
        Ok(pointer)
    }
}

/// Fills an array that a call measures first. The count may grow in between.
pub(crate) fn filled<T: Copy + Default>(
    call: impl Fn(*mut T, usize, &mut usize) -> sys::pc_status,
) -> Result<Vec<T>> {
    let mut count = 0;
    run(|| call(ptr::null_mut(), 0, &mut count))?;
    loop {
        let mut made = vec![T::default(); count];
        let status = guard(|| call(made.as_mut_ptr(), made.len(), &mut count));
        if status == sys::PC_ERR_LIMIT && count > made.len() {
            continue;
        }
        check(status)?;
        made.truncate(count);
        return Ok(made);
    }
}

/// As filled, of text.
pub(crate) fn filled_text(
    call: impl Fn(*mut c_char, usize, &mut usize) -> sys::pc_status,
) -> Result<String> {
    let bytes = filled(|text: *mut u8, capacity, size| call(text.cast(), capacity, size))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Results by index until there are no more.
pub(crate) fn listed<T>(get: impl Fn(usize) -> Result<T>, count: usize) -> Result<Vec<T>> {
    (0..count).map(get).collect()
}

macro_rules! flag_set {
    ($name:ident) => {
        impl $name {
            /// The bits, as the library takes them.
            pub fn bits(self) -> u64 {
                self.0
            }

            /// Whether all flags of `other` are set.
            pub fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
        }

        /// Any bits, also ones that this crate has no names for.
        impl From<u64> for $name {
            fn from(bits: u64) -> $name {
                $name(bits)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }
    };
}

/// Writes a string into an array of a struct, with its NUL.
pub(crate) fn set_chars(what: &str, to: &mut [c_char], text: &str) -> Result<()> {
    if text.len() >= to.len() || text.contains('\0') {
        return Err(Error::invalid(format!(
            "{what} is longer than {}, or has a NUL",
            to.len() - 1
        )));
    }
    for (to, byte) in to.iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    Ok(())
}

/// A digest that C points to, copied.
pub(crate) fn digest(bytes: *const u8) -> Option<[u8; 32]> {
    if bytes.is_null() {
        return None;
    }
    let mut made = [0; 32];
    // SAFETY: fields of digests point to 32 bytes.
    unsafe { ptr::copy_nonoverlapping(bytes, made.as_mut_ptr(), made.len()) };
    Some(made)
}
