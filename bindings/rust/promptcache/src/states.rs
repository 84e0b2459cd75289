//! K and V of another runtime in the cache, by key.
use crate::call::{array_of, data_of, make, run, slice, try_make, Handle, Keep};
use crate::error::Error;
use crate::{
    sys, Cache, Context, Found, GetInfo, GetOptions, KeyParts, PutOptions, Result, Segment,
    StatesShape,
};
use std::any::Any;
use std::mem::size_of;
use std::os::raw::c_void;
use std::ptr;

/// The base key: digest of everything but tokens.
///
#[doc = c_doc!(pc_key_base)]
pub fn key_base(parts: &KeyParts) -> Result<[u8; 32]> {
    let (mut keep, mut base) = (Keep::default(), [0; 32]);
    let raw = parts.raw(&mut keep)?;
    // SAFETY: arguments live through the call; so everywhere below.
    run(|| unsafe { sys::pc_key_base(base.as_mut_ptr(), &raw) })?;
    Ok(base)
}

/// What a segment's key holds beside its base.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentKey<'k> {
    /// Key of the last segment that this one saw, and the distance from its start to this one's.
    pub parent: Option<(&'k [u8; 32], i64)>,
    /// Position at which it was computed, if it cannot be moved; else 0.
    pub offset: i64,
    /// Its tokens.
    pub tokens: &'k [i32],
    /// Positions minus the first one's, ascending; empty: 0, 1, 2, …
    pub relative: &'k [i64],
}

impl SegmentKey<'_> {
    /// The key.
    ///
    #[doc = c_doc!(pc_key_segment)]
    pub fn key(&self, base: &[u8; 32]) -> Result<[u8; 32]> {
        check_relative(self.tokens, self.relative)?;
        let (mut raw, mut key) = (sys::pc_key_segment_args::default(), [0; 32]);
        raw.base = base.as_ptr();
        if let Some((parent, distance)) = self.parent {
            (raw.parent, raw.distance) = (parent.as_ptr(), distance);
        }
        raw.offset = self.offset;
        (raw.tokens, raw.count) = (array_of(self.tokens), self.tokens.len());
        raw.relative = array_of(self.relative);
        run(|| unsafe { sys::pc_key_segment(key.as_mut_ptr(), &raw) })?;
        Ok(key)
    }
}

fn check_relative(tokens: &[i32], relative: &[i64]) -> Result<()> {
    if relative.is_empty() || relative.len() == tokens.len() {
        Ok(())
    } else {
        Err(Error::invalid("as many relative positions as tokens, or none"))
    }
}

/// States as memory: one block per layer, or as the application likes. Nothing is copied.
#[derive(Clone, Debug)]
pub struct States<'s> {
    /// What they are.
    pub shape: StatesShape,
    /// Their tokens.
    pub tokens: &'s [i32],
    /// Positions minus the first one's; empty: 0, 1, 2, …
    pub relative: &'s [i64],
    /// The blocks.
    pub blocks: Vec<&'s [u8]>,
}

/// Where C finds the blocks.
struct Blocks {
    starts: Vec<*const c_void>,
    bytes: Vec<u64>,
}

impl Blocks {
    fn of<'b>(blocks: impl Iterator<Item = &'b [u8]>) -> Blocks {
        let (starts, bytes) = blocks.map(|block| (data_of(block), block.len() as u64)).unzip();
        Blocks { starts, bytes }
    }

    fn raw(
        &self,
        shape: &StatesShape,
        tokens: &[i32],
        relative: &[i64],
        keep: &mut Keep,
    ) -> Result<sys::pc_raw> {
        check_relative(tokens, relative)?;
        let mut raw = shape.raw(keep)?;
        (raw.tokens, raw.token_count) = (array_of(tokens), tokens.len());
        raw.relative = array_of(relative);
        (raw.blocks, raw.block_bytes) = (array_of(&self.starts), array_of(&self.bytes));
        raw.block_count = self.bytes.len();
        Ok(raw)
    }
}

