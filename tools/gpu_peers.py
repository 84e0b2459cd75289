#!/usr/bin/env python3
"""What others take for the same step of attention on this GPU: torch's scaled dot product where
every request has its own keys, and two passes in Triton (the shared prefix once for all rows, the
suffixes, then a merge). FlashInfer's cascade, where it is installed. Exit code 77: no torch, or no
GPU. Times are medians of many launches, each with an empty L2 cache.

    gpu_peers.py [ROWS PREFIX SUFFIX HEADS]...    (128 2048 128 52  1 2048 128 52)
"""
import sys

DIM = 128


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    skip(f"{missing}")


@triton.jit
def prefix_part(q, k, v, out, lse, rows, tokens, heads, part_tokens, scale,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr):
    """A tile of rows and one part of the prefix of a head, with tensor cores."""
    head, tile, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, DIM)
    queries = tl.load(q + (m[:, None] * heads + head) * DIM + d[None, :],
                      mask=m[:, None] < rows, other=0.0)
    most = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    values = tl.zeros([BLOCK_M, DIM], tl.float32)
    first = part * part_tokens
    last = tl.minimum(first + part_tokens, tokens)
    for at in range(first, last, BLOCK_N):
        n = at + tl.arange(0, BLOCK_N)
        where = (head * tokens + n[:, None]) * DIM + d[None, :]
        keys = tl.load(k + where, mask=n[:, None] < last, other=0.0)
        scores = tl.dot(queries, tl.trans(keys)) * scale
        scores = tl.where(n[None, :] < last, scores, float("-inf"))
        larger = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(most - larger)
        total = total * shrink + tl.sum(weights, 1)
        content = tl.load(v + where, mask=n[:, None] < last, other=0.0)
        values = values * shrink[:, None] + tl.dot(weights.to(content.dtype), content)
        most = larger
    row = (part * rows + m) * heads + head
    tl.store(out + row[:, None] * DIM + d[None, :], values / total[:, None],
             mask=m[:, None] < rows)
    tl.store(lse + row, most + tl.log2(total), mask=m < rows)


@triton.jit
def suffix_part(q, k, v, out, lse, tokens, heads, part, rows, scale,
                BLOCK_N: tl.constexpr, DIM: tl.constexpr):
    """One row and head with the keys of its own."""
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, DIM)
    query = tl.load(q + (row * heads + head) * DIM + d).to(tl.float32) * scale
    values = tl.zeros([DIM], tl.float32)
    total = tl.sum(values, 0)
    most = total - float("inf")
    for at in range(0, tokens, BLOCK_N):
        n = at + tl.arange(0, BLOCK_N)
        where = ((row * heads + head) * tokens + n[:, None]) * DIM + d[None, :]
        keys = tl.load(k + where, mask=n[:, None] < tokens, other=0.0).to(tl.float32)
        content = tl.load(v + where, mask=n[:, None] < tokens, other=0.0).to(tl.float32)
        scores = tl.where(n < tokens, tl.sum(keys * query[None, :], 1), float("-inf"))
        larger = tl.maximum(most, tl.max(scores, 0))
        weights = tl.exp2(scores - larger)
        shrink = tl.exp2(most - larger)
        total = total * shrink + tl.sum(weights, 0)
        values = values * shrink + tl.sum(content * weights[:, None], 0)
        most = larger
    to = (part * rows + row) * heads + head
    tl.store(out + to * DIM + d, values / total)
    tl.store(lse + to, most + tl.log2(total))


