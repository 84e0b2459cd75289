//! Schemas: from PML, from a format, or by a builder; their layout and their states.
use crate::call::{c_path, c_string, listed, make, run, slice, Handle, Keep};
use crate::callbacks::{with_progress, CallbackResult, Progress};
use crate::{
    sys, Cache, EncodeOptions, ItemFlags, ItemKind, Model, PromptFlags, Result, SchemaOptions,
    SystemFormat,
};
use std::borrow::Cow;
use std::ffi::CStr;
use std::os::raw::c_char;
use std::path::Path;
use std::sync::Arc;

/// A document of modules. A clone is the same schema.
#[derive(Clone)]
pub struct Schema {
    handle: Arc<Handle<sys::pc_schema>>,
    pub(crate) model: Model,
}

/// One element of a schema's layout. Borrowed from the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item<'a> {
    /// What it is.
    pub kind: ItemKind,
    /// Number of modules around it.
    pub depth: u32,
    /// A text has its parent's (root: ""), a union its parent's and "/union".
    pub path: Cow<'a, str>,
    /// Of a text: as tokenised. Of a slot: the text behind each request. Else "".
    pub text: Cow<'a, str>,
    /// First position.
    pub start: i64,
    /// Number of positions.
    pub length: i64,
    /// [`ItemFlags::UNCACHED`], or none.
    pub flags: ItemFlags,
}

/// A string that C owns.
///
/// # Safety
/// It lives as long as `'a`.
pub(crate) unsafe fn lent<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        Cow::Borrowed("")
    } else {
        // SAFETY: ends in a NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    }
}

impl Schema {
    pub(crate) fn of(handle: Handle<sys::pc_schema>, model: &Model) -> Schema {
        Schema { handle: Arc::new(handle), model: model.clone() }
    }

    /// Reads a schema from a file, with the default options.
    ///
    #[doc = c_doc!(pc_schema_load)]
    pub fn load(model: &Model, path: impl AsRef<Path>) -> Result<Schema> {
        Self::load_with(model, path, &SchemaOptions::default())
    }

    /// Reads a schema from a file.
    pub fn load_with(
        model: &Model,
        path: impl AsRef<Path>,
        options: &SchemaOptions,
    ) -> Result<Schema> {
        let (mut keep, path) = (Keep::default(), c_path(path.as_ref())?);
        let raw = options.raw(&mut keep)?;
        // SAFETY: all arguments live through the call; so everywhere below.
        let handle =
            make(|out| unsafe { sys::pc_schema_load(out, model.as_ptr(), path.as_ptr(), &raw) })?;
        Ok(Self::of(handle, model))
    }

    /// Parses a schema, with the default options.
    pub fn parse(model: &Model, text: &str) -> Result<Schema> {
        Self::parse_with(model, text, &SchemaOptions::default())
    }

    /// Parses a schema.
    pub fn parse_with(model: &Model, text: &str, options: &SchemaOptions) -> Result<Schema> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let handle = make(|out| unsafe {
            sys::pc_schema_parse(out, model.as_ptr(), text.as_ptr().cast(), text.len(), &raw)
        })?;
        Ok(Self::of(handle, model))
    }

    /// A schema with a system prompt and a slot for requests.
    ///
    #[doc = c_doc!(pc_schema_from_format)]
    pub fn from_format(model: &Model, format: &SystemFormat) -> Result<Schema> {
        let mut keep = Keep::default();
        let raw = format.raw(&mut keep)?;
        let handle = make(|out| unsafe { sys::pc_schema_from_format(out, model.as_ptr(), &raw) })?;
        Ok(Self::of(handle, model))
    }

    /// Its name.
    pub fn name(&self) -> Cow<'_, str> {
        // SAFETY: borrowed from the schema.
        unsafe { lent(sys::pc_schema_name(self.as_ptr())) }
    }

    /// The positions that it spans.
    pub fn length(&self) -> i64 {
        // SAFETY: the schema lives.
        unsafe { sys::pc_schema_length(self.as_ptr()) }
    }

    /// The layout in document order, without the root.
    pub fn items(&self) -> Vec<Item<'_>> {
        // SAFETY: the schema lives, and does not change.
        let count = unsafe { sys::pc_schema_item_count(self.as_ptr()) };
        let item = |index| {
            let mut raw = sys::pc_item::default();
            run(|| unsafe { sys::pc_schema_get_item(self.as_ptr(), index, &mut raw) })?;
            // SAFETY: strings are borrowed from the schema.
            let text = unsafe { slice(raw.text.cast(), raw.text_size) };
            Ok(Item {
                kind: raw.kind.into(),
                depth: raw.depth,
                path: unsafe { lent(raw.path) },
                text: String::from_utf8_lossy(text),
                start: raw.start,
                length: raw.length,
                flags: raw.flags.into(),
            })
        };
        listed(item, count).unwrap_or_default()
    }

    /// Encodes all modules into the cache. False: everything was encoded, but the budget has no
    /// room for all of it.
    ///
    #[doc = c_doc!(pc_schema_encode)]
    pub fn encode(&self, cache: &Cache, options: &EncodeOptions) -> Result<bool> {
        self.encode_with(cache, options, |_| ())
    }

    /// As [`Schema::encode`]; `progress` is told of each step, and may end it.
    pub fn encode_with<R: CallbackResult>(
        &self,
        cache: &Cache,
        options: &EncodeOptions,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<bool> {
        let mut keep = Keep::default();
        let mut raw = options.raw(&mut keep)?;
        let status = with_progress(progress, |function, user| {
            (raw.progress, raw.progress_user) = (function, user);
            run(|| unsafe { sys::pc_schema_encode(self.as_ptr(), cache.as_ptr(), &raw) })
        })?;
        Ok(status == sys::PC_OK)
    }

    /// Starts loading the schema's segments from lower tiers, and says how many loads that are.
    ///
    #[doc = c_doc!(pc_schema_prefetch)]
    pub fn prefetch(&self, cache: &Cache, options: &EncodeOptions) -> Result<u64> {
        let (mut keep, mut started) = (Keep::default(), 0);
        let raw = options.raw(&mut keep)?;
        run(|| unsafe {
            sys::pc_schema_prefetch(self.as_ptr(), cache.as_ptr(), &raw, &mut started)
        })?;
        Ok(started)
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_schema {
        self.handle.get()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&self.name()).finish()
    }
}

