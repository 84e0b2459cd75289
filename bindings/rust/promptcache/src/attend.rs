//! Attention over the application's own queries, keys and values, in host memory.
use crate::call::{array_of, make, run, Handle, Keep};
use crate::error::Error;
use crate::{sys, AttendShape, Context, KvOrder, MergeFlags, Result, Rope};
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr;

impl AttendShape {
    fn sys(&self) -> Result<sys::pc_attend_shape> {
        self.raw(&mut Keep::default())
    }

    /// Bytes of a packed run of `tokens` tokens; 0: the shape is invalid.
    pub fn pages_bytes(&self, tokens: usize) -> usize {
        // SAFETY: the shape lives through the call.
        self.sys().map_or(0, |raw| unsafe { sys::pc_pages_bytes(&raw, tokens) })
    }
}

/// A packed run: K and V of tokens of one layer, in pages as kernels read them.
///
/// It has the room of its capacity, which begins as zeros.
pub struct Pages {
    start: *mut u8,
    layout: Layout,
    shape: AttendShape,
    capacity: usize,
}

// SAFETY: plain memory.
unsafe impl Send for Pages {}
// SAFETY: plain memory, which is written through `&mut` alone.
unsafe impl Sync for Pages {}

/// Which tokens of memory a call reads or writes: `[token][kv_head][dim]`, or as the order says.
fn kv_size(shape: &AttendShape, dims: i32, count: usize) -> usize {
    count * shape.kv_heads as usize * dims as usize
}

impl Pages {
    /// Room for a run of `capacity` tokens.
    pub fn new(shape: &AttendShape, capacity: usize) -> Result<Pages> {
        let bytes = shape.pages_bytes(capacity.max(1));
        let layout = Layout::from_size_align(bytes, 64).ok().filter(|_| bytes > 0);
        let layout = layout.ok_or_else(|| Error::invalid("no run has this shape and length"))?;
        // SAFETY: not of size 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Pages { start, layout, shape: shape.clone(), capacity })
    }

    /// The bytes, aligned to 64.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised memory of this size.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }

    /// Tokens that it has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn args(
        &self,
        raw: &sys::pc_attend_shape,
        first: usize,
        count: usize,
        order: KvOrder,
    ) -> Result<sys::pc_pages_args> {
        if first.checked_add(count).map_or(true, |end| end > self.capacity) {
            let text = format!("tokens {first} + {count} of a run of {}", self.capacity);
            return Err(Error::invalid(text));
        }
        let mut args = sys::pc_pages_args::default();
        (args.shape, args.pages) = (raw, self.start.cast());
        (args.first, args.count, args.layout) = (first, count, order.into());
        Ok(args)
    }

    /// Writes `count` tokens from token `first` on.
    ///
    #[doc = c_doc!(pc_pages_write)]
    pub fn write(
        &mut self,
        first: usize,
        count: usize,
        k: &[f32],
        v: &[f32],
        order: KvOrder,
    ) -> Result<()> {
        let raw = self.shape.sys()?;
        let mut args = self.args(&raw, first, count, order)?;
        if k.len() < kv_size(&self.shape, self.shape.k_dim, count)
            || v.len() < kv_size(&self.shape, self.shape.v_dim, count)
        {
            return Err(Error::invalid(format!("k or v has less than {count} tokens")));
        }
        // k and v are only read
        (args.k, args.v) = (array_of(k) as *mut _, array_of(v) as *mut _);
        // SAFETY: all memory has the sizes that follow from the shape.
        run(|| unsafe { sys::pc_pages_write(&args) })?;
        Ok(())
    }

    /// Reads `count` tokens from token `first` on.
    pub fn read(
        &self,
        first: usize,
        count: usize,
        k: &mut [f32],
        v: &mut [f32],
        order: KvOrder,
    ) -> Result<()> {
        let raw = self.shape.sys()?;
        let mut args = self.args(&raw, first, count, order)?;
        if k.len() < kv_size(&self.shape, self.shape.k_dim, count)
            || v.len() < kv_size(&self.shape, self.shape.v_dim, count)
        {
            return Err(Error::invalid(format!("k or v has no room for {count} tokens")));
        }
        (args.k, args.v) = (k.as_mut_ptr().cast(), v.as_mut_ptr().cast());
        // SAFETY: as in write.
        run(|| unsafe { sys::pc_pages_read(&args) })?;
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: of alloc_zeroed, with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Tokens of one layer that rows see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run<'r> {
    /// Number of its tokens.
    pub tokens: usize,
    /// Positions minus the run's start, ascending; empty: 0, 1, 2, …
    pub relative: &'r [i64],
}

