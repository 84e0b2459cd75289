//! Sequences: requests that are stepped together in a batch, continued, branched and saved.
//!
//! A batch and its sequences count as one object, which belongs to one thread at a time. So a batch
//! owns its sequences: while one is in a batch, nobody reaches it but through the batch, and nobody
//! takes it to another thread alone. Only its `Canceller` may be anywhere.
use crate::call::{array_of, borrowed, filled, make, run, slice, try_make, Handle, Keep, Panic};
use crate::prompt::raw_messages;
use crate::{
    sys, BatchOptions, BatchStats, Cache, Callbacks, ChatOptions, Error, Finish, GenerateOptions,
    Memo, Message, Model, Prompt, Reason, Result, Sampling, SaveOptions, Segment, Span, Stats,
    Stream,
};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Deref, Index};
use std::ptr;
use std::sync::{Arc, Mutex};

/// A sequence while it lives, else null: for those that cancel it. The lock is held while it is
/// cancelled, and when it is about to be freed.
struct Target(Mutex<*mut sys::pc_sequence>);

// SAFETY: the one call that is made through the pointer is for any thread.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Cancels a sequence, from any thread and at any time. A clone cancels the same sequence.
#[derive(Clone)]
pub struct Canceller(Arc<Target>);

impl Canceller {
    /// Ends the turn: a step under way gives the sequence up soon, else the next step does. The
    /// next push or truncation takes that back. Does nothing if the sequence is gone.
    ///
    #[doc = c_doc!(pc_sequence_cancel)]
    pub fn cancel(&self) {
        let target = self.0 .0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !target.is_null() {
            // SAFETY: the sequence is not freed while the lock is held.
            unsafe { sys::pc_sequence_cancel(*target) };
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

/// A request that is stepped in a batch. `'a`: what its [`Callbacks`] borrow.
///
/// What it lends (text, tokens, logits) is borrowed until the next step or change, and the compiler
/// knows:
///
/// ```compile_fail
/// fn wrong(batch: &mut promptcache::Batch<'_>, id: promptcache::SequenceId) {
///     let logits = batch[id].logits();
///     batch.step().unwrap(); // changes what `logits` points to
///     println!("{:?}", logits);
/// }
/// ```
///
/// Functions cannot borrow what is gone before the sequence:
///
/// ```compile_fail
/// use promptcache::*;
/// fn wrong<'a>(prompt: &Prompt, options: &GenerateOptions) -> Result<Sequence<'a>> {
///     let mut text = String::new();
///     let callbacks = Callbacks::new().on_text(|piece| text.push_str(piece));
///     Sequence::new(prompt, None, options, callbacks)
/// }
/// ```
pub struct Sequence<'a> {
    // the sequence goes first, then what it may use
    handle: Handle<sys::pc_sequence>,
    target: Arc<Target>,
    callbacks: Arc<Callbacks<'a>>,
    caches: Vec<Cache>,
    memo: Option<Memo>,
    pub(crate) model: Model,
    /// one thread at a time
    not_sync: PhantomData<Cell<()>>,
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        *self.target.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = ptr::null_mut();
    }
}

/// What was looked for, or why it was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// It is here.
    Hit(T),
    /// It is not, for this reason.
    Miss(Reason),
}

impl<T> Found<T> {
    /// What was found.
    pub fn hit(self) -> Option<T> {
        match self {
            Found::Hit(found) => Some(found),
            Found::Miss(_) => None,
        }
    }
}