/// What an entry must be: shape, tokens and sizes of blocks.
#[derive(Clone, Debug, Default)]
pub struct Expected<'e> {
    /// What the states are.
    pub shape: StatesShape,
    /// Their tokens.
    pub tokens: &'e [i32],
    /// Positions minus the first one's; empty: 0, 1, 2, …
    pub relative: &'e [i64],
    /// Bytes of each block.
    pub block_bytes: &'e [u64],
}

impl Expected<'_> {
    fn raw(&self, keep: &mut Keep) -> Result<sys::pc_raw> {
        check_relative(self.tokens, self.relative)?;
        let mut raw = self.shape.raw(keep)?;
        (raw.tokens, raw.token_count) = (array_of(self.tokens), self.tokens.len());
        raw.relative = array_of(self.relative);
        (raw.block_bytes, raw.block_count) = (array_of(self.block_bytes), self.block_bytes.len());
        Ok(raw)
    }
}

/// What became of an entry that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// RAM has it now.
    Stored,
    /// RAM has an entry under this key, which stays.
    Exists,
    /// RAM has no room; lower tiers may still take it.
    NoRoom,
}

fn put_of(status: sys::pc_status) -> Put {
    match status {
        sys::PC_EXISTS => Put::Exists,
        sys::PC_MISS => Put::NoRoom,
        _ => Put::Stored,
    }
}

unsafe extern "C" fn release(user: *mut c_void) {
    crate::call::last_border(|| {
        // SAFETY: `user` is of Segment::wrap, and comes once.
        drop(unsafe { Box::from_raw(user.cast::<Box<dyn Any + Send + Sync>>()) });
    });
}

impl Segment {
    /// Makes a segment around memory of the application: the blocks stay where they are until the
    /// last reference is gone, and are dropped then, on the thread that gives it up.
    ///
    #[doc = c_doc!(pc_segment_wrap)]
    pub fn wrap<B: AsRef<[u8]> + Send + Sync + 'static>(
        context: &Context,
        shape: &StatesShape,
        tokens: &[i32],
        relative: &[i64],
        blocks: Vec<B>,
    ) -> Result<Segment> {
        let mut keep = Keep::default();
        let found = Blocks::of(blocks.iter().map(AsRef::as_ref));
        let raw = found.raw(shape, tokens, relative, &mut keep)?;
        // The vector moves into a box; its elements, which own the blocks or hold them, do not.
        let owner: Box<Box<dyn Any + Send + Sync>> = Box::new(Box::new(blocks));
        let user = Box::into_raw(owner);
        let made = make(|out| unsafe {
            sys::pc_segment_wrap(out, context.as_ptr(), &raw, Some(release), user.cast())
        });
        if made.is_err() {
            // SAFETY: on failure release is not called.
            drop(unsafe { Box::from_raw(user) });
        }
        Ok(Segment::of(made?, None))
    }

    /// The memory of a segment, borrowed from it.
    ///
    #[doc = c_doc!(pc_segment_raw)]
    pub fn states(&self) -> Result<States<'_>> {
        let mut raw = sys::pc_raw::default();
        run(|| unsafe { sys::pc_segment_raw(self.as_ptr(), &mut raw) })?;
        let relative = if raw.relative.is_null() { 0 } else { raw.token_count };
        // SAFETY: borrowed from the segment.
        let (starts, bytes) = unsafe {
            (slice(raw.blocks, raw.block_count), slice(raw.block_bytes, raw.block_count))
        };
        let block = |(start, bytes): (&*const c_void, &u64)| unsafe {
            slice(start.cast::<u8>(), *bytes as usize)
        };
        Ok(States {
            shape: StatesShape::from_raw(&raw),
            tokens: unsafe { slice(raw.tokens, raw.token_count) },
            relative: unsafe { slice(raw.relative, relative) },
            blocks: starts.iter().zip(bytes).map(block).collect(),
        })
    }
}

