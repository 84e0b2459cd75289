//! The cache: tiers, statistics, events, pins, quotas.
use crate::call::{data_of, filled_text, last_border, make, may_be_of_cache, run, Handle, Keep};
use crate::{
    sys, CacheOptions, CacheStats, Context, Event, FindOptions, Result, Tier, TierStats, Tiers,
};
use std::mem::ManuallyDrop;
use std::os::raw::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

type OnEvent = Box<dyn Fn(&Event) + Send + Sync>;
type OnBytes = Box<dyn Fn(Tier, u64, u64) + Send + Sync>;

/// Functions that are told what a cache does. Any thread that uses the cache may call them, and the
/// cache's own ones, several at a time, but never under a lock. They may remove from this cache,
/// and drop it. A panic in one ends there, and that function is not called any more.
#[derive(Default)]
pub struct CacheEvents {
    event: Option<OnEvent>,
    bytes: Option<OnBytes>,
    event_failed: AtomicBool,
    bytes_failed: AtomicBool,
}

impl CacheEvents {
    /// No functions.
    pub fn new() -> CacheEvents {
        CacheEvents::default()
    }

    /// Gets events: what was stored, hit, evicted, removed, or failed.
    #[must_use]
    pub fn on_event(mut self, function: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.event = Some(Box::new(function));
        self
    }

    /// Is told when the bytes of a tier have changed: tier, bytes, budget.
    #[must_use]
    pub fn on_bytes(mut self, function: impl Fn(Tier, u64, u64) + Send + Sync + 'static) -> Self {
        self.bytes = Some(Box::new(function));
        self
    }
}

impl std::fmt::Debug for CacheEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheEvents")
            .field("event", &self.event.is_some())
            .field("bytes", &self.bytes.is_some())
            .finish()
    }
}

/// Runs one function, unless it has panicked before.
fn tell(failed: &AtomicBool, function: impl FnOnce()) {
    if failed.load(Ordering::Relaxed) {
        return;
    }
    if !last_border(function) {
        failed.store(true, Ordering::Relaxed);
    }
}

unsafe extern "C" fn give_event(user: *mut c_void, event: *const sys::pc_event) {
    // SAFETY: `user` is of Owned, the event is borrowed for the call.
    let (events, event) = unsafe { (&*user.cast::<CacheEvents>(), &*event) };
    if let Some(function) = &events.event {
        tell(&events.event_failed, || function(&Event::from_raw(event)));
    }
}

unsafe extern "C" fn give_bytes(user: *mut c_void, tier: u32, bytes: u64, budget: u64) {
    // SAFETY: `user` is of Owned.
    let events = unsafe { &*user.cast::<CacheEvents>() };
    if let Some(function) = &events.bytes {
        tell(&events.bytes_failed, || function(tier.into(), bytes, budget));
    }
}

/// The cache and its functions. All that may keep the cache of C alive has a clone of `Cache`, so
/// that the functions outlive it.
struct Owned {
    handle: ManuallyDrop<Handle<sys::pc_cache>>,
    events: ManuallyDrop<Box<CacheEvents>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: each is dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.handle) };
        // On a thread of the cache, the cache ends later: its functions stay.
        if !may_be_of_cache() {
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.events) };
        }
    }
}

/// Where states are stored. One cache may serve many models. A clone is the same cache.
#[derive(Clone)]
pub struct Cache {
    owned: Arc<Owned>,
}

/// What of a chain of keys is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundKeys {
    /// How many, from the first on.
    pub count: usize,
    /// The tier of each key, also behind the first that is missing.
    pub tiers: Vec<Tier>,
}

impl Cache {
    /// Opens a cache and starts its threads.
    ///
    #[doc = c_doc!(pc_cache_new)]
    pub fn new(context: &Context, options: &CacheOptions) -> Result<Cache> {
        Self::with_events(context, options, CacheEvents::new())
    }

    /// A cache with functions that are told what it does.
    pub fn with_events(
        context: &Context,
        options: &CacheOptions,
        events: CacheEvents,
    ) -> Result<Cache> {
        let mut keep = Keep::default();
        let mut raw = options.raw(&mut keep)?;
        let events = Box::new(events);
        let user = &*events as *const CacheEvents as *mut c_void;
        if events.event.is_some() {
            raw.on_event = Some(give_event);
            raw.event_user = user;
        }
        if events.bytes.is_some() {
            raw.on_bytes = Some(give_bytes);
            raw.bytes_user = user;
        }
        // SAFETY: arguments live through the call, the functions as long as the cache; so below.
        let handle = make(|out| unsafe { sys::pc_cache_new(out, context.as_ptr(), &raw) })?;
        let (handle, events) = (ManuallyDrop::new(handle), ManuallyDrop::new(events));
        Ok(Cache { owned: Arc::new(Owned { handle, events }) })
    }

    /// Waits until what was stored has reached its tiers. False: something did not.
    ///
    #[doc = c_doc!(pc_cache_flush)]
    pub fn flush(&self) -> Result<bool> {
        Ok(run(|| unsafe { sys::pc_cache_flush(self.as_ptr()) })? == sys::PC_OK)
    }

    /// Counters now.
    pub fn stats(&self) -> Result<CacheStats> {
        let mut stats = sys::pc_cache_stats::default();
        run(|| unsafe { sys::pc_cache_get_stats(self.as_ptr(), &mut stats) })?;
        Ok(CacheStats::from_raw(&stats))
    }

