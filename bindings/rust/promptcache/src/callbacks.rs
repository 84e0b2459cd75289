//! Closures as callbacks of the library. Each has a function of C that calls the closure, catches
//! its panics (`call::border`) and turns its answer into a code.
use crate::call::{border, border_apart, set_error, slice, Panic};
use crate::sys;
use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::ops::ControlFlow;
use std::os::raw::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a callback wants: go on, stop, or fail with a reason.
#[derive(Debug)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop: this sample ends here, work is cancelled.
    Stop,
    /// The call fails, and its error has this text.
    Fail(String),
}

/// What closures may return: nothing, [`ControlFlow`], or a `Result` of these. An error makes the
/// library's call fail with its text.
pub trait CallbackResult {
    /// What it means for the library.
    fn flow(self) -> Flow;
}

impl CallbackResult for () {
    fn flow(self) -> Flow {
        Flow::Continue
    }
}

impl CallbackResult for ControlFlow<()> {
    fn flow(self) -> Flow {
        match self {
            ControlFlow::Continue(()) => Flow::Continue,
            ControlFlow::Break(()) => Flow::Stop,
        }
    }
}

impl<T: CallbackResult, E: fmt::Display> CallbackResult for std::result::Result<T, E> {
    fn flow(self) -> Flow {
        match self {
            Ok(value) => value.flow(),
            Err(error) => Flow::Fail(error.to_string()),
        }
    }
}

impl CallbackResult for Flow {
    fn flow(self) -> Flow {
        self
    }
}

/// The code that a callback returns.
fn code(flow: Flow) -> i32 {
    match flow {
        Flow::Continue => 0,
        Flow::Stop => 1,
        Flow::Fail(text) => {
            set_error(&text);
            sys::PC_ERR_IO
        }
    }
}

/// A step of long work.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is being done.
    pub what: &'a str,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; 0: not known.
    pub total: u64,
}

unsafe extern "C" fn progress_of<F: FnMut(Progress<'_>) -> Flow>(
    user: *mut c_void,
    what: *const c_char,
    done: u64,
    total: u64,
) -> i32 {
    border(sys::PC_ERR_CANCELLED, || {
        // SAFETY: `user` is the closure of with_progress, which nothing else uses meanwhile.
        let (progress, what) = unsafe { (&mut *user.cast::<F>(), CStr::from_ptr(what)) };
        code(progress(Progress { what: &what.to_string_lossy(), done, total }))
    })
}

fn progress_function<F: FnMut(Progress<'_>) -> Flow>(_: &F) -> sys::pc_progress_fn {
    Some(progress_of::<F>)
}

/// Makes a call with a function that calls the closure.
pub(crate) fn with_progress<R: CallbackResult, T>(
    mut progress: impl FnMut(Progress<'_>) -> R,
    call: impl FnOnce(sys::pc_progress_fn, *mut c_void) -> T,
) -> T {
    let mut closure = |step: Progress<'_>| progress(step).flow();
    call(progress_function(&closure), (&mut closure as *mut _ as *mut c_void).cast())
}

/// Cancels every call that it was given to, from any thread. A clone is the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that cancels nothing yet.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels what has the token, now and later, until `reset`.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Lets later calls go on.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// The function that polls the token, and what it is given. The token must outlive the call.
    pub(crate) fn polled(&self) -> (Option<unsafe extern "C" fn(*mut c_void) -> i32>, *mut c_void) {
        (Some(poll_token), Arc::as_ptr(&self.0) as *mut c_void)
    }
}

unsafe extern "C" fn poll_token(user: *mut c_void) -> i32 {
    // SAFETY: of CancelToken::polled.
    unsafe { &*user.cast::<AtomicBool>() }.load(Ordering::Acquire).into()
}

/// A drawn token.
///
/// Log-probabilities (to base e) are of the model's own distribution, before biases, penalties and
/// temperature.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// Number of the sample in its request, from 0.
    pub sample: u32,
    /// Id of the token.
    pub id: i32,
    /// Its position.
    pub position: i64,
    /// Its log-probability.
    pub logprob: f64,
    /// The likeliest tokens in order; as many as `top_logprobs` of the options asks for.
    pub top_tokens: &'a [i32],
    /// Their log-probabilities.
    pub top_logprobs: &'a [f64],
}

type OnText<'a> = Box<dyn FnMut(u32, &str) -> Flow + Send + 'a>;
type OnToken<'a> = Box<dyn FnMut(Token<'_>) -> Flow + Send + 'a>;
type OnLogits<'a> = Box<dyn FnMut(u32, &mut [f32]) -> Flow + Send + 'a>;
type Cancelled<'a> = Box<dyn FnMut() -> bool + Send + 'a>;

/// Functions of a request: they get its text, its tokens and its logits, and may end it.
///
/// They run on the thread that makes the call (in a step of [`Task`](crate::Task): on one of the
/// library), may borrow what lives as long as the request (`'a`), and may drop any object. A panic in one ends the request, and goes on when the library's
/// call has returned.
///
/// The copies that [`Sequence::fork`](crate::Sequence::fork) makes share the functions of the
/// original, and are told apart by their number of the sample. Copies that are stepped in several
/// threads wait for each other there; so a function must not step a copy that shares it.
#[derive(Default)]
pub struct Callbacks<'a> {
    text: Option<Mutex<OnText<'a>>>,
    token: Option<Mutex<OnToken<'a>>>,
    logits: Option<Mutex<OnLogits<'a>>>,
    cancelled: Option<Mutex<Cancelled<'a>>>,
    cancel_token: Option<CancelToken>,
    /// of a function that a thread of the library has called
    panic: Mutex<Option<Panic>>,
}

