#!/usr/bin/env python3
"""Sequences and batches. Catches: a fork, push, truncation or saved sequence that goes on otherwise
than one that nothing disturbed, logits that are copied, an array that outlives its memory, a miss
without a reason."""
import gc
import tempfile
import unittest

import promptcache
from support import employees, model, modules, needs_numpy, numpy, run, text_prompt

KEY = b"conversation of anna".ljust(32)


def sequence(batch=None, prompt=None, cache=None, **options):
    options = {"keep": True, "max_tokens": 6, "ignore_end": True, **options}
    made = promptcache.Sequence(prompt or text_prompt(), cache, **options)
    if batch is not None:
        batch.add(made)
    return made


class Steps(unittest.TestCase):
    def test_steps(self):
        batch = promptcache.Batch(model())
        one, two = sequence(batch), sequence(batch, max_tokens=3)
        self.assertEqual(batch.sequences, [one, two])
        self.assertTrue(batch.step())
        self.assertEqual(batch.changed, [one, two])
        self.assertEqual((len(one.tokens), len(two.tokens)), (1, 1))
        self.assertEqual(batch.stats.running, 2)
        batch.run()
        self.assertEqual(two.tokens, one.tokens[:3])
        self.assertIs(two.finish, promptcache.Finish.LENGTH)
        self.assertEqual(one.text, text_prompt().generate(max_tokens=6, ignore_end=True).text)
        self.assertFalse(batch.step())

    def test_join_and_leave(self):
        batch, other = promptcache.Batch(model()), promptcache.Batch(model())
        one = sequence(batch)
        with self.assertRaises(promptcache.StateError):
            other.add(one)
        batch.remove(one)
        self.assertIsNone(one.batch)
        with self.assertRaises(promptcache.NotFoundError):
            batch.remove(one)
        other.add(one)
        other.run()
        self.assertEqual(len(one.tokens), 6)
        batch.close()
        other.close()
        self.assertEqual(len(one.tokens), 6)

    def test_push_truncate_fork(self):
        batch = promptcache.Batch(model())
        one = sequence(batch)
        batch.run()
        tokens = one.tokens
        one.truncate(2)
        copy = one.fork()
        self.assertIs(copy.batch, batch)
        batch.run()
        self.assertEqual((one.tokens, copy.tokens), (tokens, tokens))
        one.push("Hello")
        batch.run()
        self.assertEqual(one.tokens[:len(tokens)], tokens)
        self.assertEqual(len(one.tokens), len(tokens) + len(model().tokenize("Hello")) + 6)
        drawn = copy.fork(temperature=2.0, seed=5)
        drawn.push()
        batch.run()
        self.assertEqual(len(drawn.tokens), 12)
        with self.assertRaises(promptcache.StateError):
            sequence(keep=False).fork()

    def test_set_options_and_cancel(self):
        batch = promptcache.Batch(model())
        said = []
        one = sequence(batch, max_tokens=500)
        batch.step()
        one.set_options(max_tokens=500, ignore_end=True,
                        on_text=lambda sample, text: said.append(text))
        batch.step()
        self.assertEqual(len(said), 1)
        one.cancel()
        batch.run()
        self.assertIs(one.finish, promptcache.Finish.CANCELLED)
        self.assertIsInstance(one.error, promptcache.CancelledError)
        one.push()
        batch.step()
        self.assertIsNone(one.error)

    def test_dropped_sequences_leave(self):
        batch = promptcache.Batch(model())
        one, two = sequence(batch), sequence(batch)
        batch.step()
        two.close()
        gc.collect()
        self.assertEqual(batch.stats.sequences, 1)
        batch.run()
        self.assertEqual(len(one.tokens), 6)

    def test_a_callback_closes_its_sequence(self):
        batch, held = promptcache.Batch(model()), []
        held.append(sequence(batch, on_text=lambda sample, text: held[0].close()))
        batch.step()
        self.assertEqual(batch.sequences, [])
        self.assertFalse(batch.step())