impl Cache {
    /// Stores a segment.
    ///
    #[doc = c_doc!(pc_cache_put)]
    pub fn put(&self, key: &[u8; 32], segment: &Segment, options: &PutOptions) -> Result<Put> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let status = run(|| unsafe {
            sys::pc_cache_put(self.as_ptr(), key.as_ptr(), segment.as_ptr(), &raw)
        })?;
        Ok(put_of(status))
    }

    /// Stores a copy of states.
    ///
    #[doc = c_doc!(pc_cache_put_copy)]
    pub fn put_copy(
        &self,
        key: &[u8; 32],
        states: &States<'_>,
        options: &PutOptions,
    ) -> Result<Put> {
        let mut keep = Keep::default();
        let blocks = Blocks::of(states.blocks.iter().copied());
        let raw = blocks.raw(&states.shape, states.tokens, states.relative, &mut keep)?;
        let options = options.raw(&mut keep)?;
        let status =
            run(|| unsafe { sys::pc_cache_put_copy(self.as_ptr(), key.as_ptr(), &raw, &options) })?;
        Ok(put_of(status))
    }

    /// Finds a segment.
    ///
    #[doc = c_doc!(pc_cache_get)]
    pub fn get(
        &self,
        key: &[u8; 32],
        expected: &Expected<'_>,
        options: &GetOptions,
    ) -> Result<(Option<Segment>, GetInfo)> {
        let (mut keep, mut info) = (Keep::default(), sys::pc_get_info::default());
        let (expect, options) = (expected.raw(&mut keep)?, options.raw(&mut keep)?);
        let made = try_make(|out| unsafe {
            let key = key.as_ptr();
            sys::pc_cache_get(out, self.as_ptr(), key, &expect, &options, &mut info)
        })?;
        let segment = made.ok().map(|handle| Segment::of(handle, None));
        Ok((segment, GetInfo::from_raw(&info)))
    }

    /// Starts to load many entries, in this order. `expected`: what they must be, but for tokens
    /// and relative positions, which are the entries'.
    ///
    #[doc = c_doc!(pc_cache_get_many)]
    pub fn get_many(
        &self,
        expected: &Expected<'_>,
        wanted: Vec<Wanted>,
        options: &GetOptions,
    ) -> Result<Load> {
        let mut keep = Keep::default();
        let (expect, options) = (expected.raw(&mut keep)?, options.raw(&mut keep)?);
        let mut wanted = wanted;
        let entries = Entries::of(&mut wanted, expected)?;
        let handle = make(|out| unsafe {
            sys::pc_cache_get_many(
                out,
                self.as_ptr(),
                &expect,
                array_of(&entries.list),
                ENTRY,
                entries.list.len(),
                &options,
            )
        })?;
        Ok(Load { handle: Some(handle), wanted, _cache: self.clone() })
    }

    /// Starts to load entries into free room of RAM, and says how many loads have begun.
    ///
    #[doc = c_doc!(pc_cache_prefetch)]
    pub fn prefetch(
        &self,
        expected: &Expected<'_>,
        wanted: &[Wanted],
        options: &GetOptions,
    ) -> Result<usize> {
        let (mut keep, mut started) = (Keep::default(), 0);
        let (expect, options) = (expected.raw(&mut keep)?, options.raw(&mut keep)?);
        let mut wanted: Vec<Wanted> =
            wanted.iter().map(|entry| Wanted { blocks: None, ..entry.clone() }).collect();
        let entries = Entries::of(&mut wanted, expected)?;
        run(|| unsafe {
            sys::pc_cache_prefetch(
                self.as_ptr(),
                &expect,
                array_of(&entries.list),
                ENTRY,
                entries.list.len(),
                &options,
                &mut started,
            )
        })?;
        Ok(started)
    }
}

const ENTRY: usize = size_of::<sys::pc_get_entry>();

/// One entry that is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Its key.
    pub key: [u8; 32],
    /// Its tokens.
    pub tokens: Vec<i32>,
    /// Positions minus the first one's; empty: 0, 1, 2, …
    pub relative: Vec<i64>,
    /// Where the cache writes its blocks, of the sizes that are expected. The load owns them
    /// meanwhile, and [`Load::into_blocks`] gives them back. `None`: the entry becomes a segment.
    pub blocks: Option<Vec<Vec<u8>>>,
}

