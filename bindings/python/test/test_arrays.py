#!/usr/bin/env python3
"""States and attention over arrays. Catches: a copy of states where none must be, K and V that are
not those of the model, attention that is not softmax(QK)V, an array that is read beyond its end or
in the wrong format, a segment that frees its array too early."""
import array
import gc
import tempfile
import unittest
import weakref

import promptcache
from promptcache import attention
from support import MODEL, model, needs_numpy, numpy, run

TOKENS = list(range(10, 110))


def address(one):
    return one.__array_interface__["data"][0]


class Foreign:
    """An array of another library, as DLPack shows it alone."""

    def __init__(self, inner):
        self._inner = inner

    def __dlpack__(self, **options):
        return self._inner.__dlpack__()

    def __dlpack_device__(self):
        return self._inner.__dlpack_device__()


@needs_numpy
class Segments(unittest.TestCase):
    def segment(self, a_model=None):
        [result] = promptcache.evaluate(a_model or model(), [TOKENS], logits=False, segments=True)
        return result.segment

    def test_pages_are_the_librarys(self):
        from promptcache._raw import ffi, lib
        segment = self.segment()
        raw = ffi.new("pc_raw *")
        lib.pc_raw_init(raw, ffi.sizeof("pc_raw"))
        self.assertEqual(lib.pc_segment_raw(segment._pointer, raw), 0)
        for layer in range(model().info.layers):
            pages = segment.pages(layer)
            self.assertEqual(address(pages.k), int(ffi.cast("uintptr_t", raw.blocks[layer])))
            self.assertEqual(address(segment.blocks[layer]), address(pages.k))
            self.assertFalse(pages.k.flags.writeable or pages.v.flags.writeable)

    def test_pages_are_those_that_read_gives(self):
        for kind in ("f32", "bf16", "i8"):
            a_model = promptcache.Model.load(MODEL, kv=kind)
            segment = self.segment(a_model)
            self.assertEqual(str(segment.states.dtype), kind)
            pages = segment.pages(1)
            k, v = unpacked(pages)
            read_k, read_v = segment.read(1)
            numpy.testing.assert_allclose(v[:, :100], read_v, rtol=1e-6, atol=1e-6)
            # K may be stored rotated or not; its length does not change by a rotation
            numpy.testing.assert_allclose(
                (k[:, :100] ** 2).sum(-1), (read_k ** 2).sum(-1), rtol=0.05)

    def test_arrays_outlive_the_segment(self):
        segment = self.segment()
        pages = segment.pages(0)
        before = pages.k.copy()
        segment.close()
        gc.collect()
        self.assertTrue((pages.k == before).all())
        with self.assertRaises(promptcache.ClosedError):
            segment.tokens

    def test_dlpack(self):
        pages = self.segment().pages(0)
        block = self.segment().blocks[0]
        self.assertEqual(address(numpy.from_dlpack(block)), address(block))
        if pages.k.flags.c_contiguous:
            self.assertEqual(address(numpy.from_dlpack(pages.k)), address(pages.k))

    def test_evaluate_continues(self):
        exact = promptcache.Model.load(MODEL, compute="f32")
        [whole] = promptcache.evaluate(exact, [TOKENS])
        [first] = promptcache.evaluate(exact, [TOKENS[:60]], segments=True)
        lane = promptcache.Lane(TOKENS[60:], positions=range(60, 100),
                                spans=[promptcache.Span(first.segment, 0)])
        [rest] = promptcache.evaluate(exact, [lane])
        numpy.testing.assert_allclose(rest.logits, whole.logits[60:], atol=1e-3)

    def test_embed_and_prefill(self):
        prompts = [promptcache.Prompt.from_tokens(model(), TOKENS[:n]) for n in (9, 30)]
        vectors, stats = promptcache.embed(prompts, pool="mean", normalize=True)
        self.assertEqual((vectors.shape, stats.prompts), ((2, 256), 2))
        numpy.testing.assert_allclose((vectors ** 2).sum(1), 1, rtol=1e-5)
        done = promptcache.prefill(model(), [TOKENS[:9], TOKENS[:30]], logits=True, segments=True,
                                   pool="mean", normalize=True)
        numpy.testing.assert_allclose(done.embeddings, vectors, atol=0.01)
        self.assertEqual([len(one.tokens) for one in done.segments], [9, 30])
        self.assertIs(done.results[0].exactness, promptcache.Exactness.EXACT)
        with self.assertRaises(promptcache.CancelledError):
            promptcache.embed(prompts, cancelled=lambda: True)

    def test_memo(self):
        with tempfile.TemporaryDirectory() as folder:
            with promptcache.Memo(model(), folder, outputs=["embeddings", "logits"]) as memo:
                memo.add([TOKENS[:20]])
                self.assertEqual(memo.stats.live, 1)
                self.assertTrue(any(bucket.records for bucket in memo.buckets))
                with self.assertRaises(promptcache.StateError):
                    memo.train()
                with self.assertRaises(promptcache.StateError):
                    promptcache.Memo(model(), folder)
                done = promptcache.prefill(model(), [TOKENS[:20]], memo=memo)
                self.assertIs(done.results[0].reuse, promptcache.Reuse.OUTPUT)
            promptcache.Memo(model(), folder, read_only=True).close()


