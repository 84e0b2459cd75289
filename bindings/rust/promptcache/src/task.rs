//! Steps on a thread of the library.
use crate::call::{make, run, Handle};
use crate::{sys, Batch, Error, Result, Step};
use std::fmt;
use std::os::unix::io::BorrowedFd;
use std::panic::resume_unwind;
use std::time::Duration;

/// A step that a thread of the library does. It has the batch until the step is done; a
/// [`Canceller`](crate::Canceller) works meanwhile. Dropped, it waits, and the batch goes with it.
///
/// Functions of the sequences run on the library's thread. What one panics with goes on from
/// [`Task::wait`].
///
/// The functions borrow nothing, since a task that is forgotten goes on:
///
/// ```compile_fail
/// fn wrong<'a>(batch: promptcache::Batch<'a>) {
///     let _ = batch.step_async();
/// }
/// ```
pub struct Task {
    // the task goes first, which waits
    handle: Handle<sys::pc_task>,
    batch: Batch<'static>,
}

/// A batch of which no step was started, and why.
#[derive(Debug)]
pub struct NotStarted {
    /// The batch.
    pub batch: Box<Batch<'static>>,
    /// Why.
    pub error: Error,
}

impl From<NotStarted> for Error {
    fn from(not_started: NotStarted) -> Error {
        not_started.error
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotStarted {}

impl Batch<'static> {
    /// Starts a step on a thread of the library. [`Task::finish`] gives the batch back.
    ///
    #[doc = c_doc!(pc_batch_step_async)]
    pub fn step_async(self) -> std::result::Result<Task, NotStarted> {
        // SAFETY: the task has the batch, and with it all that the step uses.
        match make(|out| unsafe { sys::pc_batch_step_async(out, self.as_ptr()) }) {
            Ok(handle) => Ok(Task { handle, batch: self }),
            Err(error) => Err(NotStarted { batch: Box::new(self), error }),
        }
    }
}

impl Task {
    fn ask(&self, at_most: Duration) -> Result<sys::pc_status> {
        // SAFETY: the task lives.
        run(|| unsafe { sys::pc_task_wait(self.handle.get(), at_most.as_secs_f64()) })
    }

    /// Waits until the step is done, at most this long. `None`: it is not done yet. If a function
    /// of a sequence has panicked, that goes on from here, once.
    ///
    #[doc = c_doc!(pc_task_wait)]
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Step>> {
        let status = self.ask(at_most);
        if let Ok(sys::PC_AGAIN) = status {
            return Ok(None);
        }
        if let Some(panic) = self.batch.take_panic() {
            resume_unwind(panic);
        }
        let ended = status? == sys::PC_END;
        Ok(Some(if ended { Step::Finished } else { Step::Running }))
    }

    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        !matches!(self.ask(Duration::ZERO), Ok(sys::PC_AGAIN))
    }

    /// A descriptor for an event loop.
    ///
    #[doc = c_doc!(pc_task_fd)]
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: the task lives.
        run(|| unsafe { sys::pc_task_fd(self.handle.get(), &mut fd) })?;
        // SAFETY: it is open as long as the task, which is borrowed.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Waits without a limit, and gives the batch back. A panic goes on from here, and the batch
    /// with it, unless [`Task::wait`] has told it before.
    pub fn finish(mut self) -> (Batch<'static>, Result<Step>) {
        let step = loop {
            match self.wait(Duration::MAX) {
                Ok(None) => continue,
                Ok(Some(step)) => break Ok(step),
                Err(error) => break Err(error),
            }
        };
        let Task { handle, batch } = self;
        drop(handle);
        (batch, step)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
