//! Catches: slices of a wrong size that reach the library, results that are not those of a plain
//! computation, memory that is not given back, lists and builders that lose something.
use crate::common::{folder, kept, pml, root, short, Demo, ANSWER};
use promptcache::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// Attention of one query over k and v `[token][kv_head][dim]`, in double precision.
fn plain(q: &[f32], k: &[f32], v: &[f32], tokens: usize, dim: usize) -> Vec<f64> {
    let score = |t: usize| {
        (0..dim).map(|d| f64::from(q[d]) * f64::from(k[t * dim + d])).sum::<f64>()
            / (dim as f64).sqrt()
    };
    let weights: Vec<f64> = (0..tokens).map(|t| score(t).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (0..dim)
        .map(|d| (0..tokens).map(|t| weights[t] * f64::from(v[t * dim + d])).sum::<f64>() / sum)
        .collect()
}

#[test]
fn attention_over_runs_of_the_application() {
    let context = Context::new(&ContextOptions::default().threads(1)).unwrap();
    let (dim, shared, own) = (16, 100, 3);
    let shape = AttendShape::default().heads(1).kv_heads(1).k_dim(16).v_dim(16).dtype(Dtype::F32);
    let (k, v) = (numbers((shared + own) * dim, 1), numbers((shared + own) * dim, 2));
    let mut runs = Vec::new();
    for (first, count) in [(0, shared), (shared, own)] {
        let mut pages = Pages::new(&shape, count).unwrap();
        let range = first * dim..(first + count) * dim;
        pages.write(0, count, &k[range.clone()], &v[range], KvOrder::NHD).unwrap();
        runs.push(pages);
    }
    let (mut back_k, mut back_v) = (vec![0.0; shared * dim], vec![0.0; shared * dim]);
    runs[0].read(0, shared, &mut back_k, &mut back_v, KvOrder::NHD).unwrap();
    assert_eq!((&back_k[..], &back_v[..]), (&k[..shared * dim], &v[..shared * dim]));

    let lists = [Run { tokens: shared, relative: &[] }, Run { tokens: own, relative: &[] }];
    let span = |run, start| RowSpan { run, start, ..RowSpan::default() };
    let row = Row { position: 103, spans: vec![span(0, 0), span(1, shared as i64)] };
    let alone = Row { position: 100, spans: vec![span(0, 0)] };
    let mut plan = Plan::new(&context, &shape, &lists, &[row, alone]).unwrap();
    let (q, mut out, mut lse) = (numbers(2 * dim, 3), vec![0.0; 2 * dim], vec![0.0; 2]);
    let pages: Vec<&Pages> = runs.iter().collect();
    plan.attend(&pages, &q, &mut out, Some(&mut lse), &Attend::default()).unwrap();
    let wanted = [plain(&q, &k, &v, shared + own, dim), plain(&q[dim..], &k, &v, shared, dim)];
    for (ours, wanted) in out.iter().zip(wanted.concat()) {
        assert!((f64::from(*ours) - wanted).abs() < 1e-5);
    }

    // in two parts, joined
    let parts: Vec<(Vec<f32>, Vec<f32>)> = [0, 1]
        .iter()
        .map(|run| {
            let row = Row { position: 103, spans: vec![span(*run, 0)] };
            let mut plan = Plan::new(&context, &shape, &lists, &[row]).unwrap();
            let (mut out, mut lse) = (vec![0.0; dim], vec![0.0; 1]);
            plan.attend(&pages, &q[..dim], &mut out, Some(&mut lse), &Attend::default()).unwrap();
            (out, lse)
        })
        .collect();
    let parts: Vec<_> = parts.iter().map(|(out, lse)| Partial { out, lse }).collect();
    let (mut joined, mut joined_lse) = (vec![0.0; dim], vec![0.0; 1]);
    merge(&parts, 1, 16, &mut joined, &mut joined_lse, MergeFlags::default()).unwrap();
    for (ours, whole) in joined.iter().zip(&out) {
        assert!((ours - whole).abs() < 1e-5);
    }
    assert!((joined_lse[0] - lse[0]).abs() < 1e-5);

    let invalid = |result: Result<()>| assert_eq!(result.unwrap_err().status(), Status::Invalid);
    invalid(plan.attend(&pages, &q[1..], &mut out, None, &Attend::default()));
    invalid(plan.attend(&pages, &q, &mut out[1..], None, &Attend::default()));
    invalid(plan.attend(&pages, &q, &mut out, Some(&mut lse[1..]), &Attend::default()));
    invalid(plan.attend(&pages[1..], &q, &mut out, None, &Attend::default()));
    invalid(plan.attend(&[&runs[1], &runs[0]], &q, &mut out, None, &Attend::default()));
    let slopes = Attend { slopes: vec![1.0; 3], ..Attend::default() };
    invalid(plan.attend(&pages, &q, &mut out, None, &slopes));
    let rope = Rope::default().dims(16).frequency(vec![1.0; 7]);
    let rope = Attend { rope: Some(rope), ..Attend::default() };
    invalid(plan.attend(&pages, &q, &mut out, None, &rope));
    invalid(runs[0].read(99, 2, &mut back_k, &mut back_v, KvOrder::NHD));
    // where there is a device: its backend would take these addresses for its own
    if let Ok(device) = Context::new(&ContextOptions::default().backend("cuda")) {
        let error = Plan::new(&device, &shape, &lists, &[]).unwrap_err();
        assert_eq!(error.status(), Status::Unsupported);
    }
    assert!(Pages::new(&shape.k_dim(0), 5).is_err());
}

#[test]
fn segments_by_hand_give_the_logits_of_one_pass() {
    let demo = Demo::new();
    let vocab = demo.model.info().vocab as usize;
    let text = "The desk of Peter Novak is 368. The desk of";
    let tokens = demo.model.tokenize(text, TokenizeFlags::BOS).unwrap();
    let positions: Vec<i64> = (0..tokens.len() as i64).collect();
    let lane = |spans, range: std::ops::Range<usize>| Lane {
        spans,
        tokens: &tokens[range.clone()],
        positions: &positions[range],
    };
    let mut whole = vec![0.0; tokens.len() * vocab];
    let by = Visibility::ByPosition;
    demo.model.eval(&[lane(&[], 0..tokens.len())], by, Some(&mut whole), false).unwrap();
    let head = demo.model.eval(&[lane(&[], 0..5)], by, None, true).unwrap();
    assert_eq!(head[0].tokens(), &tokens[..5]);
    let spans = [Span { segment: head[0].clone(), start: 0, lo: 0, hi: 5 }];
    let mut rest = vec![0.0; (tokens.len() - 5) * vocab];
    demo.model.eval(&[lane(&spans, 5..tokens.len())], by, Some(&mut rest), false).unwrap();
    for (a, b) in rest.iter().zip(&whole[5 * vocab..]) {
        assert!((a - b).abs() < 0.1, "{a} {b}");
    }
    let short_room = demo.model.eval(&[lane(&[], 0..5)], by, Some(&mut rest[..vocab]), false);
    assert_eq!(short_room.unwrap_err().status(), Status::Invalid);

    let size = head[0].read_size().unwrap();
    let (mut k, mut v) = (vec![0.0; size], vec![0.0; size]);
    head[0].read(0, 0, Some(&mut k), Some(&mut v)).unwrap();
    assert!(k.iter().any(|x| *x != 0.0) && k.iter().chain(&v).all(|x| x.is_finite()));
    assert!(head[0].read(0, 0, Some(&mut k[1..]), None).is_err());
    let states = head[0].states().unwrap();
    assert_eq!(states.tokens, &tokens[..5]);
    assert_eq!(states.blocks.len() as i32, demo.model.info().layers);

    let options = PromptOptions::default();
    let rest = &tokens[5..];
    let prompt = Prompt::from_spans(&demo.model, &spans, 5, rest, &options).unwrap();
    let by_hand = prompt.answer(None, &short()).unwrap();
    let plain = Prompt::from_tokens(&demo.model, &tokens, &options).unwrap();
    assert_eq!(by_hand.text, plain.answer(None, &short()).unwrap().text);
    assert_eq!(by_hand.stats.exactness, Exactness::Exact);
}

/// A block that counts how many of its kind there are.
struct Counted(Vec<u8>, Arc<AtomicU32>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn states_of_another_runtime() {
    let context = Context::new(&ContextOptions::default().threads(1)).unwrap();
    let path = folder();
    let options = CacheOptions::default().disk_path(path.to_str().unwrap());
    let cache = Cache::new(&context, &options).unwrap();
    let model = [1; 32];
    let shape = StatesShape::default()
        .model(model)
        .architecture("other")
        .layout(Layout::Other(300))
        .dtype(Dtype::F32)
        .layers(2)
        .kv_heads(1)
        .k_dim(4)
        .v_dim(4);
    let base = key_base(&KeyParts::default().model(model).layout(Layout::Other(300))).unwrap();
    let tokens = [1, 2, 3];
    let key = SegmentKey { tokens: &tokens, ..SegmentKey::default() }.key(&base).unwrap();
    let next = SegmentKey { parent: Some((&key, 3)), tokens: &tokens, ..SegmentKey::default() };
    let next = next.key(&base).unwrap();
    assert_ne!(key, next);

    let (live, bytes) = (Arc::new(AtomicU32::new(2)), [100u64, 200]);
    let block = |index: usize| {
        let bytes = (0..bytes[index]).map(|byte| (byte as u8) ^ index as u8).collect();
        Counted(bytes, live.clone())
    };
    let blocks = vec![block(0), block(1)];
    let segment = Segment::wrap(&context, &shape, &tokens, &[], blocks).unwrap();
    assert_eq!(segment.tokens(), tokens);
    assert_eq!(cache.put(&key, &segment, &PutOptions::default()).unwrap(), Put::Stored);
    let copied = segment.states().unwrap();
    assert_eq!(cache.put_copy(&key, &copied, &PutOptions::default()).unwrap(), Put::Exists);
    assert_eq!(cache.put_copy(&next, &copied, &PutOptions::default()).unwrap(), Put::Stored);
    assert!(segment.read_size().is_err());
    drop(segment);
    assert_eq!(live.load(Ordering::Relaxed), 2); // the cache has it

    let found = cache.find(&[key, next, [9; 32]], &FindOptions::default()).unwrap();
    assert_eq!((found.count, &found.tiers[..]), (2, &[Tier::Ram, Tier::Ram, Tier::None][..]));
    assert!(cache.flush().unwrap());
    cache.clear().unwrap();
    assert_eq!(live.load(Ordering::Relaxed), 0);

    let expected = Expected { shape, tokens: &tokens, block_bytes: &bytes, ..Expected::default() };
    let (segment, info) = cache.get(&key, &expected, &GetOptions::default()).unwrap();
    assert_eq!(info.tier, Tier::Disk);
    let segment = segment.unwrap();
    let states = segment.states().unwrap();
    assert_eq!(states.blocks[1][7], 7 ^ 1);
    let missing = cache.get(&[9; 32], &expected, &GetOptions::default()).unwrap();
    assert!(missing.0.is_none() && missing.1.reason == Reason::FirstUse);

    let wanted = |key: [u8; 32], own: bool| Wanted {
        key,
        tokens: tokens.to_vec(),
        blocks: own.then(|| bytes.iter().map(|bytes| vec![0; *bytes as usize]).collect()),
        ..Wanted::default()
    };
    let entries = vec![wanted(key, false), wanted(next, true), wanted([9; 32], true)];
    let mut load = cache.get_many(&expected, entries, &GetOptions::default()).unwrap();
    while !load.wait(1.0).unwrap() {}
    assert_eq!(load.done().unwrap(), 3);
    assert!(matches!(load.result(0).unwrap().unwrap().0, Found::Hit(Some(_))));
    assert!(matches!(load.result(1).unwrap().unwrap().0, Found::Hit(None)));
    assert!(matches!(load.result(2).unwrap().unwrap().0, Found::Miss(_)));
    assert_eq!(load.result(3).unwrap_err().status(), Status::NotFound);
    let blocks = load.into_blocks();
    assert_eq!(blocks[1].as_ref().unwrap()[1][7], 7 ^ 1);
    let wrong = Wanted { blocks: Some(vec![vec![0; 1]]), ..wanted(key, false) };
    assert!(cache.get_many(&expected, vec![wrong], &GetOptions::default()).is_err());
    cache.prefetch(&expected, &[wanted(next, true)], &GetOptions::default()).unwrap();

    assert!(cache.pin(&key, 5, 0.0).unwrap());
    assert!(cache.unpin(&key, 5).unwrap());
    cache.set_quota(Tier::Ram, b"tenant", 1 << 20).unwrap();
    assert!(cache.prometheus(Some("model=\"a\"")).unwrap().contains("model=\"a\""));
    assert!(cache.tier_stats(Tier::Disk).unwrap().hits > 0);
    assert_eq!(cache.remove(&[key, [9; 32]], Tiers::default()).unwrap(), 1);

    let mut records = Folder::open(&context, &path, &FolderOptions::default()).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records.get(0).unwrap().key, next);
    assert_eq!(records.tokens(0).unwrap(), tokens);
    records.verify(0).unwrap();
    records.remove(0).unwrap();
    assert!(records.get(1).is_err());
}

/// A block with a reference to a cache, which goes with it when it may.
struct Last(Vec<u8>, Option<Cache>, Arc<Barrier>);

impl AsRef<[u8]> for Last {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.2.wait();
        drop(self.1.take());
    }
}

