//! Prompts: from PML, text, tokens, messages, segments, or by a builder.
use crate::call::{
    array_of, c_path, c_string, filled_text, listed, make, run, slice, Handle, Keep,
};
use crate::error::Error;
use crate::schema::lent;
use crate::segment::raw_spans;
use crate::{
    sys, ChatOptions, Message, Model, PartKind, PromptFlags, PromptOptions, Result, Schema, Span,
};
use std::borrow::Cow;
use std::mem::size_of;
use std::path::Path;
use std::sync::Arc;

/// What is to be answered. A clone is the same prompt.
#[derive(Clone)]
pub struct Prompt {
    handle: Arc<Handle<sys::pc_prompt>>,
    pub(crate) model: Model,
}

/// Tokens of a prompt that come from one place. Borrowed from the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part<'a> {
    /// Where they come from.
    pub kind: PartKind,
    /// Path of the item; "" of a plain prompt.
    pub path: Cow<'a, str>,
    /// The tokens.
    pub tokens: &'a [i32],
    /// Position of the first.
    pub start: i64,
}

impl Prompt {
    fn of(handle: Handle<sys::pc_prompt>, model: &Model) -> Prompt {
        Prompt { handle: Arc::new(handle), model: model.clone() }
    }

    fn of_schemas(
        schemas: &[&Schema],
        call: impl FnOnce(*mut *mut sys::pc_prompt, *const *mut sys::pc_schema) -> sys::pc_status,
    ) -> Result<Prompt> {
        let first = schemas.first().ok_or_else(|| Error::invalid("a prompt needs a schema"))?;
        // C does not say which one the prompt took, and sizes of memory follow from its model
        if schemas.iter().any(|schema| schema.model.as_ptr() != first.model.as_ptr()) {
            return Err(Error::mismatch("the schemas of a prompt are of different models"));
        }
        let list: Vec<_> = schemas.iter().map(|schema| schema.as_ptr()).collect();
        Ok(Self::of(make(|out| call(out, list.as_ptr()))?, &first.model))
    }

    /// Reads a prompt from a file, with the default options. It holds the schema that it names. All
    /// schemas must be of one model.
    ///
    #[doc = c_doc!(pc_prompt_load)]
    pub fn load(schemas: &[&Schema], path: impl AsRef<Path>) -> Result<Prompt> {
        Self::load_with(schemas, path, &PromptOptions::default())
    }

    /// Reads a prompt from a file.
    pub fn load_with(
        schemas: &[&Schema],
        path: impl AsRef<Path>,
        options: &PromptOptions,
    ) -> Result<Prompt> {
        let (mut keep, path) = (Keep::default(), c_path(path.as_ref())?);
        let raw = options.raw(&mut keep)?;
        // SAFETY: all arguments live through the call; so everywhere below.
        Self::of_schemas(schemas, |out, list| unsafe {
            sys::pc_prompt_load(out, list, schemas.len(), path.as_ptr(), &raw)
        })
    }

    /// Parses a prompt, with the default options.
    pub fn parse(schemas: &[&Schema], text: &str) -> Result<Prompt> {
        Self::parse_with(schemas, text, &PromptOptions::default())
    }

    /// Parses a prompt.
    pub fn parse_with(schemas: &[&Schema], text: &str, options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let (start, size) = (text.as_ptr().cast(), text.len());
        Self::of_schemas(schemas, |out, list| unsafe {
            sys::pc_prompt_parse(out, list, schemas.len(), start, size, &raw)
        })
    }

    /// A prompt without PML. It reuses any prefix that it has in common with an earlier one.
    pub fn from_text(model: &Model, text: &str, options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let (start, size) = (text.as_ptr().cast(), text.len());
        let handle = make(|out| unsafe {
            sys::pc_prompt_from_text(out, model.as_ptr(), start, size, &raw)
        })?;
        Ok(Self::of(handle, model))
    }

    /// A prompt of tokens.
    ///
    #[doc = c_doc!(pc_prompt_from_tokens)]
    pub fn from_tokens(model: &Model, tokens: &[i32], options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let handle = make(|out| unsafe {
            sys::pc_prompt_from_tokens(out, model.as_ptr(), tokens.as_ptr(), tokens.len(), &raw)
        })?;
        Ok(Self::of(handle, model))
    }

    /// A prompt of a schema's anonymous texts and a request.
    ///
    #[doc = c_doc!(pc_prompt_fill)]
    pub fn fill(schema: &Schema, text: &str, options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let (start, size) = (text.as_ptr().cast(), text.len());
        let handle =
            make(|out| unsafe { sys::pc_prompt_fill(out, schema.as_ptr(), start, size, &raw) })?;
        Ok(Self::of(handle, &schema.model))
    }

    /// As [`Prompt::fill`], with the request's tokens.
    pub fn fill_tokens(schema: &Schema, tokens: &[i32], options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let (start, count) = (tokens.as_ptr(), tokens.len());
        let handle = make(|out| unsafe {
            sys::pc_prompt_fill_tokens(out, schema.as_ptr(), start, count, &raw)
        })?;
        Ok(Self::of(handle, &schema.model))
    }

