//! The demo model and its documents.
use promptcache::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

pub const ANSWER: &str = "The desk of Peter Novak is 368.";

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

pub fn pml(name: &str) -> PathBuf {
    root().join("examples/pml").join(name)
}

pub struct Demo {
    pub context: Context,
    pub model: Model,
    pub cache: Cache,
    pub schema: Schema,
}

impl Demo {
    pub fn new() -> Demo {
        Demo::with(&CacheOptions::default())
    }

    pub fn with(options: &CacheOptions) -> Demo {
        let context = Context::new(&ContextOptions::default().threads(2)).unwrap();
        let model = Model::load(&context, root().join("models/demo/demo.gguf")).unwrap();
        let cache = Cache::new(&context, options).unwrap();
        let schema = Schema::load(&model, pml("employees.pml")).unwrap();
        Demo { context, model, cache, schema }
    }

    pub fn prompt(&self) -> Prompt {
        Prompt::load(&[&self.schema], pml("employees-prompt.pml")).unwrap()
    }

    pub fn job_prompt(&self) -> Prompt {
        Prompt::load(&[&self.schema], pml("employees-job-prompt.pml")).unwrap()
    }

    /// A conversation about all documents of the schema.
    pub fn question(&self, text: &str) -> Prompt {
        let documents = self.schema.items();
        let modules = documents
            .iter()
            .filter(|item| item.kind == ItemKind::Module)
            .map(|item| item.path.to_string());
        let messages = [Message::system("").modules(modules), Message::user(text)];
        let options = ChatOptions::default().schema(self.schema.clone());
        Prompt::from_messages(&self.model, &messages, &options).unwrap()
    }
}

pub fn short() -> GenerateOptions {
    GenerateOptions::default().max_tokens(40)
}

pub fn kept() -> GenerateOptions {
    short().flags(GenerateFlags::KEEP)
}

/// An empty folder of this process.
pub fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
