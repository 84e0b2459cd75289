//! Errors: a code, the library's line about place and cause, and the place in a document.
use crate::call::borrowed;
use crate::{sys, Status};
use std::fmt;

/// What went wrong. `Display` gives the name of the code and the library's line about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    text: String,
    place: Option<(u64, u64)>,
}

/// The result of a call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error of this thread's last call. Only right after a negative return.
    pub(crate) fn last(status: sys::pc_status) -> Error {
        let (mut line, mut column) = (0, 0);
        // SAFETY: the text is copied before this thread makes another call.
        let text = unsafe {
            sys::pc_error_place(&mut line, &mut column);
            borrowed(sys::pc_error_text())
        };
        let place = if line == 0 { None } else { Some((line, column)) };
        Error { status: status.into(), text, place }
    }

    /// An error that the crate found before the library was called.
    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error { status: Status::Invalid, text: text.into(), place: None }
    }

    /// As invalid, of objects that do not belong together.
    pub(crate) fn mismatch(text: &str) -> Error {
        Error::of_status(sys::PC_ERR_MISMATCH, text.to_string())
    }

    pub(crate) fn of_status(status: sys::pc_status, text: String) -> Error {
        Error { status: status.into(), text, place: None }
    }

    /// Its code.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Place and cause, in one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column, from 1, of the document that is at fault: PML, a format string, JSON.
    pub fn place(&self) -> Option<(u64, u64)> {
        self.place
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.text)
    }
}

impl std::error::Error for Error {}

impl Status {
    /// The name of the code: `PC_ERR_IO`.
    pub fn name(self) -> String {
        // SAFETY: any code has a static name.
        unsafe { borrowed(sys::pc_status_name(self.into())) }
    }

    /// What the code means: "input or output failed".
    pub fn text(self) -> String {
        // SAFETY: any code has a static text.
        unsafe { borrowed(sys::pc_status_text(self.into())) }
    }
}

/// An error for a negative code, else the code.
pub(crate) fn check(status: sys::pc_status) -> Result<sys::pc_status> {
    if status < 0 {
        Err(Error::last(status))
    } else {
        Ok(status)
    }
}