#[test]
fn a_cache_may_go_with_a_block_on_its_own_thread() {
    let context = Context::new(&ContextOptions::default().threads(1)).unwrap();
    let (live, written) = (Arc::new(AtomicU32::new(1)), Arc::new(Barrier::new(2)));
    let (of_events, gate) = (Counted(Vec::new(), live.clone()), written.clone());
    let (told, was_told) = channel();
    let told = Mutex::new(told);
    let events = CacheEvents::new().on_event(move |event| {
        assert!(of_events.0.is_empty());
        let told = told.lock().unwrap();
        if event.kind == EventKind::Store && event.tier == Tier::Disk {
            told.send(event.key).unwrap();
            if event.key == [1; 32] {
                gate.wait(); // the thread has the segment still
            }
        }
    });
    let options = CacheOptions::default().disk_path(folder().to_str().unwrap()).io_threads(1);
    let cache = Cache::with_events(&context, &options, events).unwrap();
    let shape = StatesShape::default().model([7; 32]).architecture("other");
    let shape = shape.layout(Layout::Other(300));
    let shape = shape.layers(1).kv_heads(1).k_dim(4).v_dim(4).dtype(Dtype::F32);
    let may_drop = Arc::new(Barrier::new(2));
    let block = Last(vec![1; 100], Some(cache.clone()), may_drop.clone());
    let first = Segment::wrap(&context, &shape, &[1], &[], vec![block]).unwrap();
    let second = Segment::wrap(&context, &shape, &[2], &[], vec![vec![2; 100]]).unwrap();
    let below = PutOptions::default().tiers(Tiers::DISK);
    assert_eq!(cache.put(&[1; 32], &first, &below).unwrap(), Put::Stored);
    assert_eq!(cache.put(&[2; 32], &second, &below).unwrap(), Put::Stored);
    drop(first);
    written.wait();
    drop(cache);
    may_drop.wait();
    // the second one is written, and told, when nobody has the cache any more
    let keys = [(); 2].map(|()| was_told.recv_timeout(Duration::from_secs(60)).unwrap());
    assert_eq!(keys, [[1; 32], [2; 32]]);
    assert_eq!(live.load(Ordering::SeqCst), 1); // the functions stay
}

