//! Models: loading, facts, tokens and text.
use crate::call::{c_path, filled, filled_text, make, run, Handle, Keep};
use crate::callbacks::{with_progress, Progress};
use crate::{sys, Context, ModelInfo, ModelOptions, Result, TokenizeFlags};
use std::path::Path;
use std::sync::Arc;

/// A loaded model. A clone is the same model.
#[derive(Clone)]
pub struct Model {
    handle: Arc<Handle<sys::pc_model>>,
}

impl Model {
    /// Loads a model with the default options.
    ///
    #[doc = c_doc!(pc_model_load)]
    pub fn load(context: &Context, path: impl AsRef<Path>) -> Result<Model> {
        Self::load_with(context, path, &ModelOptions::default(), |_| ())
    }

    /// Loads a model. `progress` is told of the work, and may end it.
    pub fn load_with<R: crate::CallbackResult>(
        context: &Context,
        path: impl AsRef<Path>,
        options: &ModelOptions,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<Model> {
        let (mut keep, path) = (Keep::default(), c_path(path.as_ref())?);
        let mut raw = options.raw(&mut keep)?;
        let handle = with_progress(progress, |function, user| {
            (raw.progress, raw.progress_user) = (function, user);
            // SAFETY: all arguments live through the call.
            make(|out| unsafe { sys::pc_model_load(out, context.as_ptr(), path.as_ptr(), &raw) })
        })?;
        Ok(Model { handle: Arc::new(handle) })
    }

    /// The model's facts.
    pub fn info(&self) -> ModelInfo {
        model_info(self.as_ptr())
    }

    /// Text to tokens.
    ///
    #[doc = c_doc!(pc_tokenize)]
    pub fn tokenize(&self, text: &str, flags: TokenizeFlags) -> Result<Vec<i32>> {
        // SAFETY: the text lives through the call, the array has the capacity.
        filled(|tokens, capacity, count| unsafe {
            sys::pc_tokenize(
                self.as_ptr(),
                text.as_ptr().cast(),
                text.len(),
                flags.bits(),
                tokens,
                capacity,
                count,
            )
        })
    }

    /// Tokens to text. Bytes that are not UTF-8 become U+FFFD.
    ///
    #[doc = c_doc!(pc_detokenize)]
    pub fn detokenize(&self, tokens: &[i32], flags: TokenizeFlags) -> Result<String> {
        // SAFETY: the tokens live through the call, the text has the capacity.
        filled_text(|text, capacity, size| unsafe {
            sys::pc_detokenize(
                self.as_ptr(),
                tokens.as_ptr(),
                tokens.len(),
                flags.bits(),
                text,
                capacity,
                size,
            )
        })
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_model {
        self.handle.get()
    }

    /// Takes a reference over that a call of [`sys`] gave, such as `pc_model_from_ops`.
    ///
    /// # Safety
    /// `model` is a reference of the caller's, which is given up here.
    pub unsafe fn from_ptr(model: *mut sys::pc_model) -> Model {
        Model { handle: Arc::new(Handle::take(model)) }
    }
}

pub(crate) fn model_info(model: *const sys::pc_model) -> ModelInfo {
    let mut raw = sys::pc_model_info::default();
    // SAFETY: the model lives. The call fails for null arguments alone.
    let status = run(|| unsafe { sys::pc_model_get_info(model, &mut raw) });
    debug_assert!(status.is_ok());
    ModelInfo::from_raw(&raw)
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Model").field(&self.as_ptr()).finish()
    }
}
