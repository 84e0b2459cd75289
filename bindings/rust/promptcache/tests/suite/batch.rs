//! Catches: conversations of a batch that get each other's text, copies that are not like their
//! original, saved sequences that do not come back, sequences that nobody cancels, panics that take
//! other sequences along, objects that must be dropped in an order.
use crate::common::{folder, kept, short, Demo, ANSWER};
use promptcache::*;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

const JOB: &str = "The job of Alice Chen is librarian.";

#[test]
fn several_conversations_are_answered_together() {
    let demo = Demo::new();
    let texts = [Mutex::new(String::new()), Mutex::new(String::new())];
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let mut ids = Vec::new();
    for (prompt, text) in [demo.prompt(), demo.job_prompt()].iter().zip(&texts) {
        let callbacks = Callbacks::new().on_text(move |piece| text.lock().unwrap().push_str(piece));
        let sequence = Sequence::new(prompt, &demo.cache, &kept(), callbacks).unwrap();
        ids.push(batch.add(sequence).unwrap());
    }
    assert_eq!(batch.stats().unwrap().sequences, 2);
    let mut steps = 0;
    loop {
        let step = batch.step().unwrap();
        steps += 1;
        let changed = batch.changed();
        assert!(changed.iter().all(|id| ids.contains(id)));
        assert!(steps > 1 || changed == ids);
        if step == Step::Finished {
            break;
        }
    }
    assert_eq!(batch[ids[0]].text(), ANSWER);
    assert_eq!(batch[ids[1]].text(), JOB);
    assert_eq!(*texts[0].lock().unwrap(), ANSWER);
    assert_eq!(*texts[1].lock().unwrap(), JOB);
    // each takes over what the other has encoded
    let cached: u64 = ids.iter().map(|id| batch[*id].stats().unwrap().tokens_cached).sum();
    assert!(cached > 400, "{cached}");

    // further turns: one goes on, the other stays as it is
    let question = [Message::user("What is the desk of Anna Reed?")];
    let mut first = batch.get_mut(ids[0]).unwrap();
    first.push_messages(&question, &ChatOptions::default()).unwrap();
    batch.run().unwrap();
    assert!(batch[ids[0]].text().starts_with("The desk of Anna Reed is"));
    assert_eq!(batch[ids[1]].text(), JOB);
    let taken = batch.remove(ids[0]).unwrap();
    assert!(batch.get(ids[0]).is_none() && batch.len() == 1);
    assert!(taken.tokens().len() > 10);
}

#[test]
fn copies_go_their_own_ways() {
    let demo = Demo::new();
    let prompt = demo.question("What is the desk of Anna Reed?");
    let samples = Arc::new(Mutex::new(Vec::new()));
    let seen = samples.clone();
    let callbacks = Callbacks::new().on_sample_text(move |sample, _| {
        seen.lock().unwrap().push(sample);
    });
    let sequence = Sequence::new(&prompt, &demo.cache, &kept(), callbacks).unwrap();
    assert_eq!(sequence.fork(None).unwrap_err().status(), Status::State); // before its first step
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let id = batch.add(sequence).unwrap();
    batch.run().unwrap();
    assert_eq!(batch[id].text(), "The desk of Anna Reed is 341.");
    let mut copy = batch[id].fork(None).unwrap();
    assert_eq!(copy.tokens(), batch[id].tokens());
    copy.push_messages(&[Message::user("What is the job of Anna Reed?")], &ChatOptions::default())
        .unwrap();
    drop(batch.remove(id)); // the functions stay with the copy
    let text: String = copy.stream().unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(text, "The job of Anna Reed is engineer.");
    let samples = samples.lock().unwrap();
    assert!(samples.contains(&0) && samples.contains(&1), "{samples:?}");
}