/// Makes a schema of texts, in which nothing has a meaning.
///
/// Texts, modules and so on go to what is open, the schema itself at first. A call that fails
/// leaves the builder as it was. Faults that come from several calls together are found by
/// [`SchemaBuilder::build`].
pub struct SchemaBuilder {
    handle: Handle<sys::pc_schema_builder>,
    model: Model,
}

impl SchemaBuilder {
    /// Begins an empty schema.
    ///
    #[doc = c_doc!(pc_schema_builder_new)]
    pub fn new(model: &Model, name: &str, options: &SchemaOptions) -> Result<SchemaBuilder> {
        let (mut keep, name) = (Keep::default(), c_string("name", name)?);
        let raw = options.raw(&mut keep)?;
        let handle = make(|out| unsafe {
            sys::pc_schema_builder_new(out, model.as_ptr(), name.as_ptr(), &raw)
        })?;
        Ok(SchemaBuilder { handle, model: model.clone() })
    }

    /// Adds text. `flags`: [`PromptFlags::SPECIAL`], or none.
    pub fn text(&mut self, text: &str, flags: PromptFlags) -> Result<&mut Self> {
        let (start, size) = (text.as_ptr().cast(), text.len());
        run(|| unsafe {
            sys::pc_schema_builder_add_text(self.handle.get(), start, size, flags.bits())
        })?;
        Ok(self)
    }

    /// Opens a module; [`SchemaBuilder::end`] closes it. `flags`: [`ItemFlags::UNCACHED`], or none.
    pub fn begin_module(&mut self, name: &str, flags: ItemFlags) -> Result<&mut Self> {
        let name = c_string("name", name)?;
        run(|| unsafe {
            sys::pc_schema_builder_begin_module(self.handle.get(), name.as_ptr(), flags.bits())
        })?;
        Ok(self)
    }

    /// Opens a union, which holds modules alone.
    ///
    #[doc = c_doc!(pc_schema_builder_begin_union)]
    pub fn begin_union(&mut self, scaffold: Option<&str>) -> Result<&mut Self> {
        let scaffold = scaffold.map(|name| c_string("scaffold", name)).transpose()?;
        let name = scaffold.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        run(|| unsafe { sys::pc_schema_builder_begin_union(self.handle.get(), name) })?;
        Ok(self)
    }

    /// Opens a turn of a conversation.
    ///
    #[doc = c_doc!(pc_schema_builder_begin_turn)]
    pub fn begin_turn(&mut self, role: &str) -> Result<&mut Self> {
        let role = c_string("role", role)?;
        run(|| unsafe { sys::pc_schema_builder_begin_turn(self.handle.get(), role.as_ptr()) })?;
        Ok(self)
    }

    /// Closes the module, union or turn that was opened last.
    pub fn end(&mut self) -> Result<&mut Self> {
        run(|| unsafe { sys::pc_schema_builder_end(self.handle.get()) })?;
        Ok(self)
    }

    /// Adds room for an argument of `length` tokens to the open module.
    ///
    #[doc = c_doc!(pc_schema_builder_add_parameter)]
    pub fn parameter(
        &mut self,
        name: &str,
        length: i64,
        scaffold: Option<&str>,
    ) -> Result<&mut Self> {
        let name = c_string("name", name)?;
        let (text, size) =
            scaffold.map_or((std::ptr::null(), 0), |text| (text.as_ptr().cast(), text.len()));
        run(|| unsafe {
            sys::pc_schema_builder_add_parameter(
                self.handle.get(),
                name.as_ptr(),
                length,
                text,
                size,
            )
        })?;
        Ok(self)
    }

    /// Modules that are encoded jointly, for prompts that use all of them.
    ///
    #[doc = c_doc!(pc_schema_builder_add_scaffold)]
    pub fn scaffold(&mut self, modules: &[&str]) -> Result<&mut Self> {
        let mut keep = Keep::default();
        let paths = keep.strings("module", modules)?;
        run(|| unsafe {
            sys::pc_schema_builder_add_scaffold(self.handle.get(), paths, modules.len())
        })?;
        Ok(self)
    }

    /// Makes a schema of what the builder has; it may go on afterwards.
    ///
    #[doc = c_doc!(pc_schema_from_builder)]
    pub fn build(&self) -> Result<Schema> {
        let handle = make(|out| unsafe { sys::pc_schema_from_builder(out, self.handle.get()) })?;
        Ok(Schema::of(handle, &self.model))
    }
}

impl std::fmt::Debug for SchemaBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaBuilder").finish_non_exhaustive()
    }
}
