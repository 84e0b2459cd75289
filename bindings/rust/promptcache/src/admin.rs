//! System prompts by name, model files before they are loaded, folders of records, costs, modules.
use crate::call::{c_path, c_string, filled, listed, make, run, Handle, Keep};
use crate::callbacks::{with_progress, CallbackResult, Progress};
use crate::model::model_info;
use crate::{
    sys, Cache, CalibrateOptions, Context, Costs, FolderOptions, Model, ModelFileInfo,
    ModelFileType, ModelInfo, ModelOptions, PluginInfo, RecordInfo, Result, Schema, SystemInfo,
    SystemsOptions,
};
use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// System prompts of a server's applications, by name. A clone is the same list.
///
/// A schema is encoded when its name is filled in, and pinned in the cache while it is listed.
#[derive(Clone)]
pub struct Systems {
    handle: Arc<Handle<sys::pc_systems>>,
    model: Model,
    _cache: Cache,
}

impl Systems {
    /// Makes an empty list.
    ///
    #[doc = c_doc!(pc_systems_new)]
    pub fn new(model: &Model, cache: &Cache, options: &SystemsOptions) -> Result<Systems> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        // SAFETY: arguments live through the call; so everywhere below.
        let handle =
            make(|out| unsafe { sys::pc_systems_new(out, model.as_ptr(), cache.as_ptr(), &raw) })?;
        Ok(Systems { handle: Arc::new(handle), model: model.clone(), _cache: cache.clone() })
    }

    /// Adds a name, or replaces its system prompt. False: added, but the cache has no room for all
    /// of its states.
    ///
    #[doc = c_doc!(pc_systems_fill)]
    pub fn fill(&self, name: &str, text: &str) -> Result<bool> {
        let (name, start, size) = (c_string("name", name)?, text.as_ptr().cast(), text.len());
        let status =
            run(|| unsafe { sys::pc_systems_fill(self.as_ptr(), name.as_ptr(), start, size) })?;
        Ok(status == sys::PC_OK)
    }

    /// As [`Systems::fill`], by the tokens of everything before the user slot.
    pub fn fill_tokens(&self, name: &str, tokens: &[i32]) -> Result<bool> {
        let (name, start, count) = (c_string("name", name)?, tokens.as_ptr(), tokens.len());
        let status = run(|| unsafe {
            sys::pc_systems_fill_tokens(self.as_ptr(), name.as_ptr(), start, count)
        })?;
        Ok(status == sys::PC_OK)
    }

    /// As [`Systems::fill`], by any schema of the same model.
    pub fn fill_schema(&self, name: &str, schema: &Schema) -> Result<bool> {
        let name = c_string("name", name)?;
        let status = run(|| unsafe {
            sys::pc_systems_fill_schema(self.as_ptr(), name.as_ptr(), schema.as_ptr())
        })?;
        Ok(status == sys::PC_OK)
    }

    /// Removes a name; its segments are unpinned.
    pub fn remove(&self, name: &str) -> Result<()> {
        let name = c_string("name", name)?;
        run(|| unsafe { sys::pc_systems_drop(self.as_ptr(), name.as_ptr()) })?;
        Ok(())
    }

    /// Removes all names.
    pub fn clear(&self) -> Result<()> {
        run(|| unsafe { sys::pc_systems_clear(self.as_ptr()) })?;
        Ok(())
    }

    /// The schema of a name, for [`Prompt::fill`](crate::Prompt::fill).
    pub fn find(&self, name: &str) -> Result<Schema> {
        let name = c_string("name", name)?;
        let handle =
            make(|out| unsafe { sys::pc_systems_find(out, self.as_ptr(), name.as_ptr()) })?;
        Ok(Schema::of(handle, &self.model))
    }

    /// The list, in the order in which names were added. Other threads may change it meanwhile.
    pub fn list(&self) -> Vec<SystemInfo> {
        let mut list = Vec::new();
        let mut raw = sys::pc_system_info::default();
        while run(|| unsafe { sys::pc_systems_get(self.as_ptr(), list.len(), &mut raw) }).is_ok() {
            list.push(SystemInfo::from_raw(&raw));
        }
        list
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_systems {
        self.handle.get()
    }
}

impl std::fmt::Debug for Systems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list().iter().map(|system| &system.name)).finish()
    }
}

/// A model's file or folder, without its weights. A clone is the same one.
#[derive(Clone)]
pub struct ModelFile {
    handle: Arc<Handle<sys::pc_model_file>>,
}

impl ModelFile {
    /// Opens a model without its weights.
    ///
    #[doc = c_doc!(pc_model_file_open)]
    pub fn open(
        context: &Context,
        path: impl AsRef<Path>,
        options: &ModelOptions,
    ) -> Result<ModelFile> {
        let (mut keep, path) = (Keep::default(), c_path(path.as_ref())?);
        let raw = options.raw(&mut keep)?;
        let handle = make(|out| unsafe {
            sys::pc_model_file_open(out, context.as_ptr(), path.as_ptr(), &raw)
        })?;
        Ok(ModelFile { handle: Arc::new(handle) })
    }