#[test]
fn a_prompt_has_schemas_of_one_model() {
    let (one, other) = (Demo::new(), Demo::new());
    let text = "<prompt schema=\"b\"><note/> The desk of</prompt>";
    let schema = |demo: &Demo, name: &str| {
        let text =
            format!("<schema name=\"{name}\"><module name=\"note\">A note.</module></schema>");
        Schema::parse(&demo.model, &text).unwrap()
    };
    let (a, b) = (schema(&one, "a"), schema(&other, "b"));
    let error = Prompt::parse(&[&a, &b], text).unwrap_err();
    assert_eq!(error.status(), Status::Mismatch);
    let same = schema(&one, "b");
    let prompt = Prompt::parse(&[&a, &same], text).unwrap();
    assert!(embed(&[&prompt], None, &EmbedOptions::default(), None).is_ok());
}

#[test]
fn builders_make_what_documents_make() {
    let demo = Demo::new();
    let none = PromptFlags::default();
    let mut builder = SchemaBuilder::new(&demo.model, "built", &SchemaOptions::default()).unwrap();
    builder
        .text("Read the note. ", none)
        .and_then(|b| b.begin_module("note", ItemFlags::default()))
        .and_then(|b| b.text("The desk of Peter Novak is 368. ", none))
        .and_then(|b| b.parameter("name", 4, None))
        .unwrap();
    assert_eq!(builder.build().unwrap_err().status(), Status::State);
    let schema = builder.end().unwrap().build().unwrap();
    assert_eq!(schema.name(), "built");
    let kinds: Vec<ItemKind> = schema.items().iter().map(|item| item.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == ItemKind::Parameter).count(), 1);
    assert!(schema.encode(&demo.cache, &EncodeOptions::default()).unwrap());
    let mut steps = 0;
    let salts = [Salt { first: 0, data: b"a".to_vec() }];
    let options = EncodeOptions::default().salts(salts.to_vec()).pin(true).pin_owner(3);
    schema.encode_with(&demo.cache, &options, |_| steps += 1).unwrap();
    assert!(steps > 0 && demo.cache.stats().unwrap().pinned_bytes > 0);
    demo.cache.unpin_owner(3).unwrap();
    assert_eq!(schema.prefetch(&demo.cache, &EncodeOptions::default()).unwrap(), 0);

    let mut builder = PromptBuilder::new(&schema).unwrap();
    builder
        .module("note")
        .and_then(|b| b.argument("name", "Anna"))
        .and_then(|b| b.text("What is the desk?", none))
        .unwrap();
    assert_eq!(builder.argument("name", "again").unwrap_err().status(), Status::State);
    let prompt = builder.build(&PromptOptions::default()).unwrap();
    let parts = prompt.parts();
    assert!(parts.iter().any(|part| part.kind == PartKind::Argument && part.path == "note/name"));
    assert!(parts.iter().all(|part| !part.tokens.is_empty()));
    let answer = prompt.answer(&demo.cache, &short()).unwrap();
    assert!(answer.stats.tokens_cached > 0);

    let text = "<schema name=\"s\">Hello <module name=\"m\">there</module></schema>";
    let schema = Schema::parse(&demo.model, text).unwrap();
    let prompt = "<prompt schema=\"s\"><m/> you</prompt>";
    assert!(Prompt::parse(&[&schema, &demo.schema], prompt).is_ok());
    let chat = [Message::user("Hello")];
    let formatted = demo.model.chat_format(&chat, &ChatOptions::default()).unwrap();
    assert!(formatted.contains("Hello") && formatted.len() > 5);
    let bad = ChatOptions::default().tools("{");
    let error = demo.model.chat_format(&chat, &bad).unwrap_err();
    assert_eq!((error.status(), error.place().map(|p| p.0)), (Status::Format, Some(1)), "{error}");
}