impl<'a> Sequence<'a> {
    fn of(
        handle: Handle<sys::pc_sequence>,
        model: &Model,
        caches: Vec<Cache>,
        memo: Option<Memo>,
        callbacks: Arc<Callbacks<'a>>,
    ) -> Sequence<'a> {
        let target = Arc::new(Target(Mutex::new(handle.get())));
        let model = model.clone();
        Sequence { handle, target, callbacks, caches, memo, model, not_sync: PhantomData }
    }

    /// Makes a sequence. `cache` is a `&Cache`, or `None`.
    ///
    #[doc = c_doc!(pc_sequence_new)]
    pub fn new<'c>(
        prompt: &Prompt,
        cache: impl Into<Option<&'c Cache>>,
        options: &GenerateOptions,
        callbacks: Callbacks<'a>,
    ) -> Result<Sequence<'a>> {
        let (mut keep, callbacks) = (Keep::default(), Arc::new(callbacks));
        let mut raw = options.raw(&mut keep)?;
        callbacks.set(&mut raw);
        let cache = cache.into();
        let raw_cache = cache.map_or(ptr::null_mut(), Cache::as_ptr);
        // SAFETY: arguments live through the call; the functions as long as the sequence.
        let handle =
            make(|out| unsafe { sys::pc_sequence_new(out, prompt.as_ptr(), raw_cache, &raw) })?;
        let caches = cache.cloned().into_iter().collect();
        Ok(Self::of(handle, &prompt.model, caches, options.memo.clone(), callbacks))
    }

    /// A sequence as it was when it was saved last under this key.
    ///
    #[doc = c_doc!(pc_sequence_load)]
    pub fn load(
        model: &Model,
        cache: &Cache,
        key: &[u8; 32],
        options: &GenerateOptions,
        callbacks: Callbacks<'a>,
        save: &SaveOptions,
    ) -> Result<Found<Sequence<'a>>> {
        let (mut keep, callbacks) = (Keep::default(), Arc::new(callbacks));
        let mut raw = options.raw(&mut keep)?;
        let raw_save = save.raw(&mut keep)?;
        callbacks.set(&mut raw);
        let mut reason = 0;
        // SAFETY: as in new.
        let made = try_make(|out| unsafe {
            let (cache, key) = (cache.as_ptr(), key.as_ptr());
            sys::pc_sequence_load(out, model.as_ptr(), cache, key, &raw, &raw_save, &mut reason)
        })?;
        Ok(match made {
            Ok(handle) => {
                let (caches, memo) = (vec![cache.clone()], options.memo.clone());
                Found::Hit(Self::of(handle, model, caches, memo, callbacks))
            }
            Err(_) => Found::Miss(reason.into()),
        })
    }

    /// Removes what was saved under a key. False: there was nothing.
    ///
    #[doc = c_doc!(pc_sequence_forget)]
    pub fn forget(
        model: &Model,
        cache: &Cache,
        key: &[u8; 32],
        options: &SaveOptions,
    ) -> Result<bool> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        // SAFETY: arguments live through the call.
        let status = run(|| unsafe {
            sys::pc_sequence_forget(model.as_ptr(), cache.as_ptr(), key.as_ptr(), &raw)
        })?;
        Ok(status == sys::PC_OK)
    }

    /// A second continuation of everything so far. It shares the functions of this one, which get
    /// its number as `sample`. `sampling`: `None`: as this one's, with seed + its number.
    ///
    #[doc = c_doc!(pc_sequence_fork)]
    pub fn fork(&self, sampling: Option<&Sampling>) -> Result<Sequence<'a>> {
        let mut keep = Keep::default();
        let mut raw = sys::pc_fork_options::default();
        raw.sampling = keep.sampling(&sampling.cloned())?;
        // SAFETY: arguments live through the call; the functions as long as one of the sequences.
        let handle = make(|out| unsafe { sys::pc_sequence_fork(out, self.as_ptr(), &raw) })?;
        let (caches, memo) = (self.caches.clone(), self.memo.clone());
        Ok(Self::of(handle, &self.model, caches, memo, self.callbacks.clone()))
    }

    /// What cancels it, from any thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.target.clone())
    }

    /// An iterator of the text that it gives from here on.
    pub fn stream(self) -> Result<Stream<'a>> {
        Stream::of(self)
    }

    /// Tokens behind the prompt so far, sampled and pushed.
    pub fn tokens(&self) -> &[i32] {
        let mut count = 0;
        // SAFETY: borrowed until the next step or change, which need `self` mutably.
        unsafe { slice(sys::pc_sequence_tokens(self.as_ptr(), &mut count), count) }
    }

    /// The final text of the tokens sampled since the last push. Bytes that are not UTF-8 become
    /// U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.text_bytes())
    }

    /// As [`Sequence::text`], without a check and a copy.
    pub fn text_bytes(&self) -> &[u8] {
        let mut size = 0;
        // SAFETY: as in tokens.
        unsafe { slice(sys::pc_sequence_text(self.as_ptr(), &mut size).cast(), size) }
    }

    /// Why it ended; [`Finish::None`] while it runs.
    pub fn finish(&self) -> Finish {
        // SAFETY: the sequence lives.
        unsafe { sys::pc_sequence_finish(self.as_ptr()) }.into()
    }

    /// The error that has finished it.
    pub fn error(&self) -> Option<Error> {
        let mut text = ptr::null();
        // SAFETY: the text is copied.
        let status = unsafe { sys::pc_sequence_error(self.as_ptr(), &mut text) };
        if status < 0 {
            Some(Error::of_status(status, borrowed(text)))
        } else {
            None
        }
    }

    /// Statistics of the request so far.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = sys::pc_stats::default();
        // SAFETY: the struct is ours.
        run(|| unsafe { sys::pc_sequence_get_stats(self.as_ptr(), &mut stats) })?;
        Ok(Stats::from_raw(&stats))
    }

    /// Logits behind all tokens but the last sampled one, borrowed until the next step.
    ///
    #[doc = c_doc!(pc_sequence_logits)]
    pub fn logits(&self) -> Option<&[f32]> {
        let mut count = 0;
        // SAFETY: as in tokens.
        let start = unsafe { sys::pc_sequence_logits(self.as_ptr(), &mut count) };
        if start.is_null() {
            None
        } else {
            // SAFETY: as in tokens.
            Some(unsafe { slice(start, count) })
        }
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_sequence {
        self.handle.get()
    }

    /// What may change it.
    pub fn edit(&mut self) -> SequenceMut<'_, 'a> {
        SequenceMut(self)
    }

    /// As [`SequenceMut::set_options`].
    pub fn set_options(
        &mut self,
        options: &GenerateOptions,
        callbacks: Callbacks<'a>,
    ) -> Result<()> {
        self.edit().set_options(options, callbacks)
    }

    /// As [`SequenceMut::push`].
    pub fn push(&mut self, tokens: &[i32]) -> Result<()> {
        self.edit().push(tokens)
    }

    /// As [`SequenceMut::push_messages`].
    pub fn push_messages(&mut self, messages: &[Message], options: &ChatOptions) -> Result<()> {
        self.edit().push_messages(messages, options)
    }

    /// As [`SequenceMut::truncate`].
    pub fn truncate(&mut self, count: usize) -> Result<()> {
        self.edit().truncate(count)
    }

    /// As [`SequenceMut::spans`].
    pub fn spans(&mut self) -> Result<Vec<Span>> {
        self.edit().spans()
    }

    /// As [`SequenceMut::save`].
    pub fn save(&mut self, cache: &Cache, key: &[u8; 32], options: &SaveOptions) -> Result<bool> {
        self.edit().save(cache, key, options)
    }
}