    /// Counters of one tier.
    pub fn tier_stats(&self, tier: Tier) -> Result<TierStats> {
        let mut stats = sys::pc_tier_stats::default();
        run(|| unsafe { sys::pc_cache_get_tier_stats(self.as_ptr(), tier.into(), &mut stats) })?;
        Ok(TierStats::from_raw(&stats))
    }

    /// All counters as text in the format of Prometheus. `labels` as they stand between braces:
    /// `model="a",zone="b"`.
    pub fn prometheus(&self, labels: Option<&str>) -> Result<String> {
        let mut keep = Keep::default();
        let mut raw = sys::pc_prometheus_options::default();
        if let Some(labels) = labels {
            raw.labels = keep.text("labels", labels)?;
        }
        filled_text(|text, capacity, size| unsafe {
            sys::pc_cache_prometheus(self.as_ptr(), text, capacity, size, &raw)
        })
    }

    /// Removes everything from RAM and COMPRESSED that is not in use or pinned.
    pub fn clear(&self) -> Result<()> {
        run(|| unsafe { sys::pc_cache_clear(self.as_ptr()) })?;
        Ok(())
    }

    /// Evicts from RAM until at most `bytes` are left there. Gives the bytes that were freed, and
    /// whether that was enough: if not, the rest is in use, pinned or being loaded.
    ///
    #[doc = c_doc!(pc_cache_trim)]
    pub fn trim(&self, bytes: u64) -> Result<(u64, bool)> {
        let mut freed = 0;
        let status = run(|| unsafe { sys::pc_cache_trim(self.as_ptr(), bytes, &mut freed) })?;
        Ok((freed, status == sys::PC_OK))
    }

    /// Limits the bytes of one tenant in a tier.
    ///
    #[doc = c_doc!(pc_cache_set_quota)]
    pub fn set_quota(&self, tier: Tier, salt: &[u8], bytes: u64) -> Result<()> {
        let (data, size) = (data_of(salt), salt.len());
        run(|| unsafe { sys::pc_cache_set_quota(self.as_ptr(), tier.into(), data, size, bytes) })?;
        Ok(())
    }

    /// Pins an entry in RAM for an owner. False: it is not in RAM.
    ///
    #[doc = c_doc!(pc_cache_pin)]
    pub fn pin(&self, key: &[u8; 32], owner: u64, seconds: f64) -> Result<bool> {
        let key = key.as_ptr();
        let status = run(|| unsafe { sys::pc_cache_pin(self.as_ptr(), key, owner, seconds) })?;
        Ok(status == sys::PC_OK)
    }

    /// Removes a pin of an owner. False: there is none.
    pub fn unpin(&self, key: &[u8; 32], owner: u64) -> Result<bool> {
        let status = run(|| unsafe { sys::pc_cache_unpin(self.as_ptr(), key.as_ptr(), owner) })?;
        Ok(status == sys::PC_OK)
    }

    /// Removes all pins of an owner.
    pub fn unpin_owner(&self, owner: u64) -> Result<()> {
        run(|| unsafe { sys::pc_cache_unpin_owner(self.as_ptr(), owner) })?;
        Ok(())
    }

    /// How many of a chain of keys are in some tier.
    ///
    #[doc = c_doc!(pc_cache_find)]
    pub fn find(&self, keys: &[[u8; 32]], options: &FindOptions) -> Result<FoundKeys> {
        let (mut keep, mut count, mut tiers) = (Keep::default(), 0, vec![0; keys.len()]);
        let raw = options.raw(&mut keep)?;
        let (start, out) = (keys.as_ptr().cast(), tiers.as_mut_ptr());
        run(|| unsafe {
            sys::pc_cache_find(self.as_ptr(), start, keys.len(), &mut count, out, &raw)
        })?;
        Ok(FoundKeys { count, tiers: tiers.into_iter().map(Tier::from).collect() })
    }

    /// Removes entries, and says how many of the keys some tier had.
    ///
    #[doc = c_doc!(pc_cache_remove)]
    pub fn remove(&self, keys: &[[u8; 32]], tiers: Tiers) -> Result<usize> {
        let (mut raw, mut removed) = (sys::pc_remove_options::default(), 0);
        raw.tiers = tiers.bits();
        let start = keys.as_ptr().cast();
        run(|| unsafe {
            sys::pc_cache_remove(self.as_ptr(), start, keys.len(), &mut removed, &raw)
        })?;
        Ok(removed)
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_cache {
        self.owned.handle.get()
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cache").field(&self.as_ptr()).finish()
    }
}

/// Foreign text, made fit to be shown.
///
#[doc = c_doc!(pc_text_show)]
pub fn text_show(text: &str) -> String {
    let mut shown = vec![0u8; text.len() * 8 + 8];
    // SAFETY: the room is what the header says.
    let size = unsafe {
        sys::pc_text_show(text.as_ptr().cast(), text.len(), shown.as_mut_ptr().cast(), shown.len())
    };
    shown.truncate(size);
    String::from_utf8_lossy(&shown).into_owned()
}

/// Digest of files, as the fingerprint of an application's model.
///
#[doc = c_doc!(pc_fingerprint_files)]
pub fn fingerprint_files(paths: &[&str]) -> Result<[u8; 32]> {
    let (mut keep, mut made) = (Keep::default(), [0; 32]);
    let list = keep.strings("path", paths)?;
    run(|| unsafe {
        let out = made.as_mut_ptr();
        sys::pc_fingerprint_files(out, list, paths.len(), None, ptr::null_mut())
    })?;
    Ok(made)
}
