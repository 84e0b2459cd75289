//! Catches: an answer that is not that of the C example, text that is lost or given twice, errors
//! without code, text or place, requests that functions and tokens do not end, panics that are lost
//! or leave something behind.
use crate::common::{folder, pml, root, short, Demo, ANSWER};
use promptcache::*;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

#[test]
fn answers_twice_the_second_time_from_the_cache() {
    let demo = Demo::new();
    let prompt = demo.prompt();
    let first = prompt.answer(&demo.cache, &short()).unwrap();
    assert_eq!(first.text, ANSWER);
    assert_eq!((first.stats.tokens_prompt, first.stats.tokens_encoded), (601, 590));
    assert_eq!(first.stats.miss_reason, Reason::FirstUse);
    assert_eq!(first.stats.finish, Finish::StopToken);
    let second = prompt.answer(&demo.cache, &short()).unwrap();
    assert_eq!(second.text, ANSWER);
    assert_eq!((second.stats.tokens_cached, second.stats.tokens_encoded), (590, 0));
    assert_eq!(second.stats.miss_reason, Reason::None);
    assert_eq!(second.stats.exactness, Exactness::Approximate);
    let without = prompt.answer(None, &short()).unwrap();
    assert_eq!(without.stats.tokens_cached, 0);
    let stats = demo.cache.stats().unwrap();
    assert_eq!(stats.hits + stats.misses, stats.lookups);
    assert!(stats.hits > 0);
    assert_eq!(demo.cache.trim(0).unwrap(), (stats.segment_bytes, true));
}

#[test]
fn text_arrives_in_pieces() {
    let demo = Demo::new();
    let prompt = demo.prompt();
    let (mut pieces, mut ids) = (Vec::new(), Vec::new());
    let callbacks =
        Callbacks::new().on_text(|text| pieces.push(text.to_string())).on_token(|token| {
            assert_eq!(token.top_tokens.len(), 3);
            assert_eq!(token.top_tokens[0], token.id); // greedy
            assert!(token.logprob <= 0.0 && token.logprob == token.top_logprobs[0]);
            ids.push(token.id);
        });
    let stats = prompt.generate(&demo.cache, &short().top_logprobs(3), callbacks).unwrap();
    assert!(pieces.len() > 3);
    assert_eq!(pieces.concat(), ANSWER);
    assert_eq!(ids.len() as u64, stats.tokens_generated);
    let text = demo.model.detokenize(&ids, TokenizeFlags::default()).unwrap();
    assert_eq!(text, ANSWER);
}

#[test]
fn a_stream_gives_the_same_text() {
    let demo = Demo::new();
    let mut stream = demo.prompt().stream(&demo.cache, &short()).unwrap();
    let pieces: Vec<String> = stream.by_ref().collect::<Result<_>>().unwrap();
    assert!(pieces.len() > 3 && pieces.iter().all(|piece| !piece.is_empty()));
    assert_eq!(pieces.concat(), ANSWER);
    assert!(stream.next().is_none());
    assert_eq!(stream.sequence().finish(), Finish::StopToken);
    assert_eq!(stream.sequence().stats().unwrap().tokens_prompt, 601);
    let sequence = stream.into_sequence();
    assert_eq!(sequence.text(), ANSWER);
}

#[test]
fn a_stream_that_is_cancelled_ends_with_the_error() {
    let demo = Demo::new();
    let mut stream = demo.prompt().stream(&demo.cache, &short()).unwrap();
    let first = stream.next().unwrap().unwrap();
    assert!(ANSWER.starts_with(&first));
    stream.canceller().cancel();
    let error = stream.find_map(|piece| piece.err()).unwrap();
    assert_eq!(error.status(), Status::Cancelled);
    assert!(stream.next().is_none());
    assert_eq!(stream.sequence().finish(), Finish::Cancelled);
}

#[test]
fn several_samples_are_told_apart() {
    let demo = Demo::new();
    let sampling = Sampling::default().temperature(1.5).seed(7);
    let mut texts = vec![String::new(); 3];
    let options = short().samples(3).sampling(sampling);
    let callbacks =
        Callbacks::new().on_sample_text(|sample, text| texts[sample as usize].push_str(text));
    let stats = demo.prompt().generate(&demo.cache, &options, callbacks).unwrap();
    assert!(stats.tokens_generated >= 3);
    assert!(texts.iter().all(|text| !text.is_empty()), "{texts:?}");
}

#[test]
fn functions_end_a_request() {
    let demo = Demo::new();
    let prompt = demo.prompt();
    let mut text = String::new();
    let callbacks = Callbacks::new().on_text(|piece| {
        text.push_str(piece);
        ControlFlow::<()>::Break(())
    });
    let stats = prompt.generate(&demo.cache, &short(), callbacks).unwrap();
    assert_eq!(stats.finish, Finish::Callback);
    assert!(ANSWER.starts_with(&text) && text.len() < ANSWER.len());

    let callbacks = Callbacks::new().on_text(|_| std::io::Result::<()>::Err(full_pipe()));
    let error = prompt.generate(&demo.cache, &short(), callbacks).unwrap_err();
    assert_eq!(error.status(), Status::Io);
    assert!(error.text().contains("the pipe is full"), "{error}");

    let mut polled = 0;
    let callbacks = Callbacks::new().cancelled(|| {
        polled += 1;
        polled > 3
    });
    let (result, stats) = prompt.generate_counted(&demo.cache, &short(), callbacks);
    assert_eq!(result.unwrap_err().status(), Status::Cancelled);
    assert_eq!(stats.tokens_prompt, 601);
    assert_eq!(polled, 4);
}