    /// A prompt of a conversation.
    ///
    #[doc = c_doc!(pc_prompt_from_messages)]
    pub fn from_messages(
        model: &Model,
        messages: &[Message],
        options: &ChatOptions,
    ) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let list = raw_messages(messages, &mut keep)?;
        let handle = make(|out| unsafe {
            sys::pc_prompt_from_messages(
                out,
                model.as_ptr(),
                array_of(&list),
                size_of::<sys::pc_message>(),
                list.len(),
                &raw,
            )
        })?;
        Ok(Self::of(handle, model))
    }

    /// A prompt of given segments and new tokens.
    ///
    #[doc = c_doc!(pc_prompt_from_spans)]
    pub fn from_spans(
        model: &Model,
        spans: &[Span],
        start: i64,
        tokens: &[i32],
        options: &PromptOptions,
    ) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let list = raw_spans(spans);
        let handle = make(|out| unsafe {
            sys::pc_prompt_from_spans(
                out,
                model.as_ptr(),
                array_of(&list),
                size_of::<sys::pc_span>(),
                list.len(),
                start,
                array_of(tokens),
                tokens.len(),
                &raw,
            )
        })?;
        Ok(Self::of(handle, model))
    }

    /// The parts, by position.
    pub fn parts(&self) -> Vec<Part<'_>> {
        // SAFETY: the prompt lives, and does not change.
        let count = unsafe { sys::pc_prompt_part_count(self.as_ptr()) };
        let part = |index| {
            let mut raw = sys::pc_part::default();
            run(|| unsafe { sys::pc_prompt_get_part(self.as_ptr(), index, &mut raw) })?;
            // SAFETY: borrowed from the prompt.
            let (path, tokens) = unsafe { (lent(raw.path), slice(raw.tokens, raw.count)) };
            Ok(Part { kind: raw.kind.into(), path, tokens, start: raw.start })
        };
        listed(part, count).unwrap_or_default()
    }

    /// The object of C, for calls of [`sys`]. Borrowed from this one.
    pub fn as_ptr(&self) -> *mut sys::pc_prompt {
        self.handle.get()
    }
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prompt").field(&self.as_ptr()).finish()
    }
}

/// Makes a prompt of a schema from texts, in which nothing has a meaning.
pub struct PromptBuilder {
    handle: Handle<sys::pc_prompt_builder>,
    schema: Schema,
}

impl PromptBuilder {
    /// Begins an empty prompt of a schema.
    pub fn new(schema: &Schema) -> Result<PromptBuilder> {
        let handle = make(|out| unsafe { sys::pc_prompt_builder_new(out, schema.as_ptr()) })?;
        Ok(PromptBuilder { handle, schema: schema.clone() })
    }

    /// Uses a module, and those around it in its path.
    ///
    #[doc = c_doc!(pc_prompt_builder_use)]
    pub fn module(&mut self, path: &str) -> Result<&mut Self> {
        let path = c_string("module", path)?;
        run(|| unsafe { sys::pc_prompt_builder_use(self.handle.get(), path.as_ptr()) })?;
        Ok(self)
    }

    /// An argument for a parameter of the module that was used last.
    ///
    #[doc = c_doc!(pc_prompt_builder_add_argument)]
    pub fn argument(&mut self, parameter: &str, text: &str) -> Result<&mut Self> {
        let parameter = c_string("parameter", parameter)?;
        let (start, size) = (text.as_ptr().cast(), text.len());
        run(|| unsafe {
            sys::pc_prompt_builder_add_argument(self.handle.get(), parameter.as_ptr(), start, size)
        })?;
        Ok(self)
    }

    /// Adds text. `flags`: [`PromptFlags::SPECIAL`], or none.
    pub fn text(&mut self, text: &str, flags: PromptFlags) -> Result<&mut Self> {
        let (start, size) = (text.as_ptr().cast(), text.len());
        run(|| unsafe {
            sys::pc_prompt_builder_add_text(self.handle.get(), start, size, flags.bits())
        })?;
        Ok(self)
    }

    /// Opens a turn of a conversation: "system", "user" or "assistant".
    pub fn begin_turn(&mut self, role: &str) -> Result<&mut Self> {
        let role = c_string("role", role)?;
        run(|| unsafe { sys::pc_prompt_builder_begin_turn(self.handle.get(), role.as_ptr()) })?;
        Ok(self)
    }

    /// Closes the turn.
    pub fn end(&mut self) -> Result<&mut Self> {
        run(|| unsafe { sys::pc_prompt_builder_end(self.handle.get()) })?;
        Ok(self)
    }

    /// Makes a prompt of what the builder has; it may go on afterwards.
    ///
    #[doc = c_doc!(pc_prompt_from_builder)]
    pub fn build(&self, options: &PromptOptions) -> Result<Prompt> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let handle =
            make(|out| unsafe { sys::pc_prompt_from_builder(out, self.handle.get(), &raw) })?;
        Ok(Prompt::of(handle, &self.schema.model))
    }
}

impl std::fmt::Debug for PromptBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptBuilder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Message {
    /// A message of a role: "system", "user", "assistant", "tool" …
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message::default().role(role).content(content)
    }

    /// What the application says to the model.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }
}

pub(crate) fn raw_messages(messages: &[Message], keep: &mut Keep) -> Result<Vec<sys::pc_message>> {
    messages.iter().map(|message| message.raw(keep)).collect()
}

impl Model {
    /// The conversation as the model's chat template writes it.
    ///
    #[doc = c_doc!(pc_chat_format)]
    pub fn chat_format(&self, messages: &[Message], options: &ChatOptions) -> Result<String> {
        let mut keep = Keep::default();
        let raw = options.raw(&mut keep)?;
        let list = raw_messages(messages, &mut keep)?;
        filled_text(|text, capacity, size| unsafe {
            sys::pc_chat_format(
                self.as_ptr(),
                array_of(&list),
                size_of::<sys::pc_message>(),
                list.len(),
                &raw,
                text,
                capacity,
                size,
            )
        })
    }
}