/// Tokens [lo, hi) of a run that starts at position `start` of this row's sequence.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowSpan {
    /// Index of the run.
    pub run: u32,
    /// Position of the run's start.
    pub start: i64,
    /// First token that the row sees.
    pub lo: u32,
    /// Behind the last token that the row sees; 0: all from lo on.
    pub hi: u32,
}

/// One query token.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its position.
    pub position: i64,
    /// What it sees.
    pub spans: Vec<RowSpan>,
}

/// Which rows read which runs together. For all layers of a step.
pub struct Plan {
    handle: Handle<sys::pc_plan>,
    shape: AttendShape,
    tokens: Vec<usize>,
    rows: usize,
    /// one thread at a time
    not_sync: PhantomData<Cell<()>>,
}

/// How a layer attends, beside its runs and queries.
#[derive(Clone, Debug, Default)]
pub struct Attend {
    /// Queries are rotated; `None`: they are used as they are.
    pub rope: Option<Rope>,
    /// ALiBi: a slope of each head; empty: none.
    pub slopes: Vec<f32>,
    /// One more score of each head, without a key and a value; empty: none.
    pub sinks: Vec<f32>,
    /// Sees keys with row position - key position below it; 0: all.
    pub window: i64,
    /// Sees keys of the row's chunk of so many positions; 0: all.
    pub chunk: i64,
    /// Multiplies scores; 0: 1 / sqrt(k_dim).
    pub scale: f32,
    /// cap * tanh(score / cap); 0: none.
    pub soft_cap: f32,
}