fn full_pipe() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Other, "the pipe is full")
}

#[test]
fn tokens_cancel_from_another_thread() {
    let demo = Demo::new();
    let (prompt, token) = (demo.prompt(), CancelToken::new());
    let options = short().max_tokens(100_000).flags(GenerateFlags::IGNORE_END);
    let (sender, receiver) = std::sync::mpsc::channel();
    let canceller = token.clone();
    let error = std::thread::scope(|scope| {
        scope.spawn(move || {
            receiver.recv().unwrap();
            canceller.cancel();
        });
        let callbacks = Callbacks::new().cancel_token(&token).on_text(move |_| {
            let _ = sender.send(());
        });
        prompt.generate(&demo.cache, &options, callbacks).unwrap_err()
    });
    assert_eq!(error.status(), Status::Cancelled);
    let callbacks = Callbacks::new().cancel_token(&token);
    assert!(prompt.generate(&demo.cache, &short(), callbacks).is_err());
    token.reset();
    let callbacks = Callbacks::new().cancel_token(&token);
    assert!(prompt.generate(&demo.cache, &short(), callbacks).is_ok());
}

#[test]
fn logits_can_be_changed() {
    let demo = Demo::new();
    let vocabulary = demo.model.info().vocab as usize;
    let mut forbidden = None;
    let callbacks = Callbacks::new().on_logits(|_, logits| {
        assert!(logits.len() <= vocabulary);
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
        forbidden.get_or_insert(best as i32);
        logits[best] = f32::NEG_INFINITY;
    });
    let mut drawn = Vec::new();
    let callbacks = callbacks.on_token(|token| drawn.push(token.id));
    demo.prompt().generate(&demo.cache, &short().max_tokens(1), callbacks).unwrap();
    assert_ne!(drawn, [forbidden.unwrap()]);
}

#[test]
fn a_panic_goes_on_behind_the_call() {
    let demo = Demo::new();
    let prompt = demo.prompt();
    let panics: [fn() -> Callbacks<'static>; 4] = [
        || Callbacks::new().on_text(|_| -> () { panic!("of a function") }),
        || Callbacks::new().on_token(|_| -> () { panic!("of a function") }),
        || Callbacks::new().on_logits(|_, _| -> () { panic!("of a function") }),
        || Callbacks::new().cancelled(|| panic!("of a function")),
    ];
    for make in panics {
        let call = || prompt.generate(&demo.cache, &short(), make());
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"of a function"));
    }
    let progress = |_: Progress<'_>| -> () { panic!("of progress") };
    let load = || {
        let path = root().join("models/demo/demo.gguf");
        Model::load_with(&demo.context, path, &ModelOptions::default(), progress)
    };
    let panic = catch_unwind(AssertUnwindSafe(load)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of progress"));
    assert_eq!(prompt.answer(&demo.cache, &short()).unwrap().text, ANSWER);
}

#[test]
fn a_function_may_use_the_library() {
    let demo = Demo::new();
    let (inner, outer) = (demo.job_prompt(), demo.prompt());
    let mut answers = Vec::new();
    let callbacks = Callbacks::new().on_text(|_| {
        let answer = inner.answer(&demo.cache, &short())?;
        answers.push(answer.text);
        let failed = Schema::parse(&demo.model, "<none").unwrap_err();
        assert_eq!(failed.status(), Status::Pml);
        Ok::<_, Error>(())
    });
    let stats = outer.generate(&demo.cache, &short(), callbacks).unwrap();
    assert_eq!(stats.finish, Finish::StopToken);
    assert!(answers.len() > 3);
    assert!(answers.iter().all(|answer| answer == "The job of Alice Chen is librarian."));
}

#[test]
fn errors_have_code_text_and_place() {
    let demo = Demo::new();
    let error = Model::load(&demo.context, "nowhere.gguf").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    assert_eq!(error.place(), None);
    assert!(error.to_string().starts_with("PC_ERR_NOT_FOUND: "), "{error}");
    assert!(error.to_string().contains("nowhere.gguf"), "{error}");

    let text = "<schema name=\"s\">\n  <module name=\"m\">text\n</schema>";
    let error = Schema::parse(&demo.model, text).unwrap_err();
    assert_eq!(error.status(), Status::Pml);
    assert_eq!(error.place().map(|place| place.0), Some(3), "{error}");

    let catalogue = pml("catalogue-prompt.pml");
    let error = Prompt::load(&[&demo.schema], catalogue).unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    let error = Prompt::load(&[], "prompt.pml").unwrap_err();
    assert_eq!(error.status(), Status::Invalid);
    let error = Model::load(&demo.context, "a\0b").unwrap_err();
    assert_eq!(error.status(), Status::Invalid);

    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
    assert!(boxed.to_string().contains("NUL"));
    assert_eq!(Status::from(-4711), Status::Other(-4711));
    assert_eq!(Reason::from(4711), Reason::Other(4711));
    assert_eq!(u32::from(Reason::Other(4711)), 4711);
}

