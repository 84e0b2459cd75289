#!/usr/bin/env python3
"""What a program must not do, and what must not follow. Catches: a length that the library reads
beyond an array, a number that is taken for a key, memory that a kept array outlives, a signal that
is lost in a function or a destructor, an interpreter that never ends, an error that does not name
the argument."""
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import promptcache
from support import employees, model, needs_numpy, numpy, run, text_prompt

FIVE = dict(max_tokens=5, ignore_end=True)
STATES = dict(model=bytes(32), architecture="mine", layers=1, kv_heads=1, k_dim=4, v_dim=4,
              dtype="f32", layout="application")


class Lengths(unittest.TestCase):
    """The library reads as many numbers as there are tokens, pages or layers."""

    def refused(self, name, call):
        with self.assertRaises(ValueError) as caught:
            call()
        self.assertNotIsInstance(caught.exception, promptcache.Error)
        self.assertIn(name, str(caught.exception))

    def test_arrays_of_the_same_length(self):
        base = bytes(32)
        block = promptcache.States(block_bytes=[4], **STATES)
        cache = promptcache.Cache()
        self.refused("relative", lambda: promptcache.segment_key(base, [1, 2], relative=[0]))
        self.refused("relative", lambda: promptcache.States(tokens=[1, 2], relative=[0],
                                                            block_bytes=[4], **STATES))
        self.refused("relative", lambda: promptcache.States(relative=[0, 1], tokens=[1],
                                                            block_bytes=[4], **STATES))
        wanted = promptcache.Wanted(base, [1, 2, 3], relative=[0])
        self.refused("relative", lambda: cache.get_many(block, [wanted]))
        self.refused("relative", lambda: cache.prefetch(block, [wanted]))

    @needs_numpy
    def test_inputs(self):
        self.refused("types", lambda: promptcache.prefill(model(), [([5, 6, 7], [0])]))
        self.refused("types", lambda: promptcache.evaluate(
            model(), [promptcache.Lane([5, 6, 7], types=[0])]))
        self.refused("map_layers", lambda: promptcache.prefill(model(), [[5, 6]], map_layers=[0]))

    @needs_numpy
    def test_attention(self):
        from promptcache import attention
        shape = attention.Shape(heads=4, kv_heads=2, k_dim=8)
        row = [attention.Row(100, [(0, 0)])]
        self.refused("relative", lambda: attention.Plan(
            shape, [attention.Run(shape, 5, relative=[0])], row))

        def pool(pages=2, heads=2, dim=8, tokens=16):
            return attention.Pool(*(numpy.zeros((pages, tokens, heads, dim), "float32")
                                    for _ in range(2)))
        run = attention.PoolRun(20, [0, 1])
        plan = attention.Plan(shape, [run], row, pool=pool())
        q = numpy.zeros((1, 4, 8), "float32")
        self.assertEqual(plan.attend(q, pool=pool()).out.shape, (1, 4, 8))
        self.refused("pages", lambda: attention.Plan(
            shape, [attention.PoolRun(20, [0])], row, pool=pool()))
        self.refused("pool", lambda: attention.Plan(shape, [run], row, pool=pool(heads=1)))
        self.refused("pool", lambda: attention.Plan(shape, [run], row, pool=pool(dim=4)))
        self.refused("pool", lambda: plan.attend(q, pool=pool(pages=1)))
        packed = attention.Plan(shape, [64], row)
        gaps = numpy.zeros((1 << 16,), "uint8")[::4]
        self.refused("gaps", lambda: packed.attend(q, pages=[gaps]))