def unpacked(pages):
    """K and V of pages as [head, token, dim] in float32."""
    k, v = pages.k, pages.v
    if k.dtype == numpy.uint16:
        k, v = ((one.astype(numpy.uint32) << 16).view(numpy.float32) for one in (k, v))
    elif k.dtype == numpy.int8:
        k, v = k.astype(numpy.float32), v.astype(numpy.float32)
    if k.ndim == 5:  # [page, head, group, token, of the group]
        k = k.transpose(0, 1, 3, 2, 4).reshape(k.shape[:2] + (64, -1))
        v = v.transpose(0, 1, 2, 4, 3).reshape(v.shape[:2] + (64, -1))
    else:
        k = k.transpose(0, 1, 3, 2)
    if pages.k_scales is not None:
        scales = [(one.astype(numpy.uint32) << 16).view(numpy.float32)
                  for one in (pages.k_scales, pages.v_scales)]
        k, v = k * scales[0][:, :, None, :], v * scales[1][:, :, :, None]
    return [one.transpose(1, 0, 2, 3).reshape(one.shape[1], -1, one.shape[3]) for one in (k, v)]


@needs_numpy
class ByKey(unittest.TestCase):
    def states(self, blocks, **options):
        return promptcache.States(blocks, **{
            "model": bytes(range(32)), "architecture": "mine", "layers": len(blocks),
            "kv_heads": 1, "k_dim": 4, "v_dim": 4, "dtype": "f32", "tokens": [1, 2, 3],
            "layout": promptcache.Layout.APPLICATION, **options})

    def test_put_and_get(self):
        cache = promptcache.Cache()
        base = promptcache.base_key(model=bytes(range(32)), dtype="f32")
        keys = [promptcache.segment_key(base, [one, 2, 3]) for one in range(3)]
        blocks = [numpy.arange(24, dtype="float32"), bytes(range(96))]
        states = self.states(blocks)
        self.assertIs(cache.put(keys[0], states), promptcache.Status.OK)
        self.assertIs(cache.put(keys[0], states), promptcache.Status.EXISTS)
        self.assertEqual(cache.find(keys)[0], 1)
        segment = cache.get(keys[0], states)
        self.assertEqual(bytes(segment.blocks[1]), bytes(range(96)))
        self.assertIs(segment.info.tier, promptcache.Tier.RAM)
        self.assertIsNone(cache.get(keys[1], states))
        with self.assertRaises(promptcache.MissError) as caught:
            cache.load(keys[1], states)
        self.assertIs(caught.exception.reason, promptcache.Reason.FIRST_USE)
        self.assertTrue(cache.pin(keys[0], 7))
        self.assertEqual(cache.stats.pinned_bytes, cache.stats.segment_bytes)
        self.assertTrue(cache.unpin(keys[0], 7))
        self.assertFalse(cache.unpin(keys[0], 7))
        self.assertEqual(cache.remove(keys), 1)
        cache.set_quota("ram", 1 << 20, salt=b"a")
        with self.assertRaises(ValueError):
            cache.put(b"short", states)

    def test_get_many_into_arrays(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = [bytes([one]) * 32 for one in range(3)]
            with promptcache.Cache(disk_path=folder) as cache:
                for one, key in enumerate(keys[:2]):
                    cache.put(key, self.states([numpy.full(24, one, "float32")]), wait=True)
            with promptcache.Cache(disk_path=folder) as cache:
                expect = promptcache.States(block_bytes=[96], model=bytes(range(32)),
                                            architecture="mine", layers=1, kv_heads=1, k_dim=4,
                                            v_dim=4, dtype="f32", tokens=[1, 2, 3],
                                            layout=promptcache.Layout.APPLICATION)
                out = numpy.zeros((3, 24), "float32")
                wanted = [promptcache.Wanted(key, [1, 2, 3], into=[out[one]])
                          for one, key in enumerate(keys)]
                with cache.get_many(expect, wanted) as load:
                    self.assertTrue(load.wait(10))
                    self.assertEqual(load.done, 3)
                    self.assertIsNone(load[1])
                    with self.assertRaises(promptcache.MissError):
                        load[2]
                self.assertEqual(out.mean(axis=1).tolist(), [0, 1, 0])
                self.assertEqual(cache.prefetch(expect, [(keys[0], [1, 2, 3])]), 1)
                with self.assertRaises(ValueError):
                    cache.put(keys[0], expect)

    def test_wrapped_memory_is_held_and_released(self):
        block = numpy.arange(24, dtype="float32")
        gone = weakref.ref(block)
        segment = promptcache.Segment.wrap(self.states([block]))
        self.assertEqual(address(segment.blocks[0]), address(block))
        cache = promptcache.Cache()
        cache.put(bytes(32), segment)
        del block, segment
        gc.collect()
        self.assertIsNotNone(gone())
        cache.remove([bytes(32)])
        cache.close()
        gc.collect()
        self.assertIsNone(gone())


@needs_numpy
class Attention(unittest.TestCase):
    def setUp(self):
        self.random = numpy.random.default_rng(5)

    def normal(self, *shape):
        return self.random.standard_normal(shape, dtype="float32")

    def expected(self, q, k, v):
        group = q.shape[1] // k.shape[1]
        k, v = (numpy.repeat(one, group, axis=1).astype("float64") for one in (k, v))
        scores = numpy.einsum("rhd,thd->rht", q, k) / q.shape[2] ** 0.5
        top = scores.max(axis=2, keepdims=True)
        weights = numpy.exp(scores - top)
        total = weights.sum(axis=2, keepdims=True)
        return (numpy.einsum("rht,thd->rhd", weights / total, v),
                (numpy.log(total) + top)[:, :, 0])

    def test_formats(self):
        k, v, q = self.normal(70, 2, 16), self.normal(70, 2, 16), self.normal(3, 4, 16)
        out, lse = self.expected(q, k, v)
        for dtype, close in (("f32", 1e-5), ("bf16", 0.05), ("f16", 0.01), ("i8", 0.1)):
            shape = attention.Shape(4, 2, 16, dtype=dtype)
            run = attention.Run(shape, 70)
            run.write(k, v)
            plan = attention.Plan(shape, [run], [(70, [(0, 0)])] * 3)
            done = plan.attend(q)
            numpy.testing.assert_allclose(done.out, out, atol=close)
            numpy.testing.assert_allclose(done.lse, lse, atol=close)
            read_k, read_v = run.read()
            numpy.testing.assert_allclose(read_k, k, atol=close)
            numpy.testing.assert_allclose(read_v, v, atol=close)

    def test_writes_into_the_callers_memory(self):
        shape = attention.Shape(2, 1, 8)
        k, v, q = self.normal(5, 1, 8), self.normal(5, 1, 8), self.normal(1, 2, 8)
        run = attention.Run(shape, 5)
        run.write(k.transpose(1, 0, 2),
                  v.transpose(1, 0, 2), layout="hnd")
        plan = attention.Plan(shape, [run], [attention.Row(5, [(0, 0)])])
        out = numpy.zeros((1, 2, 8), "float32")
        done = plan.attend(q, out=out, lse=False)
        self.assertIs(done.out, out)
        self.assertIsNone(done.lse)
        numpy.testing.assert_allclose(out, self.expected(q, k, v)[0], atol=1e-5)
        for wrong in (dict(q=q[:, :1]), dict(q=q.astype("float64")),
                      dict(q=q, out=numpy.zeros((1, 2, 9), "float32")), dict(q=q[..., ::-1]),
                      dict(q=q, pages=[]), dict(q=q, pages=[numpy.zeros(8, "uint8")])):
            with self.assertRaises((TypeError, ValueError), msg=str(wrong)):
                plan.attend(**wrong)

    def test_dlpack_and_buffers(self):
        shape = attention.Shape(2, 1, 8)
        k, v, q = self.normal(5, 1, 8), self.normal(5, 1, 8), self.normal(1, 2, 8)
        run = attention.Run(shape, 5)
        run.write(Foreign(k), Foreign(v))
        plan = attention.Plan(shape, [run], [(5, [(0, 0)])])
        out = numpy.zeros((1, 2, 8), "float32")
        plan.attend(Foreign(q), out=Foreign(out), sinks=None)
        numpy.testing.assert_allclose(out, self.expected(q, k, v)[0], atol=1e-5)
        slopes = array.array("f", [0.0, 0.0])
        again = plan.attend(q, slopes=slopes)
        numpy.testing.assert_allclose(again.out, out, atol=1e-6)

    def test_torch(self):
        """bfloat16, which numpy does not know, by DLPack; and the library's memory in torch."""
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        shape = attention.Shape(4, 2, 16, dtype="bf16")
        k, v, q = (torch.from_numpy(self.normal(*dims)).bfloat16()
                   for dims in ((70, 2, 16), (70, 2, 16), (2, 4, 16)))
        run = attention.Run(shape, 70)
        run.write(k, v)
        out = torch.zeros(2, 4, 16, dtype=torch.bfloat16)
        attention.Plan(shape, [run], [(70, [(0, 0)])] * 2).attend(q, out=out)
        expected = self.expected(*(one.float().numpy() for one in (q, k, v)))[0]
        numpy.testing.assert_allclose(out.float().numpy(), expected, atol=0.02)
        batch = promptcache.Batch(model())
        one = batch.add(promptcache.Sequence(promptcache.Prompt.from_tokens(model(), TOKENS),
                                             logits=True))
        batch.step()
        self.assertEqual(torch.from_dlpack(one.logits).data_ptr(), address(one.logits))

    def test_pool(self):
        shape = attention.Shape(4, 2, 8)
        cache = self.normal(6, 2, 16, 2, 8)  # [page, K or V, token, head, dim]
        pool = attention.Pool(cache[:, 0], cache[:, 1])
        plan = attention.Plan(shape, [attention.PoolRun(20, [4, 1])], [(20, [(0, 0)])], pool=pool)
        q = self.normal(1, 4, 8)
        k, v = (numpy.concatenate([cache[4, one], cache[1, one]])[:20] for one in (0, 1))
        done = plan.attend(q)
        numpy.testing.assert_allclose(done.out, self.expected(q, k, v)[0], atol=1e-5)
        other = cache[::-1].copy()
        moved = plan.attend(q, pool=attention.Pool(other[:, 0], other[:, 1]))
        self.assertGreater(abs(moved.out - done.out).max(), 0.01)

    def test_shared_runs_and_merge(self):
        shape = attention.Shape(4, 2, 8)
        k, v, q = self.normal(90, 2, 8), self.normal(90, 2, 8), self.normal(2, 4, 8)
        runs = []
        for lo, hi in ((0, 64), (64, 90)):
            run = attention.Run(shape, hi - lo)
            run.write(k[lo:hi], v[lo:hi])
            runs.append(run)
        both = [(90, [(0, 0), (1, 64)]), (90, [(0, 0), (1, 64)])]
        whole = attention.Plan(shape, runs, both).attend(q)
        parts = [attention.Plan(shape, [run], [(90, [(0, 0)])] * 2).attend(q) for run in runs]
        merged = attention.merge([one.out for one in parts], [one.lse for one in parts])
        numpy.testing.assert_allclose(merged.out, whole.out, atol=1e-5)
        numpy.testing.assert_allclose(whole.out, self.expected(q, k, v)[0], atol=1e-5)

    def test_rope_and_options(self):
        shape = attention.Shape(1, 1, 4)
        k, v, q = self.normal(3, 1, 4), self.normal(3, 1, 4), self.normal(1, 1, 4)
        run = attention.Run(shape, 3)
        run.write(k, v)
        plan = attention.Plan(shape, [run], [(10, [(0, 0)])])
        turned = plan.attend(q, rope=attention.Rope([0.5, 0.1]))
        self.assertGreater(abs(turned.out - plan.attend(q).out).max(), 1e-4)
        last = plan.attend(q, window=9)  # sees the positions 2 to 10
        numpy.testing.assert_allclose(last.out[0, 0], v[2, 0], atol=1e-6)
        with self.assertRaises(TypeError):
            plan.attend(q, unknown=1)

    def test_over_a_segment(self):
        """The library's own memory of a segment as a run."""
        [result] = promptcache.evaluate(model(), [TOKENS], logits=False, segments=True)
        run = attention.Run.of_segment(result.segment, layer=2, heads=4)
        self.assertEqual(address(run.memory), address(result.segment.blocks[2]))
        plan = attention.Plan(run.shape, [run], [(100, [(0, 0)])])
        q = self.normal(1, 4, 64)
        k, v = run.read()
        numpy.testing.assert_allclose(plan.attend(q).out, self.expected(q, k, v)[0], atol=0.05)
        with self.assertRaises(ValueError):
            run.write(k, v)


if __name__ == "__main__":
    run()
