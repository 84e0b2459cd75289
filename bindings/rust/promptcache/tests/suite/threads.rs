//! Catches: shared objects that threads may not share, calls in any order that break something.
use crate::common::{kept, short, Demo, ANSWER};
use promptcache::*;

#[test]
fn threads_share_cache_model_and_prompts() {
    let demo = Demo::with(&CacheOptions::default().ram_bytes(4 << 20)); // some is evicted
    let (prompt, job) = (demo.prompt(), demo.job_prompt());
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (demo, prompt, job) = (&demo, &prompt, &job);
            scope.spawn(move || {
                for round in 0..2 {
                    if (number + round) % 3 == 0 {
                        demo.cache.clear().unwrap();
                    }
                    let answer = prompt.answer(&demo.cache, &short()).unwrap();
                    assert_eq!(answer.text, ANSWER);
                    let text: Result<String> = job.stream(&demo.cache, &short()).unwrap().collect();
                    assert_eq!(text.unwrap(), "The job of Alice Chen is librarian.");
                }
            });
        }
    });
    let stats = demo.cache.stats().unwrap();
    assert_eq!(stats.stored, stats.segments + stats.evicted + stats.removed);
}

/// A small generator of numbers (xorshift, Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

/// Sequences in and out of a batch, and what is done to them.
struct State<'d> {
    demo: &'d Demo,
    prompts: Vec<Prompt>,
    batch: Batch<'static>,
    inside: Vec<SequenceId>,
    outside: Vec<Sequence<'static>>,
}

impl State<'_> {
    fn one(numbers: &mut Numbers, count: usize) -> Option<usize> {
        if count == 0 {
            None
        } else {
            Some(numbers.below(count))
        }
    }

    fn step(&mut self, numbers: &mut Numbers) {
        let inside = Self::one(numbers, self.inside.len());
        let outside = Self::one(numbers, self.outside.len());
        match (numbers.below(11), inside, outside) {
            (0, _, _) if self.outside.len() < 8 => {
                let prompt = &self.prompts[numbers.below(self.prompts.len())];
                let options = if numbers.below(2) == 0 { short() } else { kept() };
                let new = Sequence::new(prompt, &self.demo.cache, &options, Callbacks::new());
                self.outside.push(new.unwrap());
            }
            (1 | 2, _, Some(index)) => {
                let sequence = self.outside.swap_remove(index);
                self.inside.push(self.batch.add(sequence).unwrap());
            }
            (3, Some(index), _) => {
                let id = self.inside.swap_remove(index);
                self.outside.push(self.batch.remove(id).unwrap());
                assert!(self.batch.remove(id).is_none());
            }
            (4, Some(index), _) if self.outside.len() < 8 => {
                if let Ok(copy) = self.batch[self.inside[index]].fork(None) {
                    assert_eq!(copy.tokens(), self.batch[self.inside[index]].tokens());
                    self.outside.push(copy);
                }
            }
            (5, Some(index), _) => {
                let mut sequence = self.batch.get_mut(self.inside[index]).unwrap();
                let count = numbers.below(sequence.tokens().len() + 2);
                let _ = sequence.truncate(count); // what cannot be is refused
                let _ = sequence.push(&[5, 6, 7][..numbers.below(4)]);
            }
            (6, Some(index), _) => self.batch[self.inside[index]].canceller().cancel(),
            (7, _, Some(index)) => drop(self.outside.swap_remove(index)),
            (8, Some(index), _) => {
                let mut sequence = self.batch.get_mut(self.inside[index]).unwrap();
                let key = [numbers.below(3) as u8; 32];
                let _ = sequence.save(&self.demo.cache, &key, &SaveOptions::default());
                if let Ok(spans) = sequence.spans() {
                    assert!(spans.iter().all(|span| span.hi > span.lo));
                }
            }
            _ => {
                let step = self.batch.step().unwrap();
                let unfinished =
                    self.batch.iter().filter(|(_, s)| s.finish() == Finish::None).count();
                assert_eq!(step == Step::Finished, unfinished == 0);
            }
        }
        for (_, sequence) in self.batch.iter() {
            assert!(std::str::from_utf8(sequence.text_bytes()).is_ok());
            let failed = matches!(sequence.finish(), Finish::Error | Finish::Cancelled);
            assert_eq!(sequence.error().is_some(), failed);
        }
    }
}

#[test]
fn any_calls_in_any_order() {
    let demo = Demo::new();
    let rounds = if std::env::var_os("PC_TEST_LONG").is_some() { 200 } else { 4 };
    for seed in 1..=rounds {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ seed);
        let batch = Batch::new(&demo.model, &BatchOptions::default()).unwrap();
        let prompts = vec![demo.prompt(), demo.job_prompt()];
        let mut state =
            State { demo: &demo, prompts, batch, inside: Vec::new(), outside: Vec::new() };
        for _ in 0..150 {
            state.step(&mut numbers);
        }
        state.batch.run().unwrap();
    }
    assert_eq!(demo.prompt().answer(&demo.cache, &short()).unwrap().text, ANSWER);
}
