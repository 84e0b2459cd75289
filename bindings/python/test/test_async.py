#!/usr/bin/env python3
"""Steps that asyncio awaits. Catches: other tokens than those of steps, an event loop that stands
still while a prompt is computed, an exception of a callback that is lost or comes out of another
call, a cancelled task that leaves a step behind, calls that touch a batch meanwhile, a lock that a
callback and who waits for it both need, a descriptor or a task that is left."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import promptcache
from promptcache import _core
from support import model, run, text_prompt

LONG_TEXT = "The desk of Anna Reed is 341. " * 250


class Boom(Exception):
    pass


def batch_of(*texts, **options):
    batch = promptcache.Batch(model())
    options = {"keep": True, "max_tokens": 6, "ignore_end": True, **options}
    return batch, [batch.add(promptcache.Sequence(text_prompt(text), **options)) for text in texts]


def long_batch(**options):
    """A batch whose first step takes long."""
    batch, (sequence,) = batch_of(LONG_TEXT, **options)
    return batch, sequence


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


class NoReaders(asyncio.SelectorEventLoop):
    """A loop that takes no descriptors, as some do."""

    def add_reader(self, *_):
        raise NotImplementedError


class Case(unittest.TestCase):
    def tearDown(self):
        self.assertEqual((_core.works, _core._pending), ([], {}))


class Steps(Case):
    TEXTS = ("The desk of Anna Reed", "Hello", "The job of Peter Novak")

    def plain(self):
        batch, sequences = batch_of(*self.TEXTS)
        said = []
        while batch.step():
            said.append([sequences.index(one) for one in batch.changed])
        return [one.tokens for one in sequences], said

    async def awaited(self):
        batch, sequences = batch_of(*self.TEXTS)
        said = []
        while await batch.step_async():
            said.append([sequences.index(one) for one in batch.changed])
        self.assertFalse(await batch.step_async())
        return [one.tokens for one in sequences], said

    def test_equal_to_steps(self):
        self.assertEqual(asyncio.run(self.awaited()), self.plain())

    def test_loops_without_descriptors(self):
        loop = NoReaders()
        try:
            self.assertEqual(loop.run_until_complete(self.awaited()), self.plain())
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def test_uvloop(self):
        try:
            import uvloop
        except ImportError:
            self.skipTest("uvloop is not installed")
        loop = uvloop.new_event_loop()
        try:
            self.assertEqual(loop.run_until_complete(self.awaited()), self.plain())
        finally:
            loop.close()

    def test_without_descriptors(self):
        """None is left: as with loops that take none."""
        import resource

        async def main():
            batch, sequences = batch_of(*self.TEXTS)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, int)  # its thread is there
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            lowest = os.dup(0)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                with self.assertRaises(OSError):
                    os.dup(0)
                await batch.run_async()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            return [one.tokens for one in sequences]
        self.assertEqual(asyncio.run(main()), self.plain()[0])

    def test_several_batches(self):
        async def main():
            made = [batch_of(text) for text in self.TEXTS]
            await asyncio.gather(*(batch.run_async() for batch, _ in made))
            return [one.tokens for _, sequences in made for one in sequences]
        self.assertEqual(asyncio.run(main()), self.plain()[0])

    def test_those_that_do_not_keep_leave(self):
        batch, sequences = batch_of("Hello", "The desk", keep=False)
        asyncio.run(batch.run_async())
        self.assertEqual((batch.sequences, [one.batch for one in sequences]), ([], [None, None]))
        self.assertEqual([len(one.tokens) for one in sequences], [6, 6])

    def test_join_between_steps(self):
        async def main():
            batch, (one,) = batch_of("Hello")
            await batch.step_async()
            two = batch.add(promptcache.Sequence(text_prompt("Hello"), keep=True, max_tokens=6,
                                                 ignore_end=True))
            three = one.fork()
            await batch.run_async()
            self.assertEqual((one.tokens, one.tokens), (two.tokens, three.tokens))
        asyncio.run(main())

    def test_descriptors_are_closed(self):
        async def main():
            batch, _ = batch_of("Hello", max_tokens=300)
            await batch.step_async()
            before = descriptors()
            await batch.run_async()
            self.assertEqual(descriptors(), before)
        asyncio.run(main())

    def test_the_loop_goes_on(self):
        """A timer ticks while one step computes a prompt of thousands of tokens."""
        async def main():
            batch, sequence = long_batch(max_tokens=1)
            ticks = []

            async def tick():
                while True:
                    ticks.append(time.monotonic())
                    await asyncio.sleep(0.001)
            ticking = asyncio.create_task(tick())
            begun = time.monotonic()
            await batch.run_async()
            ended = time.monotonic()
            ticking.cancel()
            within = [at for at in ticks if begun < at < ended]
            gaps = [b - a for a, b in zip([begun, *within], [*within, ended])]
            self.assertGreater(len(within), 5)
            self.assertLess(max(gaps), 0.5 * (ended - begun))
            self.assertEqual(len(sequence.tokens), 1)
        asyncio.run(main())


class Exceptions(Case):
    def failing(self, name):
        def fail(*_):
            raise Boom(name)
        return fail

    def test_they_come_out_of_the_await(self):
        async def main(name):
            batch, (good,) = batch_of("Hello")
            bad = batch.add(promptcache.Sequence(text_prompt(), keep=True,
                                                 **{name: self.failing(name)}))
            with self.assertRaisesRegex(Boom, name):
                await batch.run_async()
            if name != "cancelled":
                self.assertIn(f"Boom: {name}", str(bad.error))
            self.assertTrue(bad.finished)
            await batch.run_async()
            self.assertEqual(len(good.tokens), 6)
        for name in ("on_text", "on_token", "on_logits", "cancelled"):
            asyncio.run(main(name))

    def test_each_comes_out_of_its_own(self):
        """Many batches at once, whose steps share threads, beside calls of this thread."""
        async def one(number):
            batch, _ = batch_of("Hello", on_text=self.failing(f"batch {number}"))
            with self.assertRaisesRegex(Boom, f"^batch {number}$"):
                await batch.run_async()

        async def main():
            tasks = [asyncio.create_task(one(number)) for number in range(12)]
            while not all(task.done() for task in tasks):
                self.assertEqual(len(text_prompt().generate(max_tokens=2).tokens), 0)
                with self.assertRaises(promptcache.NotFoundError) as caught:
                    promptcache.Model.load("no such file.gguf")
                self.assertIn("no such file.gguf", str(caught.exception))
                await asyncio.sleep(0)
            await asyncio.gather(*tasks)
        asyncio.run(main())

    def test_calls_within_callbacks(self):
        """A call within a callback raises there what its own callbacks raise."""
        caught = []

        def on_text(sample, text):
            try:
                text_prompt().generate(max_tokens=2, on_text=self.failing("inner"))
            except Boom as error:
                caught.append(str(error))
        batch, (one,) = batch_of("Hello", max_tokens=2, on_text=on_text)
        asyncio.run(batch.run_async())
        self.assertEqual(caught, ["inner"] * 2)
        self.assertIsNone(one.error)

        def not_caught(sample, text):
            text_prompt().generate(max_tokens=2, on_text=self.failing("inner"))
        batch, _ = batch_of("Hello", on_text=not_caught)
        with self.assertRaisesRegex(Boom, "inner"):
            asyncio.run(batch.run_async())

    def test_the_first_of_several(self):
        batch, sequences = batch_of("Hello", "The desk", on_text=self.failing("any"))
        with self.assertRaises(Boom):
            asyncio.run(batch.run_async())
        for one in sequences:
            self.assertIn("Boom: any", str(one.error))

    def test_in_a_child(self):
        """Steps of a child are done within the call: their exceptions come out of the await too."""
        if not hasattr(os, "fork"):
            self.skipTest("there is no fork")

        async def main():
            batch, sequence = long_batch()
            under_way = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                code = 1
                try:
                    # asyncio has one loop a thread, and this one is the parent's
                    codes = []
                    thread = threading.Thread(target=in_child, args=(codes,))
                    thread.start()
                    thread.join()
                    code = codes[0]
                finally:
                    os._exit(code)
            sequence.cancel()
            await under_way
            self.assertEqual(os.waitpid(child, 0)[1], 0)

        def in_child(codes):
            batch, (one,) = batch_of("Hello")
            asyncio.run(batch.run_async())
            bad, _ = batch_of("Hello", on_text=self.failing("child"))
            try:
                asyncio.run(bad.run_async())
            except Boom:
                codes.append(0 if len(one.tokens) == 6 else 2)
            codes.append(3)
        asyncio.run(main())


class Cancellation(Case):
    def test_it_waits_for_the_step(self):
        async def main():
            batch, sequence = long_batch()
            expected, expecting = long_batch()
            task = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.sleep(0)
            self.assertFalse(task.done())  # the step is under way
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(_core.works, [])
            await batch.run_async()
            expected.run()
            self.assertEqual(sequence.tokens, expecting.tokens)
        asyncio.run(main())

    def test_a_limit_of_time(self):
        async def main():
            batch, sequence = long_batch()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(batch.step_async(), 0.001)
            await batch.run_async()
            self.assertEqual(len(sequence.tokens), 6)
        asyncio.run(main())

    def test_an_exception_besides(self):
        """What a callback has raised is the cause of the CancelledError."""
        begun = threading.Event()

        def on_text(sample, text):
            begun.set()
            time.sleep(0.05)
            raise Boom("late")

        async def main():
            batch, _ = batch_of("Hello", on_text=on_text)
            task = asyncio.create_task(batch.step_async())
            while not begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                while error is not None and not isinstance(error, Boom):
                    error = error.__cause__ or error.__context__
                self.assertEqual(str(error), "late")
            else:
                self.fail("the task was cancelled")
        asyncio.run(main())

    def test_interrupts(self):
        """Ctrl-C cancels what awaits; the batch can go on."""
        batch, (one,) = batch_of("Hello", max_tokens=1500)
        begun = threading.Event()

        def send():
            begun.wait(10)
            os.kill(os.getpid(), signal.SIGINT)

        async def main():
            await batch.step_async()
            begun.set()
            await batch.run_async()
        thread = threading.Thread(target=send)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            asyncio.run(main())
        thread.join()
        count = len(one.tokens)
        self.assertLess(count, 1500)
        self.assertTrue(batch.step())
        self.assertEqual(len(one.tokens), count + 1)

    def test_cancelled_sequences(self):
        async def main():
            batch, sequence = long_batch()
            task = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0.001)
            for one in batch.sequences:
                one.cancel()
            self.assertFalse(await task)
            self.assertIs(sequence.finish, promptcache.Finish.CANCELLED)
        asyncio.run(main())

    def test_nobody_awaits_any_more(self):
        """A loop that is closed with a step under way; its coroutine goes with the last
        reference."""
        batch, sequence = long_batch()
        loop = asyncio.new_event_loop()
        coroutine = batch.step_async()

        async def main():
            task = asyncio.ensure_future(coroutine)
            await asyncio.sleep(0.001)
            task._log_destroy_pending = False
        loop.run_until_complete(main())
        loop.close()
        coroutine.close()
        self.assertEqual(_core.works, [])
        gc.collect()
        batch.run()
        self.assertEqual(len(sequence.tokens), 6)

    def test_the_interpreter_ends(self):
        """With a step under way whose callbacks need it."""
        program = """if True:
            import asyncio, sys, promptcache
            model = promptcache.Model.load(sys.argv[1])
            prompt = promptcache.Prompt.from_text(model, "The desk of Anna Reed. " * 100)
            batch = promptcache.Batch(model)
            batch.add(promptcache.Sequence(prompt, on_token=lambda *_: print("token"), keep=True,
                                           ignore_end=True))
            coroutine = batch.step_async()
            async def main():
                global task
                task = asyncio.ensure_future(coroutine)
                await asyncio.sleep(0.001)
                task._log_destroy_pending = False
            loop = asyncio.new_event_loop()
            loop.run_until_complete(main())
        """
        from support import MODEL
        done = subprocess.run([sys.executable, "-c", program, MODEL], timeout=60,
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "token\n"))


class Misuse(Case):
    def refused(self, call):
        with self.assertRaises(promptcache.StateError) as caught:
            call()
        self.assertIn("under way", str(caught.exception))

    def test_calls_meanwhile(self):
        async def main():
            batch, sequence = long_batch(logits=True)
            other = promptcache.Sequence(text_prompt(), keep=True)
            task = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0.001)
            self.assertFalse(task.done())
            for call in (
                    batch.step, batch.run, lambda: batch.add(other),
                    lambda: batch.remove(sequence), lambda: batch.changed, lambda: batch.stats,
                    lambda: sequence.tokens, lambda: sequence.text, lambda: sequence.finish,
                    lambda: sequence.finished, lambda: sequence.error, lambda: sequence.stats,
                    lambda: sequence.logits, lambda: sequence.push("a"), sequence.fork,
                    lambda: sequence.push_messages([{"role": "user", "content": "a"}]),
                    lambda: sequence.truncate(0), lambda: sequence.set_options(max_tokens=3),
                    sequence.spans,
                    lambda: sequence.save(promptcache.Cache(), bytes(32))):
                self.refused(call)
            with self.assertRaises(promptcache.StateError):
                await batch.step_async()
            self.assertFalse(task.done())  # else this has shown nothing
            self.assertEqual(repr(sequence), "<promptcache.Sequence in a step>")
            self.assertIn("1 sequences", repr(batch))
            self.assertEqual(len(other.tokens), 0)
            sequence.cancel()
            await task
            self.assertEqual(sequence.finish, promptcache.Finish.CANCELLED)
            sequence.push()
            await batch.run_async()
            self.assertEqual(len(sequence.tokens), 6)
        asyncio.run(main())

    def test_a_batch_is_closed(self):
        async def main():
            batch, sequence = long_batch()
            task = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0.001)
            batch.close()  # waits
            self.assertIsNone(sequence.batch)
            await task
            self.assertTrue(batch.closed)
            other = promptcache.Batch(model())
            other.add(sequence)
            await other.run_async()
            self.assertEqual(len(sequence.tokens), 6)
            with self.assertRaises(promptcache.ClosedError):
                await batch.step_async()
        asyncio.run(main())

    def test_a_sequence_is_closed(self):
        async def main():
            batch, sequence = long_batch()
            two = batch.add(promptcache.Sequence(text_prompt(), keep=True, max_tokens=3,
                                                 ignore_end=True))
            task = asyncio.create_task(batch.step_async())
            await asyncio.sleep(0.001)
            sequence.close()  # cancels it, and waits
            self.assertEqual(batch.sequences, [two])
            await task
            await batch.run_async()
            self.assertEqual(len(two.tokens), 3)
        asyncio.run(main())

    def test_closed_while_callbacks_need_the_lock(self):
        seen, begun = [], threading.Event()

        def on_text(sample, text):
            begun.set()
            time.sleep(0.05)
            seen.append((sequence.text, sequence.finish, batch.changed, len(batch.sequences)))
        batch, (sequence,) = batch_of("Hello", on_text=on_text)

        async def main():
            task = asyncio.create_task(batch.step_async())
            while not begun.is_set():
                await asyncio.sleep(0.001)
            batch.close()
            await task
        asyncio.run(main())
        self.assertEqual(len(seen), 1)
        self.assertEqual(seen[0][3], 1)

    def test_callbacks_may_change_the_batch(self):
        copies = []

        def on_text(sample, text):
            if not copies:
                copies.append(batch.add(promptcache.Sequence(
                    text_prompt("Hello"), keep=True, max_tokens=4, ignore_end=True)))
                batch.remove(two)
        batch, (one, two) = batch_of("Hello", "The desk", on_text=on_text)
        asyncio.run(batch.run_async())
        self.assertEqual(copies[0].tokens, one.tokens[:4])
        self.assertEqual(batch.sequences, [one, copies[0]])

        closing, _ = batch_of("Hello", on_text=lambda *_: closing.close())
        asyncio.run(closing.step_async())
        self.assertTrue(closing.closed)

    def test_steps_within_callbacks(self):
        said = []

        def on_text(sample, text):
            try:
                batch.step()
            except promptcache.StateError:
                said.append("step")
            try:
                asyncio.run(batch.step_async())
            except promptcache.StateError:
                said.append("step_async")
            asyncio.run(other.step_async())  # of another batch
        batch, _ = batch_of("Hello", max_tokens=1, on_text=on_text)
        other, (its,) = batch_of("Hello")
        asyncio.run(batch.run_async())
        self.assertEqual((said, len(its.tokens)), (["step", "step_async"], 1))


if __name__ == "__main__":
    run()