impl Plan {
    /// Makes a plan of packed runs and rows. Everything is copied. The context's backend must be
    /// "cpu": others read and write memory of their devices, which no slice is.
    ///
    #[doc = c_doc!(pc_plan_new)]
    pub fn new(
        context: &Context,
        shape: &AttendShape,
        runs: &[Run<'_>],
        rows: &[Row],
    ) -> Result<Plan> {
        if !context.on_host {
            // it would take addresses of the host for those of its device, unchecked
            return Err(Error::of_status(
                sys::PC_ERR_UNSUPPORTED,
                "a plan needs a context of backend \"cpu\"; for devices there is promptcache::sys"
                    .to_string(),
            ));
        }
        let raw_shape = shape.sys()?;
        let mut raw_runs = Vec::with_capacity(runs.len());
        for run in runs {
            if !run.relative.is_empty() && run.relative.len() != run.tokens {
                return Err(Error::invalid("a run has as many relative positions as tokens"));
            }
            let relative = array_of(run.relative);
            raw_runs.push(sys::pc_run { tokens: run.tokens, relative, pages: ptr::null() });
        }
        let (mut first, mut spans) = (vec![0u32], Vec::new());
        for row in rows {
            for span in &row.spans {
                let RowSpan { run, start, lo, hi } = *span;
                spans.push(sys::pc_row_span { run, start, lo, hi, reserved: 0 });
            }
            let end = u32::try_from(spans.len());
            first.push(end.map_err(|_| Error::invalid("more spans than 32 bits count"))?);
        }
        let positions: Vec<i64> = rows.iter().map(|row| row.position).collect();
        let mut args = sys::pc_plan_args::default();
        args.shape = &raw_shape;
        (args.runs, args.run_count) = (array_of(&raw_runs), runs.len());
        args.run_stride = size_of::<sys::pc_run>();
        (args.positions, args.row_count) = (array_of(&positions), rows.len());
        (args.first, args.spans) = (first.as_ptr(), array_of(&spans));
        args.span_stride = size_of::<sys::pc_row_span>();
        // SAFETY: all arrays live through the call.
        let handle = make(|out| unsafe { sys::pc_plan_new(out, context.as_ptr(), &args) })?;
        let (shape, rows) = (shape.clone(), rows.len());
        let tokens = runs.iter().map(|run| run.tokens).collect();
        Ok(Plan { handle, shape, tokens, rows, not_sync: PhantomData })
    }

    /// Attention of all rows of one layer: queries `q` `[row][head][k_dim]` over packed `runs` to
    /// `out` `[row][head][v_dim]`, and log-sum-exps `[row][head]`, if wanted.
    ///
    #[doc = c_doc!(pc_attend)]
    pub fn attend(
        &mut self,
        runs: &[&Pages],
        q: &[f32],
        out: &mut [f32],
        lse: Option<&mut [f32]>,
        how: &Attend,
    ) -> Result<()> {
        let heads = self.shape.heads as usize;
        self.check_runs(runs)?;
        let vectors = self.rows.saturating_mul(heads);
        let wanted = [
            ("q", q.len(), vectors.saturating_mul(self.shape.k_dim as usize)),
            ("out", out.len(), vectors.saturating_mul(self.shape.v_dim as usize)),
            ("lse", lse.as_ref().map_or(vectors, |lse| lse.len()), vectors),
        ];
        for (name, has, needed) in wanted {
            if has < needed {
                return Err(Error::invalid(format!("{name} has {has} of {needed} numbers")));
            }
        }
        for (name, count) in [("slopes", how.slopes.len()), ("sinks", how.sinks.len())] {
            if count != 0 && count != heads {
                return Err(Error::invalid(format!("{name}: {count} of {heads} heads")));
            }
        }
        let mut keep = Keep::default();
        let rope = how.rope.as_ref().map(|rope| checked_rope(rope, &mut keep)).transpose()?;
        let pages: Vec<_> = runs.iter().map(|run| run.start as *const _).collect();
        let mut args = sys::pc_attend_args::default();
        args.pages = array_of(&pages);
        (args.q, args.out) = (q.as_ptr().cast(), out.as_mut_ptr().cast());
        args.lse = lse.map_or(ptr::null_mut(), |lse| lse.as_mut_ptr());
        args.rope = rope.as_ref().map_or(ptr::null(), |rope| rope);
        (args.slopes, args.sinks) = (array_of(&how.slopes), array_of(&how.sinks));
        (args.window, args.chunk) = (how.window, how.chunk);
        (args.scale, args.soft_cap) = (how.scale, how.soft_cap);
        // SAFETY: all memory has the sizes that follow from shape, runs and rows.
        run(|| unsafe { sys::pc_attend(self.handle.get(), &args) })?;
        Ok(())
    }

    fn check_runs(&self, runs: &[&Pages]) -> Result<()> {
        if runs.len() != self.tokens.len() {
            let text = format!("{} runs, the plan has {}", runs.len(), self.tokens.len());
            return Err(Error::invalid(text));
        }
        for (index, (run, tokens)) in runs.iter().zip(&self.tokens).enumerate() {
            let fits = run.shape.kv_heads == self.shape.kv_heads
                && run.shape.k_dim == self.shape.k_dim
                && run.shape.v_dim == self.shape.v_dim
                && run.shape.dtype == self.shape.dtype
                && run.capacity >= *tokens;
            if !fits {
                let text = format!("run {index} is not of the plan's shape and length");
                return Err(Error::invalid(text));
            }
        }
        Ok(())
    }
}

fn checked_rope(rope: &Rope, keep: &mut Keep) -> Result<sys::pc_rope> {
    let needed = usize::try_from(rope.dims).unwrap_or(0) / 2;
    if rope.frequency.len() < needed {
        let text = format!("rope: {} of {needed} frequencies", rope.frequency.len());
        return Err(Error::invalid(text));
    }
    rope.raw(keep)
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A partial result: `[row][head][v_dim]`, and log-sum-exps `[row][head]`.
#[derive(Clone, Copy, Debug)]
pub struct Partial<'p> {
    /// Values.
    pub out: &'p [f32],
    /// Log-sum-exps; -infinity: saw nothing.
    pub lse: &'p [f32],
}

/// Joins partial results of the same queries over parts of their keys, without gaps.
///
#[doc = c_doc!(pc_merge)]
pub fn merge(
    parts: &[Partial<'_>],
    heads: i32,
    v_dim: i32,
    out: &mut [f32],
    lse: &mut [f32],
    flags: MergeFlags,
) -> Result<()> {
    let width = usize::try_from(heads).unwrap_or(0);
    let rows = lse.len().checked_div(width).unwrap_or(0);
    let needed = rows * width;
    let numbers = needed.saturating_mul(usize::try_from(v_dim).unwrap_or(0));
    let short = |part: &Partial<'_>| part.lse.len() < needed || part.out.len() < numbers;
    if out.len() < numbers || parts.iter().any(short) {
        return Err(Error::invalid(format!("merge: {rows} rows need {numbers} numbers")));
    }
    let outs: Vec<_> = parts.iter().map(|part| part.out.as_ptr()).collect();
    let lses: Vec<_> = parts.iter().map(|part| part.lse.as_ptr()).collect();
    let mut args = sys::pc_merge_args::default();
    (args.outs, args.lses) = (array_of(&outs), array_of(&lses));
    (args.part_count, args.row_count) = (parts.len(), rows);
    (args.heads, args.v_dim) = (heads, v_dim);
    (args.out, args.lse) = (out.as_mut_ptr(), lse.as_mut_ptr());
    args.flags = flags.bits();
    // SAFETY: all memory has the sizes that follow from rows, heads and v_dim.
    run(|| unsafe { sys::pc_merge(&args) })?;
    Ok(())
}