    /// What it is, and whether it could be loaded.
    pub fn info(&self) -> Result<ModelFileInfo> {
        let mut raw = sys::pc_model_file_info::default();
        run(|| unsafe { sys::pc_model_file_get_info(self.handle.get(), &mut raw) })?;
        Ok(ModelFileInfo::from_raw(&raw))
    }

    /// The facts of the loaded model, but for the fingerprint, which is zero.
    pub fn model_info(&self) -> ModelInfo {
        // SAFETY: never null; borrowed from the file.
        model_info(unsafe { sys::pc_model_file_model(self.handle.get()) })
    }

    /// Number formats, most bytes first.
    pub fn types(&self) -> Result<Vec<ModelFileType>> {
        let count = unsafe { sys::pc_model_file_type_count(self.handle.get()) };
        let get = |index| {
            let mut raw = sys::pc_model_file_type::default();
            run(|| unsafe { sys::pc_model_file_get_type(self.handle.get(), index, &mut raw) })?;
            Ok(ModelFileType::from_raw(&raw))
        };
        listed(get, count)
    }
}

impl std::fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ModelFile").field(&self.info()).finish()
    }
}

/// The records of a DISK folder. Caches may use the folder at the same time.
pub struct Folder {
    handle: Handle<sys::pc_folder>,
    /// one thread at a time
    not_sync: PhantomData<Cell<()>>,
}

impl Folder {
    /// Reads the headers of a folder's records.
    ///
    #[doc = c_doc!(pc_folder_open)]
    pub fn open(
        context: &Context,
        path: impl AsRef<Path>,
        options: &FolderOptions,
    ) -> Result<Folder> {
        let (mut keep, path) = (Keep::default(), c_path(path.as_ref())?);
        let raw = options.raw(&mut keep)?;
        let handle =
            make(|out| unsafe { sys::pc_folder_open(out, context.as_ptr(), path.as_ptr(), &raw) })?;
        Ok(Folder { handle, not_sync: PhantomData })
    }

    /// How many records there were when the folder was opened.
    pub fn len(&self) -> usize {
        unsafe { sys::pc_folder_count(self.handle.get()) }
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A record, in the order of names.
    ///
    #[doc = c_doc!(pc_folder_get)]
    pub fn get(&self, index: usize) -> Result<RecordInfo> {
        let mut raw = sys::pc_record_info::default();
        run(|| unsafe { sys::pc_folder_get(self.handle.get(), index, &mut raw) })?;
        Ok(RecordInfo::from_raw(&raw))
    }

    /// Tokens of a record.
    pub fn tokens(&self, index: usize) -> Result<Vec<i32>> {
        filled(|tokens, capacity, count| unsafe {
            sys::pc_folder_tokens(self.handle.get(), index, tokens, capacity, count)
        })
    }

    /// Reads a whole record and checks everything that can be checked.
    ///
    #[doc = c_doc!(pc_folder_verify)]
    pub fn verify(&self, index: usize) -> Result<()> {
        run(|| unsafe { sys::pc_folder_verify(self.handle.get(), index) })?;
        Ok(())
    }

    /// Removes a record.
    pub fn remove(&mut self, index: usize) -> Result<()> {
        run(|| unsafe { sys::pc_folder_remove(self.handle.get(), index) })?;
        Ok(())
    }

    /// Evicts records until at most `bytes` are left. Gives the number of files and bytes.
    ///
    #[doc = c_doc!(pc_folder_trim)]
    pub fn trim(&mut self, bytes: u64) -> Result<(u64, u64)> {
        let (mut removed, mut freed) = (0, 0);
        run(|| unsafe { sys::pc_folder_trim(self.handle.get(), bytes, &mut removed, &mut freed) })?;
        Ok((removed, freed))
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Context {
    /// Costs by which this context makes plans.
    pub fn costs(&self) -> Result<Costs> {
        let mut raw = sys::pc_costs::default();
        run(|| unsafe { sys::pc_costs_get(self.as_ptr(), &mut raw) })?;
        Ok(Costs::from_raw(&raw))
    }

    /// Measures the costs, uses them in this context and writes the file.
    ///
    #[doc = c_doc!(pc_calibrate)]
    pub fn calibrate<R: CallbackResult>(
        &self,
        options: &CalibrateOptions,
        progress: impl FnMut(Progress<'_>) -> R,
    ) -> Result<()> {
        let mut keep = Keep::default();
        let mut raw = options.raw(&mut keep)?;
        with_progress(progress, |function, user| {
            (raw.progress, raw.progress_user) = (function, user);
            run(|| unsafe { sys::pc_calibrate(self.as_ptr(), &raw) })
        })?;
        Ok(())
    }
}

/// The plug-in modules of the library; each is opened, as its first use would.
pub fn plugins() -> Vec<PluginInfo> {
    let mut list = Vec::new();
    let mut raw = sys::pc_plugin_info::default();
    while run(|| unsafe { sys::pc_plugin_get(list.len(), &mut raw) }).is_ok() {
        list.push(PluginInfo::from_raw(&raw));
    }
    list
}
