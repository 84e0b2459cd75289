//! The context: threads and work memory.
use crate::call::{borrowed, last_border, make, Handle, Keep};
use crate::{sys, ContextOptions, LogLevel, Result};
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::sync::{Arc, Mutex};

/// Threads and work memory of the library. A clone is the same context.
#[derive(Clone)]
pub struct Context {
    handle: Arc<Handle<sys::pc_context>>,
    /// The backend computes in memory of the host.
    pub(crate) on_host: bool,
}

type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Functions that get the log. A context lives as long as what was made with it, and nothing tells
/// when it ends: they stay until the process ends.
static LOGS: Mutex<Vec<&'static Log>> = Mutex::new(Vec::new());

unsafe extern "C" fn log_line(user: *mut c_void, level: u32, line: *const c_char) {
    last_border(|| {
        // SAFETY: `user` is of LOGS, the line is borrowed for the call.
        let (log, line) = unsafe { (&*user.cast::<Log>(), CStr::from_ptr(line)) };
        log(level.into(), &line.to_string_lossy());
    });
}

/// Whether the backend is "cpu", as the library chooses it: by the option, else by PC_BACKEND.
fn computes_on_host(options: &ContextOptions) -> bool {
    match &options.backend {
        Some(name) => name == "cpu",
        None => {
            std::env::var_os("PC_BACKEND").map_or(true, |name| name.is_empty() || name == "cpu")
        }
    }
}

impl Context {
    /// Makes a context and starts its threads.
    ///
    #[doc = c_doc!(pc_context_new)]
    pub fn new(options: &ContextOptions) -> Result<Context> {
        Self::with(options, None)
    }

    /// A context with a function that gets the lines of its log. Any thread may call it, and it
    /// must not call the library but to drop objects. A panic in it ends there. It is kept until
    /// the process ends.
    pub fn with_log(
        options: &ContextOptions,
        log: impl Fn(LogLevel, &str) + Send + Sync + 'static,
    ) -> Result<Context> {
        let log: Log = Box::new(log);
        let log: &'static Log = Box::leak(Box::new(log));
        LOGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(log);
        Self::with(options, Some(log))
    }

    fn with(options: &ContextOptions, log: Option<&'static Log>) -> Result<Context> {
        let (mut keep, on_host) = (Keep::default(), computes_on_host(options));
        let mut raw = options.raw(&mut keep)?;
        if let Some(log) = log {
            raw.log = Some(log_line);
            raw.log_user = log as *const Log as *mut c_void;
        }
        // SAFETY: `raw` and what it points to live through the call.
        let handle = make(|out| unsafe { sys::pc_context_new(out, &raw) })?;
        Ok(Context { handle: Arc::new(handle), on_host })
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_context {
        self.handle.get()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Context").field(&self.as_ptr()).finish()
    }
}

/// The version of the library that runs: "0.10.0".
pub fn version() -> String {
    // SAFETY: static.
    borrowed(unsafe { sys::pc_version() })
}

/// The number of the binary interface of the library that runs; that of [`sys::PC_ABI_VERSION`].
pub fn abi_version() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys::pc_abi_version() }
}
