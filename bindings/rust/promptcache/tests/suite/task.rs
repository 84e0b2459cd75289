//! Catches: steps on a thread of the library that give other tokens, or lose a batch; a panic there
//! that is lost, comes twice, or comes out of another task or call; a descriptor that does not tell.
use crate::common::{kept, short, Demo, ANSWER};
use promptcache::*;
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

fn is_readable(fd: BorrowedFd<'_>, milliseconds: c_int) -> bool {
    let mut one = PollFd { fd: fd.as_raw_fd(), events: 1, revents: 0 };
    unsafe { poll(&mut one, 1, milliseconds) == 1 && one.revents & 1 != 0 }
}

fn batch_with(demo: &Demo, callbacks: Callbacks<'static>) -> (Batch<'static>, SequenceId) {
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let sequence = Sequence::new(&demo.prompt(), &demo.cache, &kept(), callbacks).unwrap();
    let id = batch.add(sequence).unwrap();
    (batch, id)
}

fn run_async(mut batch: Batch<'static>) -> Batch<'static> {
    loop {
        let (back, step) = batch.step_async().unwrap().finish();
        batch = back;
        if step.unwrap() == Step::Finished {
            return batch;
        }
    }
}

#[test]
fn tasks_equal_steps() {
    let demo = Demo::new();
    let (mut plain, first) = batch_with(&demo, Callbacks::new());
    plain.run().unwrap();
    let (mut batch, id) = batch_with(&demo, Callbacks::new());
    loop {
        let mut task = batch.step_async().unwrap();
        assert!(is_readable(task.fd().unwrap(), -1) && task.is_done());
        let step = task.wait(Duration::ZERO).unwrap().unwrap();
        assert_eq!(task.wait(Duration::MAX).unwrap(), Some(step)); // may be asked again
        let (back, again) = task.finish();
        batch = back;
        assert_eq!((again.unwrap(), batch.changed()), (step, vec![id]));
        if step == Step::Finished {
            break;
        }
    }
    assert_eq!(batch[id].tokens(), plain[first].tokens());
    assert_eq!(batch[id].text(), ANSWER);
}

#[test]
fn meanwhile_a_sequence_can_be_cancelled() {
    let demo = Demo::new();
    let open = Arc::new(AtomicBool::new(false));
    let (reached, gate) = (Arc::new(AtomicBool::new(false)), open.clone());
    let there = reached.clone();
    let callbacks = Callbacks::new().on_token(move |_| {
        there.store(true, Ordering::SeqCst);
        while !gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let (batch, id) = batch_with(&demo, callbacks);
    let canceller = batch[id].canceller();
    let mut task = batch.step_async().unwrap();
    while !reached.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!task.is_done() && !is_readable(task.fd().unwrap(), 0));
    assert_eq!(task.wait(Duration::from_millis(2)).unwrap(), None);
    canceller.cancel();
    open.store(true, Ordering::SeqCst);
    let batch = run_async(task.finish().0);
    assert_eq!(batch[id].finish(), Finish::Cancelled);
}

fn panicking(number: usize) -> Callbacks<'static> {
    Callbacks::new().on_token(move |_| std::panic::panic_any(number))
}

fn caught<T>(call: impl FnOnce() -> T) -> Option<usize> {
    catch_unwind(AssertUnwindSafe(call)).err().map(|panic| *panic.downcast::<usize>().unwrap())
}

#[test]
fn panics_come_out_of_their_task() {
    let demo = Demo::new();
    let (mut batch, bad) = batch_with(&demo, panicking(42));
    let sequence = Sequence::new(&demo.prompt(), &demo.cache, &kept(), Callbacks::new()).unwrap();
    let good = batch.add(sequence).unwrap();
    let mut task = batch.step_async().unwrap();
    assert_eq!(caught(|| task.wait(Duration::MAX)), Some(42));
    let (batch, step) = task.finish(); // once
    assert_eq!(step.unwrap(), Step::Running);
    let batch = run_async(batch);
    assert_eq!(batch[good].text(), ANSWER);
    assert_eq!(batch[bad].finish(), Finish::Cancelled);

    // many at once, whose steps share threads, beside calls of this thread
    let calls = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let tasks: Vec<Task> =
            (0..8).map(|n| batch_with(&demo, panicking(n)).0.step_async().unwrap()).collect();
        let inner = calls.clone();
        let (within, prompt, cache) = (kept(), demo.prompt(), demo.cache.clone());
        let calling = Callbacks::new().on_token(move |_| {
            let called = caught(|| prompt.generate(&cache, &within, panicking(99)));
            assert_eq!(called, Some(99)); // a call within a function has panics of its own
            inner.fetch_add(1, Ordering::SeqCst);
        });
        let (batch, id) = batch_with(&demo, calling);
        let calm = batch.step_async().unwrap();
        assert_eq!(demo.prompt().answer(&demo.cache, &short()).unwrap().text, ANSWER);
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(caught(|| task.finish()), Some(number));
        }
        assert_eq!(run_async(calm.finish().0)[id].text(), ANSWER);
    }
    assert!(calls.load(Ordering::SeqCst) > 3);
    assert_eq!(caught(|| demo.prompt().generate(&demo.cache, &short(), panicking(7))), Some(7));
}

#[test]
fn dropped_tasks_wait() {
    let demo = Demo::new();
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let callbacks = Callbacks::new().on_token(move |_| {
        std::thread::sleep(Duration::from_millis(5));
        count.fetch_add(1, Ordering::SeqCst);
    });
    let (batch, _) = batch_with(&demo, callbacks);
    drop(batch.step_async().unwrap());
    assert_eq!((done.load(Ordering::SeqCst), Arc::strong_count(&done)), (1, 1));

    drop(batch_with(&demo, panicking(3)).0.step_async().unwrap()); // nobody hears of it
    assert_eq!(demo.prompt().answer(&demo.cache, &short()).unwrap().text, ANSWER);

    // to another thread
    let (batch, id) = batch_with(&demo, Callbacks::new());
    let task = batch.step_async().unwrap();
    let text = std::thread::spawn(move || run_async(task.finish().0)[id].text().into_owned());
    assert_eq!(text.join().unwrap(), ANSWER);
}