@needs_numpy
class Memory(unittest.TestCase):
    def test_numbers_of_other_machines(self):
        """Big-endian floats have the name of native ones; strides may be no whole elements."""
        from promptcache import attention
        run = attention.Run(attention.Shape(heads=4, kv_heads=2, k_dim=8), 5)
        foreign = numpy.ones((5, 2, 8), numpy.dtype("float32").newbyteorder())
        with self.assertRaises(TypeError):
            run.write(foreign, foreign)
        with self.assertRaises(TypeError):
            promptcache.States([numpy.array([None])], tokens=[1], **STATES)
        rows = numpy.zeros((5, 2, 8), numpy.dtype([("x", "float32"), ("flag", "u1")]))
        with self.assertRaises(ValueError):
            run.write(rows["x"], rows["x"])

    def test_odd_arrays(self):
        """Any strides, arrays that cannot be written to, and ctypes' arrays."""
        import ctypes
        from promptcache import attention
        run = attention.Run(attention.Shape(heads=4, kv_heads=2, k_dim=8), 5)
        values = numpy.random.default_rng(1).standard_normal((2, 10, 9), dtype="float32")
        k = values.transpose(1, 0, 2)[::2, :, :8]
        k.flags.writeable = False
        native = (ctypes.c_float * 8 * 2 * 5)()
        run.write(k, native)
        self.assertTrue(numpy.array_equal(run.read()[0], k))
        self.assertEqual(float(run.read()[1].max()), 0)
        with self.assertRaises(ValueError):
            run.write(k[:, :, ::-1], k)
        with self.assertRaises(ValueError):
            attention.Plan(run.shape, [run], [attention.Row(9, [(0, 0)])]).attend(
                numpy.zeros((1, 4, 8), "float32"), out=numpy.broadcast_to(
                    numpy.zeros(1, "float32"), (1, 4, 8)))

    def test_memory_of_a_device(self):
        """What only a device can read is refused where the host reads."""
        from promptcache import attention

        class OfDevice:
            def __init__(self, shape):
                self.array = numpy.zeros(shape, "float32")

            def __dlpack__(self):
                import ctypes
                from promptcache import _array
                capsule = self.array.__dlpack__()
                address = _array._capsule_pointer(capsule, b"dltensor")
                _array._DLTensor.from_address(address).device.type = 2
                self.kept = ctypes.c_void_p(address)
                return capsule
        run = attention.Run(attention.Shape(heads=4, kv_heads=2, k_dim=8), 5)
        given = OfDevice((5, 2, 8))
        for call in (lambda: run.write(given, given),
                     lambda: promptcache.States([given], tokens=[1], **STATES)):
            with self.assertRaises(ValueError) as caught:
                call()
            self.assertIn("device", str(caught.exception))

    def test_logits_may_be_kept(self):
        """Those of on_logits are the function's own, and what it writes counts."""
        kept = []

        def on_logits(sample, logits):
            kept.append((logits, float(logits.sum())))
        text_prompt().generate(on_logits=on_logits, **FIVE)
        waste = [b"\x7f" * 12120 for _ in range(500)]
        self.assertEqual([float(logits.sum()) for logits, _ in kept], [one for _, one in kept])
        del waste

        def force(sample, logits):
            logits[:] = -1e9
            logits[7] = 0
        tokens = []
        text_prompt().generate(on_logits=force, on_token=tokens.append, **FIVE)
        self.assertEqual([token.token for token in tokens], [7] * 5)

    def test_tensors_are_tokens(self):
        class Tensor:  # as of torch: a dtype, but no buffer
            dtype = "int64"

            def __init__(self, ids):
                self.ids = ids

            def tolist(self):
                return self.ids

            def __len__(self):
                return len(self.ids)
        self.assertEqual(promptcache.Prompt.from_tokens(model(), Tensor([5, 6])).tokens, [5, 6])


class Pickles(unittest.TestCase):
    def test_results_go_to_other_processes(self):
        prompt = text_prompt()
        answer = prompt.generate(top_logprobs=2, **FIVE)
        for one in (answer.stats, answer.tokens[0], model().info, prompt.parts[0], answer.finish,
                    promptcache.Cache().stats):
            self.assertEqual(pickle.loads(pickle.dumps(one)), one)
            self.assertEqual(copy.deepcopy(one), one)
        again = pickle.loads(pickle.dumps(answer))
        self.assertEqual((again.text, again.stats, again.tokens),
                         (answer.text, answer.stats, answer.tokens))
        with self.assertRaises(promptcache.CancelledError) as caught:
            prompt.generate(cancelled=lambda: True)
        error = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((error.status, str(error)), (-9, str(caught.exception)))

    @needs_numpy
    def test_arrays(self):
        [result] = promptcache.evaluate(model(), [[5, 6]], segments=True)
        block = result.segment.blocks[0]
        with self.assertRaises(ValueError):  # for good
            block.flags.writeable = True
        for array in (block, block[3:9], block + 1):
            again = pickle.loads(pickle.dumps(array))
            self.assertIs(type(again), numpy.ndarray)
            self.assertTrue(numpy.array_equal(again, array))