#[test]
fn embeddings_memos_and_prefills() {
    let demo = Demo::new();
    let prompts = [demo.prompt(), demo.job_prompt()];
    let list: Vec<&Prompt> = prompts.iter().collect();
    let options = EmbedOptions::default().flags(EmbedFlags::NORMALIZE);
    let made = embed(&list, &demo.cache, &options, None).unwrap();
    assert_eq!(made.iter().count(), 2);
    for embedding in made.iter() {
        let length: f32 = embedding.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-3);
    }
    let again = embed(&list, &demo.cache, &options, None).unwrap();
    assert!(again.stats.tokens_cached > made.stats.tokens_cached);
    let mut small = vec![0.0; made.width];
    assert!(embed_into(&list, &demo.cache, &options, None, &mut small).is_err());
    let token = CancelToken::new();
    token.cancel();
    let error = embed(&list, None, &options, Some(&token)).unwrap_err();
    assert_eq!(error.status(), Status::Cancelled);

    let memo = Memo::open(&demo.model, folder(), &MemoOptions::default()).unwrap().unwrap();
    let text = "The desk of Peter Novak is 368. The phone of Peter Novak is 126.";
    let tokens = demo.model.tokenize(text, TokenizeFlags::BOS).unwrap();
    memo.add(&[Input::from(&tokens)], &MemoWork::default(), |_| ()).unwrap();
    assert_eq!(memo.stats().unwrap().live, 1);
    assert!(!memo.buckets().unwrap().is_empty());
    let info = demo.model.info();
    let mut embeddings = vec![0.0; info.hidden as usize];
    let mut logits = vec![0.0; info.vocab as usize];
    let options = PrefillOptions::default().memo(memo.clone());
    let outputs = || PrefillOutputs::default();
    let inputs = [Input::from(&tokens)];
    let wanted = PrefillOutputs { embeddings: Some(&mut embeddings), ..outputs() };
    let prefilled = demo.model.prefill(&inputs, &options, wanted, None).unwrap();
    assert_eq!(prefilled.results[0].reuse, Reuse::Output);
    let wanted = PrefillOutputs { logits: Some(&mut logits), segments: true, ..outputs() };
    let prefilled = demo.model.prefill(&inputs, &PrefillOptions::default(), wanted, None).unwrap();
    assert_eq!(prefilled.segments[0].tokens(), tokens);
    assert!(logits.iter().any(|x| *x != 0.0));
    let wanted = PrefillOutputs { embeddings: Some(&mut logits[..3]), ..outputs() };
    assert!(demo.model.prefill(&inputs, &options, wanted, None).is_err());
    let layers = PrefillOptions::default().map_layers(vec![0]);
    assert!(demo.model.prefill(&inputs, &layers, outputs(), None).is_err());

    let prompt = Prompt::from_tokens(&demo.model, &tokens, &PromptOptions::default()).unwrap();
    let options = kept().memo(memo).memo_threshold(f64::NEG_INFINITY);
    let answer = prompt.answer(None, &options).unwrap();
    assert_eq!(answer.stats.memo_record, 0);
}

