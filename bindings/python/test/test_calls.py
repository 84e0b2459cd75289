#!/usr/bin/env python3
"""Callbacks, cancellation, threads and asyncio. Catches: an exception of a callback that is lost or
becomes another, a Ctrl-C that waits for the answer's end, a call that keeps the GIL, a stream that
hangs when it is left."""
import asyncio
import os
import signal
import sys
import threading
import time
import unittest

import promptcache
from support import MODEL, employees, model, run, text_prompt

LONG = dict(max_tokens=1500, ignore_end=True)


class Boom(Exception):
    pass


def boom(*_):
    raise Boom("here")


class Callbacks(unittest.TestCase):
    def test_exceptions_come_out(self):
        prompt = text_prompt()
        for name in ("on_text", "on_token", "on_logits", "cancelled"):
            with self.assertRaises(Boom, msg=name):
                prompt.generate(**{name: boom})
            with self.assertRaises(Boom, msg=name):
                list(prompt.stream(**{name: boom}))
        schema, _ = employees()
        with self.assertRaises(Boom):
            schema.encode(promptcache.Cache(), progress=boom)
        with self.assertRaises(Boom):
            promptcache.Model.load(MODEL, progress=boom)
        self.assertEqual(prompt.generate(max_tokens=1).stats.tokens_generated, 1)

    def test_exception_in_a_batch(self):
        batch = promptcache.Batch(model())
        bad = batch.add(promptcache.Sequence(text_prompt(), on_text=boom, keep=True))
        good = batch.add(promptcache.Sequence(text_prompt(), max_tokens=5, ignore_end=True))
        with self.assertRaises(Boom):
            batch.run()
        self.assertIs(bad.finish, promptcache.Finish.ERROR)
        self.assertIn("Boom: here", str(bad.error))
        batch.run()
        self.assertEqual(len(good.tokens), 5)

    def test_a_callback_may_call(self):
        prompt, inner = text_prompt(), []
        prompt.generate(max_tokens=2, ignore_end=True, on_text=lambda sample, text: inner.append(
            text_prompt("Hello").generate(max_tokens=1).text))
        self.assertEqual(len(inner), 2)
        with self.assertRaises(Boom):  # of a call within a call
            prompt.generate(on_text=lambda sample, text: text_prompt().generate(on_text=boom))

    def test_stop_by_a_callback(self):
        answer = text_prompt().generate(on_text=lambda sample, text: True, **LONG)
        self.assertIs(answer.finish, promptcache.Finish.CALLBACK)

    def test_events_on_other_threads(self):
        seen, hooked = [], []
        hook, sys.unraisablehook = sys.unraisablehook, hooked.append
        try:
            with promptcache.Cache(on_event=seen.append,
                                   on_bytes=lambda tier, size, budget: 1 / 0) as cache:
                employees()[0].encode(cache)
        finally:
            sys.unraisablehook = hook
        self.assertTrue(any(event.kind is promptcache.EventKind.STORE and event.tokens > 0
                            and len(event.key) == 32 for event in seen))
        self.assertIs(hooked[0].exc_type, ZeroDivisionError)


class Interrupts(unittest.TestCase):
    def interrupted(self, call):
        started = threading.Event()

        def send():
            started.wait(10)
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=send)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            call(started)
        ended = time.monotonic()
        thread.join()
        return ended

    def test_generate(self):
        prompt = text_prompt()
        tokens = []

        def on_token(token):
            tokens.append(token)
            if len(tokens) == 3:
                started_at.append(time.monotonic())
                begun.set()
        started_at, begun = [], None

        def call(started):
            nonlocal begun
            begun = started
            prompt.generate(on_token=on_token, **LONG)
        ended = self.interrupted(call)
        self.assertLess(len(tokens), 1400)
        self.assertLess(ended - started_at[0], 1.0)

    def test_within_one_step(self):
        """A prefill alone, which no Python function sees."""
        begin = text_prompt("The desk of Anna Reed is 341. " * 150)

        def call(started):
            started.set()
            while True:
                begin.generate(max_tokens=1)
        self.interrupted(call)

    def test_batch_goes_on(self):
        batch = promptcache.Batch(model())
        sequences = [batch.add(promptcache.Sequence(text_prompt(), keep=True, **LONG))
                     for _ in range(2)]

        def call(started):
            batch.step()
            started.set()
            batch.run()
        self.interrupted(call)
        count = len(sequences[0].tokens)
        for sequence in sequences:
            if sequence.finished:
                sequence.push()
        batch.step()
        self.assertGreater(len(sequences[0].tokens), count)


