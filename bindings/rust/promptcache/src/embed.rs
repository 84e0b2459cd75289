//! Embeddings of prompts.
use crate::call::{run, Keep};
use crate::error::Error;
use crate::{sys, Cache, CancelToken, EmbedOptions, EmbedStats, Prompt, Result};

/// Embeddings of prompts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Embeddings {
    /// One behind the other.
    pub values: Vec<f32>,
    /// Numbers of each.
    pub width: usize,
    /// What was reused.
    pub stats: EmbedStats,
}

impl Embeddings {
    /// One of each prompt.
    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

/// Embeds prompts of one model.
///
#[doc = c_doc!(pc_embed)]
pub fn embed<'c>(
    prompts: &[&Prompt],
    cache: impl Into<Option<&'c Cache>>,
    options: &EmbedOptions,
    cancel: Option<&CancelToken>,
) -> Result<Embeddings> {
    let width = prompts.first().map_or(0, |prompt| prompt.model.info().hidden as usize);
    let mut values = vec![0.0; width * prompts.len()];
    let stats = embed_into(prompts, cache, options, cancel, &mut values)?;
    Ok(Embeddings { values, width, stats })
}

/// As [`embed`], into memory of the caller, `[prompt][ModelInfo::hidden]`.
pub fn embed_into<'c>(
    prompts: &[&Prompt],
    cache: impl Into<Option<&'c Cache>>,
    options: &EmbedOptions,
    cancel: Option<&CancelToken>,
    values: &mut [f32],
) -> Result<EmbedStats> {
    // the library refuses prompts of different models
    let width = prompts.first().map_or(0, |prompt| prompt.model.info().hidden as usize);
    let needed = width.saturating_mul(prompts.len());
    if values.len() < needed {
        let text = format!("room for {} of {needed} numbers", values.len());
        return Err(Error::invalid(text));
    }
    let (mut keep, mut stats) = (Keep::default(), sys::pc_embed_stats::default());
    let mut raw = options.raw(&mut keep)?;
    if let Some(cancel) = cancel {
        (raw.cancelled, raw.cancel_user) = cancel.polled();
    }
    let list: Vec<_> = prompts.iter().map(|prompt| prompt.as_ptr()).collect();
    let cache = cache.into().map_or(std::ptr::null_mut(), Cache::as_ptr);
    // SAFETY: all arguments live through the call; the array has room.
    run(|| unsafe {
        let out = values.as_mut_ptr();
        sys::pc_embed(list.as_ptr(), list.len(), cache, &raw, out, &mut stats)
    })?;
    Ok(EmbedStats::from_raw(&stats))
}