#[test]
fn systems_files_and_costs() {
    let demo = Demo::new();
    let systems = Systems::new(&demo.model, &demo.cache, &SystemsOptions::default()).unwrap();
    assert!(systems.fill("a", "The desk of Peter Novak is 368.").unwrap());
    assert!(systems.fill_schema("b", &demo.schema).unwrap());
    let names: Vec<String> = systems.list().into_iter().map(|system| system.name).collect();
    assert_eq!(names, ["a", "b"]);
    let schema = systems.find("a").unwrap();
    let prompt = Prompt::fill(&schema, " The desk of", &PromptOptions::default()).unwrap();
    assert!(prompt.answer(&demo.cache, &short()).unwrap().stats.tokens_cached > 0);
    systems.remove("a").unwrap();
    assert_eq!(systems.find("a").unwrap_err().status(), Status::NotFound);
    systems.clear().unwrap();
    assert!(systems.list().is_empty());
    let format =
        SystemFormat::default().system("Be short.").format("[{__SYS_PROMPT}]\n{__USR_PROMPT}\n");
    let schema = Schema::from_format(&demo.model, &format).unwrap();
    assert!(schema.items().iter().any(|item| item.kind == ItemKind::Slot));

    let path = root().join("models/demo/demo.gguf");
    let file = ModelFile::open(&demo.context, &path, &ModelOptions::default()).unwrap();
    let info = file.info().unwrap();
    assert_eq!((info.kind, info.refusal), (ModelFileKind::Gguf, Status::Ok));
    assert_eq!(file.model_info().vocab, demo.model.info().vocab);
    assert!(!file.types().unwrap().is_empty());
    assert!(!demo.context.costs().unwrap().kernels.is_empty());
    assert!(plugins().iter().any(|plugin| plugin.name == "onednn"));
    assert_eq!(version(), env!("CARGO_PKG_VERSION"));
    assert_eq!(abi_version(), sys::PC_ABI_VERSION);
    assert_eq!(text_show("a\u{1b}b"), "a<U+001B>b");
    let digest = fingerprint_files(&[pml("employees.pml").to_str().unwrap()]).unwrap();
    assert_ne!(digest, [0; 32]);
    assert_eq!(demo.prompt().answer(None, &short()).unwrap().text, ANSWER);
}
