//! Steps several prompts of one schema together. Keys and values of a module that several of them
//! use are stored once and read once for all of them in every step. A line on standard input cancels
//! those that still run.
use promptcache::*;

fn run(model: &str, schema: &str, prompts: &[String]) -> Result<()> {
    let context = Context::new(&ContextOptions::default())?;
    let model = Model::load(&context, model)?;
    let cache = Cache::new(&context, &CacheOptions::default())?;
    let schema = Schema::load(&model, schema)?;
    let options = GenerateOptions::default().max_tokens(64);
    let mut batch = Batch::new(&model, &BatchOptions::default())?;
    let mut ids = Vec::new();
    for path in prompts {
        let prompt = Prompt::load(&[&schema], path)?;
        // the sequence holds the prompt, the batch the sequence
        ids.push(batch.add(Sequence::new(&prompt, &cache, &options, Callbacks::new())?)?);
    }
    cancel_on_input(batch.iter().map(|(_, sequence)| sequence.canceller()).collect());
    let mut steps = 1;
    while batch.step()? == Step::Running {
        steps += 1; // sequences could join and leave between steps
    }
    for (id, path) in ids.into_iter().zip(prompts) {
        let (sequence, stats) = (&batch[id], batch[id].stats()?);
        println!("{path}: {}", sequence.text());
        if let Some(error) = sequence.error() {
            println!("  {error}"); // the others have gone on
        }
        println!(
            "  {} tokens: {} from the cache, {} encoded, {} new",
            stats.tokens_prompt, stats.tokens_cached, stats.tokens_encoded, stats.tokens_new
        );
    }
    println!("{} prompts in {steps} steps", prompts.len());
    Ok(())
}

/// Cancels from another thread. It ends with the process.
fn cancel_on_input(cancellers: Vec<Canceller>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        if matches!(std::io::stdin().read_line(&mut line), Ok(1..)) {
            cancellers.iter().for_each(Canceller::cancel);
        }
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let status = match arguments.as_slice() {
        [model, schema, prompts @ ..] if !prompts.is_empty() => match run(model, schema, prompts) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("batch: {error}");
                1
            }
        },
        _ => {
            eprintln!("usage: batch MODEL SCHEMA.pml PROMPT.pml...");
            2
        }
    };
    std::process::exit(status);
}