#[test]
fn logits_are_lent() {
    let demo = Demo::new();
    let options = short().flags(GenerateFlags::KEEP | GenerateFlags::LOGITS);
    let sequence = Sequence::new(&demo.prompt(), &demo.cache, &options, Callbacks::new()).unwrap();
    assert!(sequence.logits().is_none());
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let id = batch.add(sequence).unwrap();
    assert_eq!(batch.step().unwrap(), Step::Running);
    let (logits, token) = (batch[id].logits().unwrap(), batch[id].tokens()[0]);
    assert_eq!(logits.len(), demo.model.info().vocab as usize);
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    assert_eq!(best as i32, token);

    // the last token is replaced by another one
    let mut sequence = batch.get_mut(id).unwrap();
    sequence.truncate(0).unwrap();
    batch.step().unwrap();
    let mut sequence = batch.get_mut(id).unwrap();
    let kept = sequence.tokens().len() - 1;
    sequence.truncate(kept).unwrap();
    sequence.push(&[token]).unwrap();
    assert_eq!(sequence.tokens().last(), Some(&token));
    batch.run().unwrap();
}

#[test]
fn a_saved_conversation_comes_back() {
    let demo = Demo::new();
    let key = [7; 32];
    let options = CacheOptions::default().disk_path(folder().to_str().unwrap());
    let save = SaveOptions::default();
    {
        let cache = Cache::new(&demo.context, &options).unwrap();
        let prompt = demo.question("What is the desk of Anna Reed?");
        let mut stream = prompt.stream(&cache, &kept()).unwrap();
        assert!(stream.by_ref().all(|piece| piece.is_ok()));
        let mut sequence = stream.into_sequence();
        assert!(sequence.save(&cache, &key, &save).unwrap());
        assert!(cache.flush().unwrap());
    }
    let cache = Cache::new(&demo.context, &options).unwrap();
    let load = |key: &[u8; 32]| {
        Sequence::load(&demo.model, &cache, key, &kept(), Callbacks::new(), &save).unwrap()
    };
    assert!(matches!(load(&[8; 32]), Found::Miss(reason) if reason != Reason::None));
    let mut sequence = load(&key).hit().unwrap();
    let question = [Message::user("What is the hobby of Anna Reed?")];
    sequence.push_messages(&question, &ChatOptions::default()).unwrap();
    let text: String = sequence.stream().unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(text, "The hobby of Anna Reed is chess.");
    assert!(Sequence::forget(&demo.model, &cache, &key, &save).unwrap());
    assert!(!Sequence::forget(&demo.model, &cache, &key, &save).unwrap());
    assert!(load(&key).hit().is_none());
}

#[test]
fn another_thread_cancels_one_sequence() {
    let demo = Demo::new();
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let endless = short().max_tokens(100_000).flags(GenerateFlags::IGNORE_END);
    let add = |batch: &mut Batch<'static>, options: &GenerateOptions| {
        let new = Sequence::new(&demo.prompt(), &demo.cache, options, Callbacks::new());
        batch.add(new.unwrap()).unwrap()
    };
    let long = add(&mut batch, &endless);
    let brief = add(&mut batch, &short());
    assert_eq!(batch.step().unwrap(), Step::Running);
    let canceller = batch[long].canceller();
    let thread = std::thread::spawn(move || {
        canceller.cancel();
        canceller
    });
    batch.run().unwrap();
    assert_eq!(batch[long].finish(), Finish::Cancelled);
    assert_eq!(batch[long].error().unwrap().status(), Status::Cancelled);
    assert_eq!(batch[brief].text(), ANSWER);
    assert!(batch[brief].error().is_none());
    let canceller = thread.join().unwrap();
    drop(batch);
    canceller.cancel(); // of a sequence that is gone
}

#[test]
fn cancelling_races_with_dropping() {
    let demo = Demo::new();
    for _ in 0..50 {
        let sequence =
            Sequence::new(&demo.prompt(), &demo.cache, &short(), Callbacks::new()).unwrap();
        let canceller = sequence.canceller();
        let thread = std::thread::spawn(move || (0..100).for_each(|_| canceller.cancel()));
        drop(sequence);
        thread.join().unwrap();
    }
}

