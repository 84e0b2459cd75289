//! Segments: states by hand.
use crate::call::{array_of, run, slice, Handle};
use crate::error::Error;
use crate::{sys, Model, Result, Visibility};
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;

/// States of tokens. A clone is the same segment.
#[derive(Clone)]
pub struct Segment {
    handle: Arc<Handle<sys::pc_segment>>,
    model: Option<Model>,
}

/// A segment placed in a sequence. Its token j has the position start + relative position of j.
#[derive(Clone, Debug)]
pub struct Span {
    /// What is placed.
    pub segment: Segment,
    /// Position of the segment's start.
    pub start: i64,
    /// First token that takes part.
    pub lo: u32,
    /// Behind the last one that takes part; 0: all.
    pub hi: u32,
}

pub(crate) fn raw_spans(spans: &[Span]) -> Vec<sys::pc_span> {
    let raw = |span: &Span| sys::pc_span {
        segment: span.segment.as_ptr().cast(),
        start: span.start,
        lo: span.lo,
        hi: span.hi,
    };
    spans.iter().map(raw).collect()
}

impl Segment {
    pub(crate) fn of(handle: Handle<sys::pc_segment>, model: Option<&Model>) -> Segment {
        Segment { handle: Arc::new(handle), model: model.cloned() }
    }

    /// Its tokens, borrowed from it.
    pub fn tokens(&self) -> &[i32] {
        let mut count = 0;
        // SAFETY: borrowed from the segment.
        unsafe { slice(sys::pc_segment_tokens(self.as_ptr(), &mut count), count) }
    }

    /// How many numbers [`Segment::read`] writes to each of k and v.
    pub fn read_size(&self) -> Result<usize> {
        let model = self
            .model
            .as_ref()
            .ok_or_else(|| Error::invalid("the segment is of no model that computed it here"))?;
        let info = model.info();
        Ok(info.kv_heads as usize * self.tokens().len() * info.head_dim as usize)
    }

    /// K and V of one layer as placed at `start`, into slices of at least [`Segment::read_size`].
    ///
    #[doc = c_doc!(pc_segment_read)]
    pub fn read(
        &self,
        layer: i32,
        start: i64,
        k: Option<&mut [f32]>,
        v: Option<&mut [f32]>,
    ) -> Result<()> {
        let needed = self.read_size()?;
        let pointer = |name, array: Option<&mut [f32]>| match array {
            Some(array) if array.len() < needed => {
                let text = format!("{name} has room for {} of {needed} numbers", array.len());
                Err(Error::invalid(text))
            }
            Some(array) => Ok(array.as_mut_ptr()),
            None => Ok(ptr::null_mut()),
        };
        let (k, v) = (pointer("k", k)?, pointer("v", v)?);
        // SAFETY: both have room.
        run(|| unsafe { sys::pc_segment_read(self.as_ptr(), layer, start, k, v) })?;
        Ok(())
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_segment {
        self.handle.get()
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("tokens", &self.tokens().len()).finish_non_exhaustive()
    }
}

/// One sequence of an evaluation: spans, then new tokens.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'l> {
    /// Segments that its tokens see.
    pub spans: &'l [Span],
    /// New tokens.
    pub tokens: &'l [i32],
    /// One of each token; ascending, but for [`Visibility::All`].
    pub positions: &'l [i64],
}

impl Model {
    /// One forward pass over several lanes. Gives the new tokens' states, one segment of each lane,
    /// if `segments`; writes logits of all tokens of all lanes, `[token][vocab]`, if `logits`.
    ///
    #[doc = c_doc!(pc_eval)]
    pub fn eval(
        &self,
        lanes: &[Lane<'_>],
        visibility: Visibility,
        logits: Option<&mut [f32]>,
        segments: bool,
    ) -> Result<Vec<Segment>> {
        let mut made: Vec<*mut sys::pc_segment> =
            vec![ptr::null_mut(); if segments { lanes.len() } else { 0 }];
        let spans: Vec<_> = lanes.iter().map(|lane| raw_spans(lane.spans)).collect();
        let mut raw_lanes = Vec::with_capacity(lanes.len());
        for (lane, spans) in lanes.iter().zip(&spans) {
            if lane.positions.len() != lane.tokens.len() {
                return Err(Error::invalid("a lane has as many positions as tokens"));
            }
            raw_lanes.push(sys::pc_lane {
                spans: array_of(spans),
                span_count: spans.len(),
                span_stride: size_of::<sys::pc_span>(),
                tokens: array_of(lane.tokens),
                positions: array_of(lane.positions),
                count: lane.tokens.len(),
                types: ptr::null(),
            });
        }
        let mut args = sys::pc_eval_args::default();
        args.lanes = array_of(&raw_lanes);
        args.lane_stride = size_of::<sys::pc_lane>();
        args.lane_count = lanes.len();
        args.visibility = visibility.into();
        if let Some(logits) = logits {
            let count = |sum: usize, lane: &Lane<'_>| sum.saturating_add(lane.tokens.len());
            let needed = lanes.iter().fold(0, count).saturating_mul(self.info().vocab as usize);
            if logits.len() < needed {
                let text = format!("logits has room for {} of {needed} numbers", logits.len());
                return Err(Error::invalid(text));
            }
            args.logits = logits.as_mut_ptr();
        }
        if segments {
            args.segments = made.as_mut_ptr();
        }
        // SAFETY: all arrays live through the call and have the sizes that it wants.
        run(|| unsafe { sys::pc_eval(self.as_ptr(), &args) })?;
        made.retain(|segment| !segment.is_null());
        Ok(made.into_iter().map(|segment| Segment::of(Handle::take(segment), Some(self))).collect())
    }
}
