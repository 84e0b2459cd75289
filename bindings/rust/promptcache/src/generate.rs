//! Answers: all at once, with functions that get the text, or as an iterator.
use crate::call::{run, Keep};
use crate::{
    sys, Batch, Cache, Callbacks, Canceller, GenerateOptions, Prompt, Result, Sequence, SequenceId,
    Stats, Step,
};

/// The answer to a prompt, and where its tokens came from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The text of sample 0.
    pub text: String,
    /// Statistics of the request.
    pub stats: Stats,
}

impl Prompt {
    /// Answers the prompt. `callbacks` get the text, and may end it. `cache` is a `&Cache`, or
    /// `None`: nothing is looked up or stored.
    ///
    #[doc = c_doc!(pc_generate)]
    pub fn generate<'c>(
        &self,
        cache: impl Into<Option<&'c Cache>>,
        options: &GenerateOptions,
        callbacks: Callbacks<'_>,
    ) -> Result<Stats> {
        self.generate_counted(cache, options, callbacks).0
    }

    /// As [`Prompt::generate`]. The statistics are there after an error too, as far as the work
    /// came.
    pub fn generate_counted<'c>(
        &self,
        cache: impl Into<Option<&'c Cache>>,
        options: &GenerateOptions,
        callbacks: Callbacks<'_>,
    ) -> (Result<Stats>, Stats) {
        let (mut keep, mut stats) = (Keep::default(), sys::pc_stats::default());
        let result = options.raw(&mut keep).and_then(|mut raw| {
            callbacks.set(&mut raw);
            let cache = cache.into().map_or(std::ptr::null_mut(), Cache::as_ptr);
            // SAFETY: all arguments live through the call.
            run(|| unsafe { sys::pc_generate(self.as_ptr(), cache, &raw, &mut stats) })
        });
        let stats = Stats::from_raw(&stats);
        (result.map(|_| stats.clone()), stats)
    }

    /// Answers the prompt and gives the text of sample 0.
    pub fn answer<'c>(
        &self,
        cache: impl Into<Option<&'c Cache>>,
        options: &GenerateOptions,
    ) -> Result<Answer> {
        let mut text = String::new();
        let callbacks = Callbacks::new().on_sample_text(|sample, piece| {
            if sample == 0 {
                text.push_str(piece);
            }
        });
        let stats = self.generate(cache, options, callbacks)?;
        Ok(Answer { text, stats })
    }

    /// The answer as an iterator of its text. Nothing is computed before `next` is called, and no
    /// thread is used: each call computes tokens until there is text.
    pub fn stream<'c>(
        &self,
        cache: impl Into<Option<&'c Cache>>,
        options: &GenerateOptions,
    ) -> Result<Stream<'static>> {
        Sequence::new(self, cache, options, Callbacks::new())?.stream()
    }
}

/// An iterator of the text of one sequence. It ends behind the last piece, or behind an error.
#[derive(Debug)]
pub struct Stream<'a> {
    batch: Batch<'a>,
    id: SequenceId,
    given: usize,
    ended: bool,
    told: bool,
}

impl<'a> Stream<'a> {
    pub(crate) fn of(sequence: Sequence<'a>) -> Result<Stream<'a>> {
        let mut batch = Batch::new(&sequence.model, &Default::default())?;
        let given = sequence.text_bytes().len();
        let id = batch.add(sequence).map_err(|refused| refused.error)?;
        Ok(Stream { batch, id, given, ended: false, told: false })
    }

    /// The sequence: its tokens, statistics, and why it ended.
    pub fn sequence(&self) -> &Sequence<'a> {
        &self.batch[self.id]
    }

    /// Cancels the sequence from any thread.
    pub fn canceller(&self) -> Canceller {
        self.sequence().canceller()
    }

    /// The sequence, to go on with it by other means.
    pub fn into_sequence(mut self) -> Sequence<'a> {
        self.batch.remove(self.id).expect("nothing else takes it out")
    }

    /// Text that is there and was not given yet.
    fn piece(&mut self) -> Option<String> {
        let text = self.batch[self.id].text_bytes().get(self.given..).unwrap_or_default();
        let piece = String::from_utf8_lossy(text).into_owned();
        self.given += text.len();
        if piece.is_empty() {
            None
        } else {
            Some(piece)
        }
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        while !self.ended {
            let step = self.batch.step();
            self.ended = !matches!(step, Ok(Step::Running));
            if let Err(error) = step {
                self.told = true;
                return Some(Err(error));
            }
            if let Some(piece) = self.piece() {
                return Some(Ok(piece));
            }
        }
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        self.sequence().error().map(Err)
    }
}

impl std::iter::FusedIterator for Stream<'_> {}