#[test]
fn a_panic_ends_its_sequence_alone() {
    let demo = Demo::new();
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let wrong = Callbacks::new().on_text(|_| -> () { panic!("in a step") });
    let prompt = demo.prompt();
    let new = |callbacks| Sequence::new(&prompt, &demo.cache, &kept(), callbacks).unwrap();
    let failing = batch.add(new(wrong)).unwrap();
    let going_on = batch.add(new(Callbacks::new())).unwrap();
    let step = || while batch.step().unwrap() == Step::Running {};
    let panic = catch_unwind(AssertUnwindSafe(step)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"in a step"));
    batch.run().unwrap();
    assert!(batch[failing].error().is_some());
    assert_eq!(batch[going_on].text(), ANSWER);
    // with other functions it goes on
    let mut failed = batch.get_mut(failing).unwrap();
    failed.set_options(&kept(), Callbacks::new()).unwrap();
    failed.push(&[]).unwrap();
    batch.run().unwrap();
    assert_eq!(batch[failing].finish(), Finish::StopToken);
}

/// What a panic carries, and cannot be dropped without another one.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

#[test]
fn of_several_panics_the_first_goes_on() {
    let demo = Demo::new();
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let prompt = demo.prompt();
    for index in 0..2 {
        let callbacks = Callbacks::new().on_token(move |_| -> () {
            if index == 0 {
                panic!("the first");
            }
            std::panic::panic_any(Stubborn)
        });
        let sequence = Sequence::new(&prompt, &demo.cache, &kept(), callbacks).unwrap();
        batch.add(sequence).unwrap();
    }
    let panic = catch_unwind(AssertUnwindSafe(|| batch.run().unwrap())).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first"));
    batch.run().unwrap();
    // one that no call waits for
    let events = CacheEvents::new().on_event(|_| std::panic::panic_any(Stubborn));
    let cache = Cache::with_events(&demo.context, &CacheOptions::default(), events).unwrap();
    assert_eq!(prompt.answer(&cache, &short()).unwrap().text, ANSWER);
}

#[test]
fn a_batch_refuses_and_gives_back() {
    let demo = Demo::new();
    let mut batch = Batch::new(&demo.model, &BatchOptions::default().max_sequences(1)).unwrap();
    let prompt = demo.prompt();
    let new = || Sequence::new(&prompt, &demo.cache, &short(), Callbacks::new()).unwrap();
    batch.add(new()).unwrap();
    let refused = batch.add(new()).unwrap_err();
    assert_eq!(refused.error.status(), Status::Limit);
    let text: String = refused.sequence.stream().unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(text, ANSWER);
}

#[test]
fn objects_go_in_any_order() {
    for order in 0..6 {
        let demo = Demo::new();
        let prompt = demo.prompt();
        let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
        let sequence = Sequence::new(&prompt, &demo.cache, &short(), Callbacks::new()).unwrap();
        let id = batch.add(sequence).unwrap();
        let Demo { context, model, cache, schema } = demo;
        let mut parts: Vec<Box<dyn std::any::Any>> = vec![
            Box::new(context),
            Box::new(model),
            Box::new(cache),
            Box::new(schema),
            Box::new(prompt),
        ];
        if order < parts.len() {
            parts.rotate_left(order);
        } else {
            parts.reverse();
        }
        drop(parts); // each in its turn; the sequence holds what it needs
        batch.run().unwrap();
        assert_eq!(batch[id].text(), ANSWER);
    }
}

#[test]
fn a_batch_moves_to_another_thread() {
    let demo = Demo::new();
    let mut batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
    let sequence = Sequence::new(&demo.prompt(), &demo.cache, &short(), Callbacks::new()).unwrap();
    let id = batch.add(sequence).unwrap();
    let _ = batch.step().unwrap();
    let thread = std::thread::spawn(move || {
        batch.run().unwrap();
        batch[id].text().into_owned()
    });
    assert_eq!(thread.join().unwrap(), ANSWER);
}