class Threads(unittest.TestCase):
    def test_the_gil_is_released(self):
        """Another thread goes on while one call computes."""
        beats, stop = [], threading.Event()

        def beat():
            while not stop.is_set():
                beats.append(time.monotonic())
                time.sleep(0.001)
        prompt = text_prompt("The desk of Anna Reed is 341. " * 120)
        thread = threading.Thread(target=beat)
        thread.start()
        begun = time.monotonic()
        prompt.generate(max_tokens=1)
        ended = time.monotonic()
        stop.set()
        thread.join()
        within = sum(begun < beat < ended for beat in beats)
        self.assertGreater(within, (ended - begun) * 1000 / 20)
        self.assertGreater(within, 3)

    def test_several_threads_answer(self):
        _, prompt = employees()
        cache, answers = promptcache.Cache(), []

        def answer():
            for _ in range(3):
                answers.append(prompt.generate(cache).text)
        threads = [threading.Thread(target=answer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(answers), {"The desk of Peter Novak is 368."})
        self.assertEqual(len(answers), 12)

    def test_threads_share_a_batch(self):
        """A batch belongs to one thread at a time: the package sees to that."""
        batch = promptcache.Batch(model())
        sequences = [batch.add(promptcache.Sequence(text_prompt(), max_tokens=40, keep=True,
                                                    ignore_end=True)) for _ in range(3)]
        failures = []

        def work():
            try:
                while batch.step():
                    [sequence.text for sequence in sequences]
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            extra = batch.add(promptcache.Sequence(text_prompt(), max_tokens=40))
            extra.close()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual({len(sequence.tokens) for sequence in sequences}, {40})

    def test_cancel_from_another_thread(self):
        stream = text_prompt().stream(**LONG)
        next(stream)
        threading.Timer(0.05, stream.cancel).start()
        with self.assertRaises(promptcache.CancelledError):
            for _ in stream:
                pass


class Async(unittest.TestCase):
    def test_for(self):
        async def main():
            _, prompt = employees()
            stream = prompt.stream()
            pieces = [piece async for piece in stream]
            return "".join(pieces), stream.text, [piece async for piece in stream]
        self.assertEqual(asyncio.run(main()), ("The desk of Peter Novak is 368.",) * 2 + ([],))

    def test_others_go_on(self):
        async def main():
            beats = 0

            async def beat():
                nonlocal beats
                while True:
                    beats += 1
                    await asyncio.sleep(0.001)
            task = asyncio.create_task(beat())
            both = await asyncio.gather(*(self.collect(max_tokens=300, ignore_end=True)
                                          for _ in range(2)))
            task.cancel()
            return beats, both
        beats, both = asyncio.run(main())
        self.assertGreater(beats, 5)
        self.assertEqual(both[0], both[1])

    def test_dropped(self):
        """A stream that nobody reads any more ends its thread."""
        async def main():
            stream = text_prompt().stream(**LONG)
            await stream.__anext__()
            del stream
        asyncio.run(main())
        for thread in threading.enumerate():
            if thread.name == "promptcache stream":
                thread.join(10)
                self.assertFalse(thread.is_alive())

    async def collect(self, **options):
        return "".join([piece async for piece in text_prompt().astream(**options)])

    def test_cancelled_task(self):
        async def main():
            task = asyncio.create_task(self.collect(**LONG))
            await asyncio.sleep(0.05)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        begun = time.monotonic()
        asyncio.run(main())
        self.assertLess(time.monotonic() - begun, 2)

    def test_left_early(self):
        async def main():
            async with text_prompt().stream(**LONG) as stream:
                async for _ in stream:
                    break
            return stream.finish
        self.assertIs(asyncio.run(main()), promptcache.Finish.CANCELLED)

    def test_exception(self):
        async def main():
            async for _ in text_prompt().stream(on_text=boom):
                pass
        with self.assertRaises(Boom):
            asyncio.run(main())


if __name__ == "__main__":
    run()