impl fmt::Debug for Sequence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("text", &self.text())
            .field("finish", &self.finish())
            .finish_non_exhaustive()
    }
}

/// A sequence that may be changed, but not moved: it may be in a batch.
pub struct SequenceMut<'s, 'a>(&'s mut Sequence<'a>);

impl<'a> Deref for SequenceMut<'_, 'a> {
    type Target = Sequence<'a>;

    fn deref(&self) -> &Sequence<'a> {
        self.0
    }
}

impl fmt::Debug for SequenceMut<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a> SequenceMut<'_, 'a> {
    /// Replaces options and functions.
    ///
    #[doc = c_doc!(pc_sequence_set_options)]
    pub fn set_options(
        &mut self,
        options: &GenerateOptions,
        callbacks: Callbacks<'a>,
    ) -> Result<()> {
        let (mut keep, callbacks) = (Keep::default(), Arc::new(callbacks));
        let mut raw = options.raw(&mut keep)?;
        callbacks.set(&mut raw);
        // SAFETY: arguments live through the call; the functions as long as the sequence.
        run(|| unsafe { sys::pc_sequence_set_options(self.as_ptr(), &raw) })?;
        self.0.callbacks = callbacks;
        if options.memo.is_some() {
            self.0.memo = options.memo.clone();
        }
        Ok(())
    }

    /// Appends tokens: forced ones, or a further turn.
    ///
    #[doc = c_doc!(pc_sequence_push)]
    pub fn push(&mut self, tokens: &[i32]) -> Result<()> {
        // SAFETY: arguments live through the call.
        run(|| unsafe { sys::pc_sequence_push(self.as_ptr(), array_of(tokens), tokens.len()) })?;
        Ok(())
    }