class Arguments(unittest.TestCase):
    def test_errors_name_the_argument(self):
        schema, prompt = employees()
        cache, batch = promptcache.Cache(), promptcache.Batch(model())
        for call, words in (
                (lambda: prompt.generate(model()), "cache: a Cache is needed, not Model"),
                (lambda: prompt.stream("x"), "cache: a Cache is needed, not str"),
                (lambda: promptcache.Prompt.load(model(), "x"), "schema: a Schema is needed"),
                (lambda: promptcache.Prompt.from_text("x", "y"), "model: a Model is needed"),
                (lambda: promptcache.Cache("folder"), "context: a Context is needed, not str"),
                (lambda: schema.encode(None), "cache: a Cache is needed, not None"),
                (lambda: batch.add(prompt), "sequence: a Sequence is needed, not Prompt"),
                (lambda: prompt.generate(memo=cache), "memo: a Memo is needed, not Cache"),
                (lambda: prompt.generate(max_token=3), "did you mean 'max_tokens'?"),
                (lambda: prompt.generate(temprature=3), "did you mean 'temperature'?"),
                (lambda: prompt.stream(max_token=3), "did you mean 'max_tokens'?"),
                (lambda: prompt.generate(samples="a"), "samples: "),
                (lambda: prompt.generate(encoding=promptcache.Tier.RAM), "no Encoding"),
                (lambda: prompt.generate(stop_tokens=[1.5]), "stop_tokens: "),
                (lambda: prompt.generate(stop_tokens=["1"]), "stop_tokens: "),
                (lambda: prompt.generate(logit_bias=[1]), "logit_bias: a mapping"),
                (lambda: prompt.generate(logit_bias={"a": 1}), "logit_bias: "),
                (lambda: prompt.generate(salts=[b"a"]), "salts: pairs"),
                (lambda: promptcache.Prompt.from_tokens(model(), b"abc"), "tokens: "),
                (lambda: promptcache.Prompt.from_messages(
                    model(), [{"role": "user", "content": [{"type": "text"}]}]),
                 "message 0: content: a str is needed, not list"),
                (lambda: cache.get(bytes(32), None), "expect: States are needed")):
            with self.assertRaises(TypeError, msg=words) as caught:
                call()
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(promptcache.LimitError):
            prompt.generate(samples=2 ** 32 - 1)

    def test_numbers_are_no_keys(self):
        """bytes(32) is 32 zeros: a key that everybody knows."""
        cache = promptcache.Cache()
        for call in (lambda: promptcache.Cache(seal_key=32), lambda: cache.pin(32, 1),
                     lambda: promptcache.Cache(salt=5), lambda: cache.find([32]),
                     lambda: text_prompt().generate(salts=[(0, 5)])):
            with self.assertRaises(TypeError):
                call()


    def test_a_miss_names_its_entry(self):
        expect = promptcache.States(block_bytes=[4], tokens=[1], **STATES)
        load = promptcache.Cache().get_many(expect, [(bytes(32), [1]), (bytes(32), [1])])
        with self.assertRaises(promptcache.MissError) as caught:
            load[1]
        self.assertIn("entry 1: first_use", str(caught.exception))