#[test]
fn options_reach_the_library() {
    let demo = Demo::new();
    let prompt = demo.prompt();
    let stopped = short().stop_strings(["Peter", "nothing"]);
    assert_eq!(prompt.answer(&demo.cache, &stopped).unwrap().text, "The desk of ");
    let mut drawn = Vec::new();
    let callbacks = Callbacks::new().on_token(|token| drawn.push(token.id));
    prompt.generate(&demo.cache, &short(), callbacks).unwrap();
    let bias = Sampling::default().bias_tokens([drawn[2]]).bias_values([f32::NEG_INFINITY]);
    let answer = prompt.answer(&demo.cache, &short().sampling(bias)).unwrap();
    assert_ne!(answer.text, ANSWER);
    let error = prompt
        .answer(&demo.cache, &short().sampling(Sampling::default().bias_tokens(vec![1])))
        .unwrap_err();
    assert_eq!(error.status(), Status::Invalid);
    let salts = [Salt { first: 0, data: b"tenant".to_vec() }];
    let before = prompt.answer(&demo.cache, &short()).unwrap().stats.tokens_cached;
    let of_tenant = prompt.answer(&demo.cache, &short().salts(salts.to_vec())).unwrap();
    assert_eq!((before, of_tenant.stats.tokens_cached), (590, 0));
    let unknown = short().repair(Repair::Other(4711));
    assert_eq!(prompt.answer(None, &unknown).unwrap_err().status(), Status::Invalid);
}

#[test]
fn progress_and_log_are_told() {
    let lines = Arc::new(Mutex::new(0));
    let counted = lines.clone();
    let context = Context::with_log(&ContextOptions::default(), move |level, line| {
        assert!(!line.is_empty() && !matches!(level, LogLevel::Other(_)));
        *counted.lock().unwrap() += 1;
    })
    .unwrap();
    let mut steps = 0;
    let path = root().join("models/demo/demo.gguf");
    Model::load_with(&context, &path, &ModelOptions::default(), |step| {
        assert!(!step.what.is_empty());
        steps += 1;
    })
    .unwrap();
    assert!(steps > 1);
    let cancelled = Model::load_with(&context, &path, &ModelOptions::default(), |_| {
        ControlFlow::<()>::Break(())
    });
    assert_eq!(cancelled.unwrap_err().status(), Status::Cancelled);
    let failed = Model::load_with(&context, &path, &ModelOptions::default(), |_| {
        std::result::Result::<(), _>::Err("the user has gone")
    });
    assert!(failed.unwrap_err().text().contains("the user has gone"));
    let packed = ModelOptions::default().packed_weights("/dev/null/nowhere");
    Model::load_with(&context, &path, &packed, |_| ()).unwrap();
    assert!(*lines.lock().unwrap() > 0); // the folder cannot be used, which is logged
}

#[test]
fn events_are_told_also_from_the_threads_of_the_cache() {
    let demo = Demo::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (told, bytes) = (seen.clone(), Arc::new(Mutex::new(0)));
    let counted = bytes.clone();
    let events = CacheEvents::new()
        .on_event(move |event| told.lock().unwrap().push((event.kind, event.tier)))
        .on_bytes(move |_, bytes, budget| {
            assert!(bytes <= budget);
            *counted.lock().unwrap() += 1;
        });
    let options = CacheOptions::default().disk_path(folder().to_str().unwrap());
    let cache = Cache::with_events(&demo.context, &options, events).unwrap();
    demo.prompt().answer(&cache, &short()).unwrap();
    assert!(cache.flush().unwrap());
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&(EventKind::Store, Tier::Ram)), "{seen:?}");
    assert!(seen.contains(&(EventKind::Store, Tier::Disk)), "{seen:?}");
    assert!(*bytes.lock().unwrap() > 0);

    let events = CacheEvents::new().on_event(|_| panic!("in an event"));
    let cache = Cache::with_events(&demo.context, &CacheOptions::default(), events).unwrap();
    assert_eq!(demo.prompt().answer(&cache, &short()).unwrap().text, ANSWER);
}

#[test]
fn a_cache_may_go_in_its_own_event() {
    let demo = Demo::new();
    for disk in [false, true] {
        let slot: Arc<Mutex<Option<Cache>>> = Arc::default();
        let taken = slot.clone();
        let events = CacheEvents::new().on_event(move |_| {
            let cache = taken.lock().unwrap().take();
            drop(cache);
        });
        let mut options = CacheOptions::default();
        if disk {
            options = options.disk_path(folder().to_str().unwrap());
        }
        let cache = Cache::with_events(&demo.context, &options, events).unwrap();
        *slot.lock().unwrap() = Some(cache.clone());
        assert_eq!(demo.prompt().answer(&cache, &short()).unwrap().text, ANSWER);
        drop(cache);
    }
}