    /// Appends messages behind the answer so far.
    ///
    #[doc = c_doc!(pc_sequence_push_messages)]
    pub fn push_messages(&mut self, messages: &[Message], options: &ChatOptions) -> Result<()> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let list = raw_messages(messages, &mut keep)?;
        let (start, stride) = (array_of(&list), size_of::<sys::pc_message>());
        // SAFETY: arguments live through the call.
        run(|| unsafe {
            sys::pc_sequence_push_messages(self.as_ptr(), start, stride, list.len(), &raw)
        })?;
        Ok(())
    }

    /// Drops all but the first `count` tokens behind the prompt.
    ///
    #[doc = c_doc!(pc_sequence_truncate)]
    pub fn truncate(&mut self, count: usize) -> Result<()> {
        // SAFETY: the sequence lives.
        run(|| unsafe { sys::pc_sequence_truncate(self.as_ptr(), count) })?;
        Ok(())
    }

    /// The states so far as segments in place, so that others can share them.
    ///
    #[doc = c_doc!(pc_sequence_spans)]
    pub fn spans(&mut self) -> Result<Vec<Span>> {
        let stride = size_of::<sys::pc_span>();
        // SAFETY: the array has the capacity.
        let spans = filled(|spans: *mut sys::pc_span, capacity, count| unsafe {
            sys::pc_sequence_spans(self.as_ptr(), spans, stride, capacity, count)
        })?;
        let made = |raw: sys::pc_span| Span {
            segment: Segment::of(Handle::take(raw.segment.cast()), Some(&self.0.model)),
            start: raw.start,
            lo: raw.lo,
            hi: raw.hi,
        };
        Ok(spans.into_iter().map(made).collect())
    }

    /// Saves tokens and states under a key. False: something had no room, or a tier is out of use;
    /// the save before stays.
    ///
    #[doc = c_doc!(pc_sequence_save)]
    pub fn save(&mut self, cache: &Cache, key: &[u8; 32], options: &SaveOptions) -> Result<bool> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        if !self.0.caches.iter().any(|held| held.as_ptr() == cache.as_ptr()) {
            self.0.caches.push(cache.clone());
        }
        // SAFETY: arguments live through the call.
        let status = run(|| unsafe {
            sys::pc_sequence_save(self.as_ptr(), cache.as_ptr(), key.as_ptr(), &raw)
        })?;
        Ok(status == sys::PC_OK)
    }
}

/// A sequence of a batch, by the number that it got when it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

/// What a step of a batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Some sequences go on.
    Running,
    /// All are finished.
    Finished,
}

/// A sequence that a batch did not take, and why.
#[derive(Debug)]
pub struct Refused<'a> {
    /// The sequence.
    pub sequence: Box<Sequence<'a>>,
    /// Why.
    pub error: Error,
}

impl From<Refused<'_>> for Error {
    fn from(refused: Refused<'_>) -> Error {
        refused.error
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused<'_> {}

/// Sequences of one model that are stepped together. It owns them: they may join and leave between
/// steps, but not within one.
///
/// ```compile_fail
/// fn wrong(batch: &mut promptcache::Batch<'_>, id: promptcache::SequenceId) {
///     let mut sequence = batch.get_mut(id).unwrap();
///     batch.step().unwrap(); // steps a sequence that is about to be changed
///     sequence.push(&[1]).unwrap();
/// }
/// ```
///
/// Nobody takes a sequence out by moving it:
///
/// ```compile_fail
/// fn wrong<'a>(batch: &mut promptcache::Batch<'a>, id: promptcache::SequenceId) {
///     let taken: promptcache::Sequence<'a> = *batch.get_mut(id).unwrap();
/// }
/// ```
pub struct Batch<'a> {
    // sequences go first: each leaves the batch
    sequences: BTreeMap<SequenceId, Sequence<'a>>,
    ids: HashMap<*mut sys::pc_sequence, SequenceId>,
    next: u64,
    handle: Handle<sys::pc_batch>,
}

// SAFETY: the pointers are those of `sequences`, which are sent along.
unsafe impl Send for Batch<'_> {}

