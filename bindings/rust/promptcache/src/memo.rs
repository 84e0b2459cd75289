//! Memos: attention maps of similar prompts; prompts without an answer.
use crate::call::{array_of, c_path, last_border, listed, run, try_make, Handle, Keep};
use crate::callbacks::{with_progress, CallbackResult, Progress};
use crate::error::Error;
use crate::{
    sys, CancelToken, Loss, MemoBucket, MemoOptions, MemoResult, MemoStats, MemoWork, Model,
    PrefillOptions, PrefillStats, Result, Segment,
};
use std::mem::size_of;
use std::os::raw::c_void;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

type OnDisabled = Box<dyn Fn(u32, f64, f64) + Send + Sync>;

unsafe extern "C" fn tell_disabled(user: *mut c_void, bucket: u32, loss: f64, limit: f64) {
    // SAFETY: `user` is of Owned.
    let function = unsafe { &*user.cast::<OnDisabled>() };
    last_border(|| function(bucket, loss, limit));
}

/// The memo goes first. All that may keep the memo of C alive has a clone of `Memo`.
struct Owned {
    handle: Handle<sys::pc_memo>,
    _disabled: Option<Box<OnDisabled>>,
}

/// Attention maps of earlier prompts, in a folder. A clone is the same memo.
#[derive(Clone)]
pub struct Memo {
    owned: Arc<Owned>,
    model: Model,
}

/// One prompt without an answer.
#[derive(Clone, Copy, Debug)]
pub struct Input<'i> {
    /// With the special tokens that the model wants.
    pub tokens: &'i [i32],
    /// One of each token (BERT), or empty: all 0.
    pub types: &'i [i32],
}

impl<'i> From<&'i [i32]> for Input<'i> {
    fn from(tokens: &'i [i32]) -> Self {
        Input { tokens, types: &[] }
    }
}

impl<'i> From<&'i Vec<i32>> for Input<'i> {
    fn from(tokens: &'i Vec<i32>) -> Self {
        Input { tokens, types: &[] }
    }
}

fn raw_inputs(inputs: &[Input<'_>]) -> Result<Vec<sys::pc_input>> {
    let raw = |input: &Input<'_>| {
        if !input.types.is_empty() && input.types.len() != input.tokens.len() {
            return Err(Error::invalid("an input has as many types as tokens, or none"));
        }
        Ok(sys::pc_input {
            tokens: array_of(input.tokens),
            count: input.tokens.len(),
            types: array_of(input.types),
        })
    };
    inputs.iter().map(raw).collect()
}

impl Memo {
    /// Opens the memo in a folder, or makes an empty one there. None: another process is adding;
    /// [`MemoFlags::READ_ONLY`](crate::MemoFlags::READ_ONLY) works.
    ///
    #[doc = c_doc!(pc_memo_open)]
    pub fn open(
        model: &Model,
        folder: impl AsRef<Path>,
        options: &MemoOptions,
    ) -> Result<Option<Memo>> {
        Self::open_with(model, folder.as_ref(), options, None)
    }

    /// As [`Memo::open`]. `disabled` is told when a bucket was closed because its loss has grown:
    /// bucket, loss, limit; on the thread whose hit was verified. A panic in it ends there.
    pub fn open_watched(
        model: &Model,
        folder: impl AsRef<Path>,
        options: &MemoOptions,
        disabled: impl Fn(u32, f64, f64) + Send + Sync + 'static,
    ) -> Result<Option<Memo>> {
        Self::open_with(model, folder.as_ref(), options, Some(Box::new(Box::new(disabled))))
    }

    fn open_with(
        model: &Model,
        folder: &Path,
        options: &MemoOptions,
        disabled: Option<Box<OnDisabled>>,
    ) -> Result<Option<Memo>> {
        let (mut keep, folder) = (Keep::default(), c_path(folder)?);
        let mut raw = options.raw(&mut keep)?;
        if let Some(function) = &disabled {
            raw.on_disabled = Some(tell_disabled);
            raw.disabled_user = &**function as *const OnDisabled as *mut c_void;
        }
        // SAFETY: arguments live through the call, the function as long as the memo; so below.
        let made = try_make(|out| unsafe {
            sys::pc_memo_open(out, model.as_ptr(), folder.as_ptr(), &raw)
        })?;
        Ok(made.ok().map(|handle| Memo {
            owned: Arc::new(Owned { handle, _disabled: disabled }),
            model: model.clone(),
        }))
    }

