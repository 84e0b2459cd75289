//! Answers a prompt of cached modules twice: the first time its modules are encoded, the second
//! time they are there. The text appears while it is made, and the statistics say where the tokens
//! came from.
use promptcache::*;
use std::io::Write;

fn answer(prompt: &Prompt, cache: &Cache, label: &str) -> Result<()> {
    print!("{label}: ");
    let print = Callbacks::new().on_text(|text| {
        print!("{text}");
        std::io::stdout().flush() // an error ends the answer
    });
    let stats = prompt.generate(cache, &GenerateOptions::default().max_tokens(64), print)?;
    println!(
        "\n  {} tokens: {} from the cache, {} encoded, {} new; states {:?}; first token after \
         {:.2} ms",
        stats.tokens_prompt,
        stats.tokens_cached,
        stats.tokens_encoded,
        stats.tokens_new,
        stats.exactness,
        1e3 * stats.seconds_ttft
    );
    Ok(())
}

fn run(model: &str, schema: &str, prompt: &str) -> Result<()> {
    let context = Context::new(&ContextOptions::default())?;
    let model = Model::load(&context, model)?;
    let cache = Cache::new(&context, &CacheOptions::default())?;
    let schema = Schema::load(&model, schema)?;
    let prompt = Prompt::load(&[&schema], prompt)?;
    answer(&prompt, &cache, "empty cache")?;
    answer(&prompt, &cache, "full cache")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let status = match arguments.as_slice() {
        [model, schema, prompt] => match run(model, schema, prompt) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("answer: {error}");
                1
            }
        },
        _ => {
            eprintln!("usage: answer MODEL SCHEMA.pml PROMPT.pml");
            2
        }
    };
    std::process::exit(status);
}