class Endings(unittest.TestCase):
    def test_a_function_closes_its_stream(self):
        for name in ("on_text", "on_token", "on_logits", "cancelled"):
            held = []
            stream = text_prompt().stream(**{name: lambda *_: held[0].close()},
                                          max_tokens=50, ignore_end=True)
            held.append(stream)
            for _ in stream:
                pass
            self.assertIs(stream.finish, promptcache.Finish.CANCELLED, name)
            self.assertLess(len(stream.text), 50)

    def test_two_loops_over_one_stream(self):
        import asyncio
        stream = text_prompt().stream(max_tokens=20, ignore_end=True)

        async def rest():
            return "".join([piece async for piece in stream])
        first = next(stream)
        self.assertEqual(first + asyncio.run(rest()), stream.text)

    def test_signals_are_not_lost(self):
        """An exception of a signal's handler comes out of the call, also if the signal comes while
        an object is freed."""
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        prompt, lost = text_prompt(), []
        hook, sys.unraisablehook = sys.unraisablehook, lost.append
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for index in range(60):
                signal.setitimer(signal.ITIMER_REAL, 0.001 + index * 2e-4)
                try:
                    while True:
                        promptcache.Batch(model()).add(promptcache.Sequence(prompt)).close()
                except Stop:
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            sys.unraisablehook = hook
        self.assertEqual(lost, [])

    def test_ctrl_c_in_an_event(self):
        def on_event(event):
            if not sent:
                sent.append(event)
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
        sent = []
        with self.assertRaises(KeyboardInterrupt):
            employees()[0].encode(promptcache.Cache(on_event=on_event))
        with self.assertRaises(SystemExit):  # by a handler of SIGTERM, say
            employees()[0].encode(promptcache.Cache(on_event=lambda event: sys.exit(3)))

    def test_batches_swap_sequences(self):
        """Two threads that add a sequence of the other's batch do not wait for each other."""
        batches = [promptcache.Batch(model()) for _ in range(2)]
        sequences = [batch.add(promptcache.Sequence(text_prompt())) for batch in batches]
        refused = []

        def add(batch, sequence):
            for _ in range(2000):
                try:
                    batch.add(sequence)
                except promptcache.StateError:
                    refused.append(batch)
        threads = [threading.Thread(target=add, args=pair, daemon=True)
                   for pair in zip(batches, reversed(sequences))]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
                self.assertFalse(thread.is_alive())
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(len(refused), 4000)

    def test_errors_of_events_are_printed(self):
        """By the hook that Python comes with, which takes no objects of others."""
        code = """
import promptcache, sys
cache = promptcache.Cache(on_bytes=lambda *_: 1 / 0)
cache.put(bytes(32), promptcache.States([bytes(4)], model=bytes(32), architecture="x", layers=1,
          kv_heads=1, k_dim=4, v_dim=4, dtype="f32", layout="application", tokens=[1]))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("ZeroDivisionError", done.stderr)
        self.assertNotIn("TypeError", done.stderr)

    @needs_numpy
    def test_the_interpreter_ends(self):
        """Loads that are under way, whose threads call a function of the cache."""
        code = """
import numpy, promptcache, sys
kw = dict(model=bytes(32), architecture="x", layers=1, kv_heads=1, k_dim=4, v_dim=4, dtype="f32",
          layout="application", tokens=[1])
keys = [bytes([i]) * 32 for i in range(40)]
with promptcache.Cache(disk_path=sys.argv[1]) as cache:
    for key in keys:
        cache.put(key, promptcache.States([numpy.zeros(1 << 16, "u1")], **kw))
cache = promptcache.Cache(disk_path=sys.argv[1], on_event=lambda event: None)
wanted = [(key, [1], [numpy.zeros(1 << 16, "u1")]) for key in keys]
loads = [cache.get_many(promptcache.States(block_bytes=[1 << 16], **kw), wanted)
         for _ in range(20)]
"""
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, "-c", code, folder], timeout=60,
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_caches_in_cycles(self):
        """A cache whose function holds it: its last events find that function."""
        seen, lost = [], []
        hook, sys.unraisablehook = sys.unraisablehook, lost.append
        try:
            with tempfile.TemporaryDirectory() as folder:
                def make():
                    held = []
                    held.append(promptcache.Cache(disk_path=folder, on_event=lambda event: (
                        seen.append(event.kind), held)))
                    employees()[0].encode(held[0])
                make()
                gc.collect()
        finally:
            sys.unraisablehook = hook
        self.assertEqual(lost, [])
        self.assertGreater(len(seen), 40)


if __name__ == "__main__":
    run()