    /// Computes inputs in full and stores their maps and outputs.
    ///
    #[doc = c_doc!(pc_memo_add)]
    pub fn add<R: CallbackResult>(
        &self,
        inputs: &[Input<'_>],
        work: &MemoWork,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<()> {
        let list = raw_inputs(inputs)?;
        self.work(work, progress, |raw| unsafe {
            sys::pc_memo_add(self.as_ptr(), array_of(&list), INPUT, list.len(), raw)
        })
    }

    /// Trains the projectors of all buckets.
    ///
    #[doc = c_doc!(pc_memo_train)]
    pub fn train<R: CallbackResult>(
        &self,
        work: &MemoWork,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<()> {
        self.work(work, progress, |raw| unsafe { sys::pc_memo_train(self.as_ptr(), raw) })
    }

    /// Sets each bucket's threshold.
    ///
    #[doc = c_doc!(pc_memo_tune)]
    pub fn tune<R: CallbackResult>(
        &self,
        inputs: &[Input<'_>],
        work: &MemoWork,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<()> {
        let list = raw_inputs(inputs)?;
        self.work(work, progress, |raw| unsafe {
            sys::pc_memo_tune(self.as_ptr(), array_of(&list), INPUT, list.len(), raw)
        })
    }

    fn work<R: CallbackResult>(
        &self,
        work: &MemoWork,
        progress: impl FnMut(Progress<'_>) -> R,
        call: impl FnOnce(&sys::pc_memo_work) -> sys::pc_status,
    ) -> Result<()> {
        let mut keep = Keep::default();
        let mut raw = work.raw(&mut keep)?;
        with_progress(progress, |function, user| {
            (raw.progress, raw.progress_user) = (function, user);
            run(|| call(&raw))
        })?;
        Ok(())
    }

    /// Compresses cold records and gives unused room back to the file system.
    pub fn tidy(&self) -> Result<()> {
        run(|| unsafe { sys::pc_memo_tidy(self.as_ptr()) })?;
        Ok(())
    }

    /// The buckets, by length.
    pub fn buckets(&self) -> Result<Vec<MemoBucket>> {
        let count = unsafe { sys::pc_memo_bucket_count(self.as_ptr()) };
        let bucket = |index| {
            let mut raw = sys::pc_memo_bucket::default();
            run(|| unsafe { sys::pc_memo_get_bucket(self.as_ptr(), index, &mut raw) })?;
            Ok(MemoBucket::from_raw(&raw))
        };
        listed(bucket, count)
    }

    /// Sets a bucket's threshold by the application's own measure, and opens it.
    ///
    #[doc = c_doc!(pc_memo_set_threshold)]
    pub fn set_threshold(
        &self,
        index: usize,
        threshold: f64,
        loss: Loss,
        hit_limit: f64,
    ) -> Result<()> {
        let none = ptr::null();
        run(|| unsafe {
            let memo = self.as_ptr();
            sys::pc_memo_set_threshold(memo, index, threshold, loss.into(), hit_limit, none)
        })?;
        Ok(())
    }

    /// Counters since the memo was opened.
    pub fn stats(&self) -> Result<MemoStats> {
        let mut stats = sys::pc_memo_stats::default();
        run(|| unsafe { sys::pc_memo_get_stats(self.as_ptr(), &mut stats) })?;
        Ok(MemoStats::from_raw(&stats))
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_memo {
        self.owned.handle.get()
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").field("model", &self.model).finish_non_exhaustive()
    }
}

const INPUT: usize = size_of::<sys::pc_input>();

/// Where [`Model::prefill`] writes, and what it makes.
#[derive(Debug, Default)]
pub struct PrefillOutputs<'o> {
    /// `[input][ModelInfo::hidden]`.
    pub embeddings: Option<&'o mut [f32]>,
    /// `[input][ModelInfo::vocab]` of the next token; of an encoder with a head
    /// `[input][ModelInfo::classes]`.
    pub logits: Option<&'o mut [f32]>,
    /// Whether the prompts' states are wanted.
    pub segments: bool,
}

/// What [`Model::prefill`] has made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prefilled {
    /// The prompts' states, if they were wanted.
    pub segments: Vec<Segment>,
    /// What the memo did for each prompt.
    pub results: Vec<MemoResult>,
    /// Statistics.
    pub stats: PrefillStats,
}

/// The start of an array for `count` rows, if it has room for them.
fn room(name: &str, array: Option<&mut [f32]>, count: usize, width: usize) -> Result<*mut f32> {
    let needed = count.saturating_mul(width);
    match array {
        None => Ok(ptr::null_mut()),
        Some(array) if array.len() < needed => {
            let text = format!("{name} has room for {} of {needed} numbers", array.len());
            Err(Error::invalid(text))
        }
        Some(array) => Ok(array.as_mut_ptr()),
    }
}

impl Model {
    /// Computes prompts that need no answer beyond their last hidden states.
    ///
    #[doc = c_doc!(pc_prefill)]
    pub fn prefill(
        &self,
        inputs: &[Input<'_>],
        options: &PrefillOptions,
        outputs: PrefillOutputs<'_>,
        cancel: Option<&CancelToken>,
    ) -> Result<Prefilled> {
        let (mut keep, info, count) = (Keep::default(), self.info(), inputs.len());
        if !options.map_layers.is_empty() && options.map_layers.len() != info.layers as usize {
            return Err(Error::invalid(format!("map_layers: one of each of {}", info.layers)));
        }
        let list = raw_inputs(inputs)?;
        let mut raw = options.raw(&mut keep)?;
        let logits = if info.classes > 0 { info.classes } else { info.vocab as u32 };
        raw.embeddings = room("embeddings", outputs.embeddings, count, info.hidden as usize)?;
        raw.logits = room("logits", outputs.logits, count, logits as usize)?;
        let mut segments = vec![ptr::null_mut(); if outputs.segments { count } else { 0 }];
        if outputs.segments {
            raw.segments = segments.as_mut_ptr();
        }
        let mut results = vec![sys::pc_memo_result::default(); count];
        raw.results = results.as_mut_ptr();
        raw.result_stride = size_of::<sys::pc_memo_result>();
        if let Some(cancel) = cancel {
            (raw.cancelled, raw.cancel_user) = cancel.polled();
        }
        let mut stats = sys::pc_prefill_stats::default();
        // SAFETY: arguments live through the call; arrays have room.
        run(|| unsafe {
            sys::pc_prefill(self.as_ptr(), array_of(&list), INPUT, count, &raw, &mut stats)
        })?;
        let segments = segments.into_iter().filter(|segment| !segment.is_null());
        Ok(Prefilled {
            segments: segments
                .map(|segment| Segment::of(Handle::take(segment), Some(self)))
                .collect(),
            results: results.iter().map(MemoResult::from_raw).collect(),
            stats: PrefillStats::from_raw(&stats),
        })
    }
}