/// What C reads of the wanted entries.
struct Entries {
    list: Vec<sys::pc_get_entry>,
    _blocks: Vec<Vec<*mut c_void>>,
}

impl Entries {
    fn of(wanted: &mut [Wanted], expected: &Expected<'_>) -> Result<Entries> {
        let (mut list, mut kept) = (Vec::new(), Vec::new());
        for entry in wanted {
            check_relative(&entry.tokens, &entry.relative)?;
            let mut raw = sys::pc_get_entry::default();
            raw.key = entry.key.as_ptr();
            (raw.tokens, raw.token_count) = (array_of(&entry.tokens), entry.tokens.len());
            raw.relative = array_of(&entry.relative);
            if let Some(blocks) = &mut entry.blocks {
                let sizes = blocks.iter().map(|block| block.len() as u64);
                if !sizes.eq(expected.block_bytes.iter().copied()) {
                    return Err(Error::invalid("blocks of other sizes than expected"));
                }
                let starts: Vec<*mut c_void> =
                    blocks.iter_mut().map(|block| block.as_mut_ptr().cast()).collect();
                raw.blocks = array_of(&starts);
                kept.push(starts);
            }
            list.push(raw);
        }
        Ok(Entries { list, _blocks: kept })
    }
}

/// Loads of many entries. Dropping it gives up what is not done.
pub struct Load {
    // C writes to the blocks of `wanted` until the handle is dropped, or for good if the load is
    // forgotten: it owns them
    handle: Option<Handle<sys::pc_load>>,
    wanted: Vec<Wanted>,
    _cache: Cache,
}

// SAFETY: one thread at a time, and the pointers into `wanted` are C's alone.
unsafe impl Send for Load {}

impl Drop for Load {
    fn drop(&mut self) {
        self.handle = None; // before the blocks
    }
}

impl Load {
    fn raw(&self) -> *mut sys::pc_load {
        self.handle.as_ref().map_or(ptr::null_mut(), Handle::get)
    }

    /// Waits until all entries are done, but no longer than `seconds`. False: some are not.
    pub fn wait(&mut self, seconds: f64) -> Result<bool> {
        Ok(run(|| unsafe { sys::pc_load_wait(self.raw(), seconds) })? == sys::PC_OK)
    }

    /// How many entries from the first on are done. Does not wait.
    pub fn done(&mut self) -> Result<usize> {
        let mut done = 0;
        run(|| unsafe { sys::pc_load_poll(self.raw(), &mut done) })?;
        Ok(done)
    }

    /// The result of one entry; None: it is not done. A hit has a segment, unless the entry has
    /// blocks of its own.
    ///
    #[doc = c_doc!(pc_load_result)]
    pub fn result(&mut self, index: usize) -> Result<Option<(Found<Option<Segment>>, GetInfo)>> {
        let (mut segment, mut info) = (ptr::null_mut(), sys::pc_get_info::default());
        let status =
            run(|| unsafe { sys::pc_load_result(self.raw(), index, &mut segment, &mut info) })?;
        let segment =
            if segment.is_null() { None } else { Some(Segment::of(Handle::take(segment), None)) };
        let info = GetInfo::from_raw(&info);
        Ok(match status {
            sys::PC_AGAIN => None,
            sys::PC_MISS => Some((Found::Miss(info.reason), info)),
            _ => Some((Found::Hit(segment), info)),
        })
    }

    /// Gives up what is not done, and gives back the blocks of each entry. Those of a miss have any
    /// contents.
    pub fn into_blocks(mut self) -> Vec<Option<Vec<Vec<u8>>>> {
        self.handle = None; // nothing is written any more
        self.wanted.iter_mut().map(|entry| entry.blocks.take()).collect()
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("entries", &self.wanted.len()).finish_non_exhaustive()
    }
}