class Conversations(unittest.TestCase):
    def begin(self, batch, cache, **options):
        schema, _ = employees()
        prompt = promptcache.Prompt.from_messages(model(), [
            {"role": "system", "content": "", "modules": modules(schema)},
            {"role": "user", "content": "What is the desk of Anna Reed?"}], schema=schema)
        return sequence(batch, prompt, cache, max_tokens=40, ignore_end=False, **options)

    def test_turns_and_save(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = promptcache.Cache(disk_path=folder)
            batch = promptcache.Batch(model())
            one = self.begin(batch, cache)
            batch.run()
            self.assertTrue(one.save(cache, KEY))
            one.push_messages([{"role": "user", "content": "What is the job of Anna Reed?"}])
            batch.run()
            expected = one.text
            self.assertIn("Anna Reed", expected)
            self.assertTrue(cache.flush())
            for each in (one, batch, cache):
                each.close()
            cache = promptcache.Cache(disk_path=folder)
            back = promptcache.Sequence.load(model(), cache, KEY, max_tokens=40)
            batch = promptcache.Batch(model())
            batch.add(back)
            back.push_messages([{"role": "user", "content": "What is the job of Anna Reed?"}])
            batch.run()
            self.assertEqual(back.text, expected)
            self.assertGreater(back.stats.tokens_cached, 500)
            self.assertTrue(promptcache.forget_sequence(model(), cache, KEY))
            with self.assertRaises(promptcache.MissError) as caught:
                promptcache.Sequence.load(model(), cache, KEY)
            self.assertIsInstance(caught.exception.reason, promptcache.Reason)
            self.assertIsInstance(caught.exception, KeyError)
            cache.close()


@needs_numpy
class Arrays(unittest.TestCase):
    def test_logits_are_the_librarys(self):
        """The array's address is that of the library: nothing is copied."""
        from promptcache._raw import ffi, lib
        batch = promptcache.Batch(model())
        one = sequence(batch, logits=True)
        self.assertIsNone(one.logits)
        batch.step()
        logits = one.logits
        address = int(ffi.cast("uintptr_t", lib.pc_sequence_logits(one._pointer, ffi.NULL)))
        self.assertEqual(logits.__array_interface__["data"], (address, True))
        self.assertEqual((logits.shape, logits.dtype), ((3030,), numpy.float32))
        self.assertEqual(int(logits.argmax()), one.tokens[0])
        batch.step()
        self.assertEqual(int(logits.argmax()), one.tokens[1])  # the same memory, one step later
        with self.assertRaises(ValueError):
            logits[0] = 1

    def test_dlpack(self):
        batch = promptcache.Batch(model())
        one = sequence(batch, logits=True)
        batch.step()
        logits = one.logits
        same = numpy.from_dlpack(logits)
        self.assertEqual(same.__array_interface__["data"][0],
                         logits.__array_interface__["data"][0])

    def test_arrays_outlive_what_is_closed(self):
        batch = promptcache.Batch(model())
        one = sequence(batch, logits=True)
        batch.step()
        logits = one.logits
        best = int(logits.argmax())
        one.close()
        self.assertEqual(batch.stats.sequences, 0)
        batch.close()
        gc.collect()
        self.assertEqual(int(logits.argmax()), best)

    def test_on_logits(self):
        chosen = model().tokenize(" the")[-1]

        def only(sample, logits):
            logits[:] = -numpy.inf
            logits[chosen] = 0
        answer = text_prompt().generate(max_tokens=3, on_logits=only, top_logprobs=1,
                                        ignore_end=True)
        self.assertEqual([token.token for token in answer.tokens], [chosen] * 3)

    def test_spans(self):
        batch = promptcache.Batch(model())
        one = sequence(batch)
        batch.run()
        spans = one.spans()
        total = sum(len(span.segment.tokens) for span in spans)
        self.assertEqual(total, len(text_prompt().tokens) + 5)
        prompt = promptcache.Prompt.from_spans(model(), spans, total, one.tokens[-1:])
        again = sequence(batch, prompt, max_tokens=4)
        one.push()
        batch.run()
        self.assertEqual(again.tokens, one.tokens[6:10])


class Options(unittest.TestCase):
    def test_keep_stays(self):
        """Options that are set do not end what `keep` began, and may begin it."""
        for steps in (0, 1):
            for begun, given in ((True, {}), (True, {"keep": True}), (False, {"keep": True})):
                if steps and not begun:
                    continue  # too late
                batch = promptcache.Batch(model())
                sequence = batch.add(promptcache.Sequence(text_prompt(), keep=begun, max_tokens=4,
                                                          ignore_end=True))
                for _ in range(steps):
                    batch.step()
                sequence.set_options(max_tokens=3, ignore_end=True, **given)
                batch.run()
                self.assertIs(sequence.batch, batch)
                sequence.push([5])
                batch.run()
                self.assertEqual(len(sequence.tokens), 7)

    def test_options_of_loaded_ones(self):
        cache, key = promptcache.Cache(), bytes(32)
        batch = promptcache.Batch(model())
        first = batch.add(promptcache.Sequence(text_prompt(), cache, keep=True, max_tokens=3,
                                               ignore_end=True))
        batch.run()
        self.assertTrue(first.save(cache, key))
        for steps in (0, 1):
            again = batch.add(promptcache.Sequence.load(model(), cache, key, max_tokens=2,
                                                        ignore_end=True))
            again.push([5])
            for _ in range(steps):
                batch.step()
            again.set_options(max_tokens=4, ignore_end=True)
            batch.run()
            again.push([5])
            batch.run()
            self.assertEqual(len(again.tokens), 3 + 1 + 4 + 1 + 4)


if __name__ == "__main__":
    run()