impl<'a> Callbacks<'a> {
    /// No functions.
    pub fn new() -> Callbacks<'a> {
        Callbacks::default()
    }

    /// Gets text as it becomes final: never empty, never part of a character.
    #[must_use]
    pub fn on_text<R: CallbackResult>(
        self,
        mut function: impl FnMut(&str) -> R + Send + 'a,
    ) -> Self {
        self.on_sample_text(move |_, text| function(text))
    }

    /// As [`Callbacks::on_text`], with the number of the sample.
    #[must_use]
    pub fn on_sample_text<R: CallbackResult>(
        mut self,
        mut function: impl FnMut(u32, &str) -> R + Send + 'a,
    ) -> Self {
        self.text = Some(Mutex::new(Box::new(move |sample, text| function(sample, text).flow())));
        self
    }

    /// Gets each drawn token, before its text. `Break`: it is the last one, and its text comes.
    #[must_use]
    pub fn on_token<R: CallbackResult>(
        mut self,
        mut function: impl FnMut(Token<'_>) -> R + Send + 'a,
    ) -> Self {
        self.token = Some(Mutex::new(Box::new(move |token| function(token).flow())));
        self
    }

    /// May change the logits that the next token of a sample is drawn from: a grammar sets
    /// `f32::NEG_INFINITY` for what it forbids. `Break`: the sample ends without a further token.
    #[must_use]
    pub fn on_logits<R: CallbackResult>(
        mut self,
        mut function: impl FnMut(u32, &mut [f32]) -> R + Send + 'a,
    ) -> Self {
        self.logits =
            Some(Mutex::new(Box::new(move |sample, logits| function(sample, logits).flow())));
        self
    }

    /// Is polled between and inside steps. True: the request is cancelled.
    #[must_use]
    pub fn cancelled(mut self, function: impl FnMut() -> bool + Send + 'a) -> Self {
        self.cancelled = Some(Mutex::new(Box::new(function)));
        self
    }

    /// The request is cancelled when the token is.
    #[must_use]
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel_token = Some(token.clone());
        self
    }

    /// What a function has panicked with on a thread of the library.
    pub(crate) fn take_panic(&self) -> Option<Panic> {
        self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Sets the functions of options. `self` must live, unmoved, as long as they may be called.
    pub(crate) fn set(&self, raw: &mut sys::pc_generate_options) {
        let user = self as *const Self as *mut c_void;
        if self.text.is_some() {
            raw.on_text = Some(give_text);
            raw.on_text_user = user;
        }
        if self.token.is_some() {
            raw.on_token = Some(give_token);
            raw.on_token_user = user;
        }
        if self.logits.is_some() {
            raw.on_logits = Some(give_logits);
            raw.on_logits_user = user;
        }
        if self.cancelled.is_some() || self.cancel_token.is_some() {
            raw.cancelled = Some(ask_cancelled);
            raw.cancel_user = user;
        }
    }
}

impl fmt::Debug for Callbacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("text", &self.text.is_some())
            .field("token", &self.token.is_some())
            .field("logits", &self.logits.is_some())
            .field("cancelled", &(self.cancelled.is_some() || self.cancel_token.is_some()))
            .finish()
    }
}

/// The function, also after a panic in it.
fn locked<T>(function: &Option<Mutex<T>>) -> Option<MutexGuard<'_, T>> {
    function.as_ref().map(|f| f.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Runs one function of a request.
fn answer(user: *mut c_void, call: impl FnOnce(&Callbacks<'static>) -> Flow) -> i32 {
    // SAFETY: `user` is of Callbacks::set. The lifetime is not looked at: whoever calls the library
    // keeps the functions, and what they borrow, until the call has returned.
    let callbacks = unsafe { &*user.cast::<Callbacks<'static>>() };
    border_apart(&callbacks.panic, sys::PC_ERR_CANCELLED, || code(call(callbacks)))
}

unsafe extern "C" fn give_text(
    user: *mut c_void,
    sample: u32,
    text: *const c_char,
    size: usize,
) -> i32 {
    answer(user, |callbacks| {
        // SAFETY: borrowed for the call.
        let text: Cow<'_, str> = String::from_utf8_lossy(unsafe { slice(text.cast(), size) });
        locked(&callbacks.text).map_or(Flow::Continue, |mut function| function(sample, &text))
    })
}

unsafe extern "C" fn give_token(user: *mut c_void, token: *const sys::pc_token) -> i32 {
    answer(user, |callbacks| {
        // SAFETY: borrowed for the call. It has all these fields since the first release.
        let raw = unsafe { &*token };
        let token = Token {
            sample: raw.sample,
            id: raw.token,
            position: raw.position,
            logprob: raw.logprob,
            // SAFETY: as above.
            top_tokens: unsafe { slice(raw.top_tokens, raw.top_count) },
            top_logprobs: unsafe { slice(raw.top_logprobs, raw.top_count) },
        };
        locked(&callbacks.token).map_or(Flow::Continue, |mut function| function(token))
    })
}

unsafe extern "C" fn give_logits(
    user: *mut c_void,
    sample: u32,
    logits: *mut f32,
    count: usize,
) -> i32 {
    answer(user, |callbacks| {
        // SAFETY: ours to change during the call; count is never 0.
        let logits = unsafe { std::slice::from_raw_parts_mut(logits, count) };
        locked(&callbacks.logits).map_or(Flow::Continue, |mut function| function(sample, logits))
    })
}

unsafe extern "C" fn ask_cancelled(user: *mut c_void) -> i32 {
    answer(user, |callbacks| {
        let token = callbacks.cancel_token.as_ref().map_or(false, CancelToken::is_cancelled);
        if token || locked(&callbacks.cancelled).map_or(false, |mut function| function()) {
            Flow::Stop
        } else {
            Flow::Continue
        }
    })
}