@triton.jit
def merge_parts(out, lse, to, vectors, parts, PARTS: tl.constexpr, DIM: tl.constexpr):
    """The states of one vector, by their weights."""
    at = tl.program_id(0)
    p, d = tl.arange(0, PARTS), tl.arange(0, DIM)
    logs = tl.load(lse + p * vectors + at, mask=p < parts, other=float("-inf"))
    weights = tl.exp2(logs - tl.max(logs, 0))
    states = tl.load(out + (p[:, None] * vectors + at) * DIM + d[None, :],
                     mask=p[:, None] < parts, other=0.0)
    total = tl.sum(states * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(to + at * DIM + d, total.to(to.dtype.element_ty))


class Case:
    def __init__(self, rows, prefix, suffix, heads):
        def make(*shape):
            return torch.randn(shape, device="cuda", dtype=torch.float16)
        self.rows, self.prefix, self.suffix, self.heads = rows, prefix, suffix, heads
        self.q = make(rows, heads, DIM)
        self.shared = make(heads, prefix, DIM), make(heads, prefix, DIM)
        self.own = make(rows, heads, suffix, DIM), make(rows, heads, suffix, DIM)
        self.parts = max(1, min(16, 264 // (heads * ((rows + 63) // 64))))
        self.each = (-(-prefix // self.parts) + 63) // 64 * 64
        self.parts = -(-prefix // self.each)
        self.states = torch.empty(self.parts + 1, rows, heads, DIM, device="cuda")
        self.lse = torch.empty(self.parts + 1, rows, heads, device="cuda")
        self.out = torch.empty_like(self.q)

    def two_passes(self):
        scale = 1.4426950408889634 / DIM ** 0.5
        prefix_part[(self.heads, (self.rows + 63) // 64, self.parts)](
            self.q, *self.shared, self.states, self.lse, self.rows, self.prefix, self.heads,
            self.each, scale, BLOCK_M=64, BLOCK_N=64, DIM=DIM, num_warps=4, num_stages=2)
        suffix_part[(self.rows, self.heads)](
            self.q, *self.own, self.states, self.lse, self.suffix, self.heads, self.parts,
            self.rows, scale, BLOCK_N=64, DIM=DIM, num_warps=4)
        merge_parts[(self.rows * self.heads,)](
            self.states, self.lse, self.out, self.rows * self.heads, self.parts + 1,
            PARTS=triton.next_power_of_2(self.parts + 1), DIM=DIM, num_warps=1)
        return self.out

    def copies(self):
        """Keys and values as an engine holds them that does not share."""
        return [torch.cat([shared.expand(self.rows, -1, -1, -1), own], 2)
                for shared, own in zip(self.shared, self.own)]

    def shared_bytes(self):
        return 4 * DIM * self.heads * (self.prefix + self.rows * self.suffix)

    def copied_bytes(self):
        return 4 * DIM * self.heads * self.rows * (self.prefix + self.suffix)


def median(call):
    return triton.testing.do_bench(call, warmup=20, rep=100, return_mode="median") * 1e-3


def line(name, case, seconds, count):
    print(f"{case.rows:5} {case.prefix:7} {case.suffix:7} {case.heads:5}  {name:28}"
          f"{seconds * 1e6:10.1f} us {count / seconds / 1e9:8.0f} GB/s", flush=True)


def flash_infer(case):
    """Its cascade over pages of 16 tokens; a reason instead of a time where that fails."""
    try:
        import flashinfer
    except ImportError:
        return "FlashInfer is not installed"
    try:
        page, heads, rows = 16, case.heads, case.rows
        shared, own = case.prefix // page, -(-case.suffix // page)
        store = torch.randn(shared + rows * own, 2, page, heads, DIM, device="cuda",
                            dtype=torch.float16)

        def numbers(*values):
            return torch.tensor(values, device="cuda", dtype=torch.int32)
        wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(
            2, torch.empty(128 << 20, dtype=torch.uint8, device="cuda"), "NHD")
        wrapper.plan(
            [numbers(0, rows), torch.arange(rows + 1, device="cuda", dtype=torch.int32)],
            [numbers(0, shared),
             torch.arange(rows + 1, device="cuda", dtype=torch.int32) * own],
            [torch.arange(shared, device="cuda", dtype=torch.int32),
             torch.arange(rows * own, device="cuda", dtype=torch.int32) + shared],
            [numbers(page), numbers(*[case.suffix - (own - 1) * page] * rows)],
            heads, heads, DIM, page)
        return median(lambda: wrapper.run(case.q, store))
    except Exception as error:  # whatever its version does not know
        return f"FlashInfer: {type(error).__name__}: {str(error).splitlines()[0][:90]}"


def compare(rows, prefix, suffix, heads):
    case = Case(rows, prefix, suffix, heads)
    keys, values = case.copies()
    query = case.q.unsqueeze(2)

    def sdpa():
        return torch.nn.functional.scaled_dot_product_attention(query, keys, values)
    error = (case.two_passes().float() - sdpa().squeeze(2).float()).abs().max().item()
    line("torch SDPA, own copies", case, median(sdpa), case.copied_bytes())
    line("two passes in Triton", case, median(case.two_passes), case.shared_bytes())
    cascade = flash_infer(case)
    if isinstance(cascade, str):
        print(f"      {cascade}")
    else:
        line("FlashInfer cascade", case, cascade, case.shared_bytes())
    print(f"      largest difference of the first two: {error:.1e}")
    return error < 5e-3


def products():
    """The largest rate of bf16 products that torch's library reaches."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds = median(lambda: torch.matmul(a, b))
    print(f"torch {torch.__version__}, triton {triton.__version__}: bf16 products "
          f"{2 * 8192 ** 3 / seconds / 1e12:.0f} TFLOP/s")


def main():
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    sizes = [int(x) for x in sys.argv[1:]] or [128, 2048, 128, 52, 1, 2048, 128, 52]
    products()
    print(" rows  prefix  suffix heads")
    right = [compare(*sizes[i:i + 4]) for i in range(0, len(sizes), 4)]
    sys.exit(0 if all(right) else 1)


main()