impl<'a> Batch<'a> {
    /// Makes an empty batch.
    ///
    #[doc = c_doc!(pc_batch_new)]
    pub fn new(model: &Model, options: &BatchOptions) -> Result<Batch<'a>> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        // SAFETY: arguments live through the call.
        let handle = make(|out| unsafe { sys::pc_batch_new(out, model.as_ptr(), &raw) })?;
        Ok(Batch { sequences: BTreeMap::new(), ids: HashMap::new(), next: 0, handle })
    }

    /// Adds a sequence.
    ///
    #[doc = c_doc!(pc_batch_add)]
    pub fn add(&mut self, sequence: Sequence<'a>) -> std::result::Result<SequenceId, Refused<'a>> {
        // SAFETY: both live.
        let added = run(|| unsafe { sys::pc_batch_add(self.handle.get(), sequence.as_ptr()) });
        if let Err(error) = added {
            return Err(Refused { sequence: Box::new(sequence), error });
        }
        let id = SequenceId(self.next);
        self.next += 1;
        self.ids.insert(sequence.as_ptr(), id);
        self.sequences.insert(id, sequence);
        Ok(id)
    }

    /// Takes a sequence out.
    pub fn remove(&mut self, id: SequenceId) -> Option<Sequence<'a>> {
        let sequence = self.sequences.remove(&id)?;
        self.ids.remove(&sequence.as_ptr());
        // SAFETY: both live. It is in this batch.
        let removed = unsafe { sys::pc_batch_remove(self.handle.get(), sequence.as_ptr()) };
        debug_assert_eq!(removed, sys::PC_OK);
        Some(sequence)
    }

    /// A sequence of the batch.
    pub fn get(&self, id: SequenceId) -> Option<&Sequence<'a>> {
        self.sequences.get(&id)
    }

    /// A sequence of the batch, to change it.
    pub fn get_mut(&mut self, id: SequenceId) -> Option<SequenceMut<'_, 'a>> {
        self.sequences.get_mut(&id).map(SequenceMut)
    }

    /// Its sequences, in the order of joining.
    pub fn iter(&self) -> impl Iterator<Item = (SequenceId, &Sequence<'a>)> {
        self.sequences.iter().map(|(id, sequence)| (*id, sequence))
    }

    /// How many sequences it has.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Computes one token for every unfinished sequence. An error of a sequence finishes that one
    /// alone ([`Sequence::error`]). If a function of a sequence panics, that one ends as cancelled,
    /// the others finish the step, and then the panic goes on from here.
    ///
    #[doc = c_doc!(pc_batch_step)]
    pub fn step(&mut self) -> Result<Step> {
        // SAFETY: the batch lives, and its sequences with their functions.
        let status = run(|| unsafe { sys::pc_batch_step(self.handle.get()) })?;
        Ok(if status == sys::PC_END { Step::Finished } else { Step::Running })
    }

    /// Steps until all sequences are finished.
    pub fn run(&mut self) -> Result<()> {
        while self.step()? == Step::Running {}
        Ok(())
    }

    /// What a function has panicked with on a thread of the library.
    pub(crate) fn take_panic(&self) -> Option<Panic> {
        self.sequences.values().find_map(|sequence| sequence.callbacks.take_panic())
    }

    /// The sequences that got a token or finished in the last step and are still here.
    pub fn changed(&self) -> Vec<SequenceId> {
        let mut count = 0;
        // SAFETY: borrowed until the next step or change; copied here.
        let list = unsafe { slice(sys::pc_batch_changed(self.handle.get(), &mut count), count) };
        list.iter().filter_map(|sequence| self.ids.get(sequence).copied()).collect()
    }

    /// Counts what the next step reads.
    pub fn stats(&self) -> Result<BatchStats> {
        let mut stats = sys::pc_batch_stats::default();
        // SAFETY: the struct is ours.
        run(|| unsafe { sys::pc_batch_get_stats(self.handle.get(), &mut stats) })?;
        Ok(BatchStats::from_raw(&stats))
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_batch {
        self.handle.get()
    }
}

impl<'a> Index<SequenceId> for Batch<'a> {
    type Output = Sequence<'a>;

    /// Panics if the sequence is not in the batch.
    fn index(&self, id: SequenceId) -> &Sequence<'a> {
        &self.sequences[&id]
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
