"""Catches: keys of `promptcache info --json` that come, go or are renamed; facts that differ from
the file; a wrong exit code; a refusal without family and reason; weights that are read: a sparse
file of 45 GB must be described at once.

    python3 test_info.py SOURCE_FOLDER PROGRAM
"""
import json
import os
import resource
import struct
import subprocess
import sys
import time

from checking import check, run_in_folder

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
DEMO = os.path.join(SOURCE, "models", "demo", "demo.gguf")
KEYS = """model loads reason kind architecture family parameters layers hidden heads kv_heads
head_dim value_dim vocab context_length positions rope window chunk latent query_norms sinks experts
encoder tokenizer chat modules_move modules_fixed_because file_bytes tensors formats compute kv
backend kernels cpu weight_bytes weight_bytes_as_stored kv_bytes_token kv_bytes_1000_tokens
tokens_kilobyte
kv_bytes_kilobyte free_memory longest_context""".split()
KV = ["f32", "bf16", "f16", "int8"]
Q4_K, Q6_K, F32 = 12, 14, 0
BLOCKS = {F32: (1, 4), Q4_K: (256, 144), Q6_K: (256, 210)}


def run(*arguments, code=0, **more):
    done = subprocess.run([PROGRAM, "info", *arguments], capture_output=True, text=True,
                          check=False, **more)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done


def info(*arguments, code=0, **more):
    return json.loads(run(*arguments, "--json", code=code, **more).stdout)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def u32(key, value):
    return text(key) + struct.pack("<II", 4, value)


def f32(key, value):
    return text(key) + struct.pack("<If", 6, value)


def write_gguf(path, keys, tensors):
    """Tensors: (name, dimensions with the fastest first, type); their data are a hole."""
    offset, described = 0, b""
    for name, dims, kind in tensors:
        described += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        count = 1
        for n in dims:
            count *= n
        offset = (offset + count // BLOCKS[kind][0] * BLOCKS[kind][1] + 31) // 32 * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + described
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


def large():
    """A Llama of 70 billion parameters in Q4_K_M, without a vocabulary."""
    layers, hidden, wide, vocab, kv = 80, 8192, 28672, 128256, 1024
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    keys += [u32("llama." + key, value) for key, value in (
        ("block_count", layers), ("embedding_length", hidden), ("feed_forward_length", wide),
        ("context_length", 131072), ("attention.head_count", 64), ("attention.head_count_kv", 8))]
    keys += [f32("llama.attention.layer_norm_rms_epsilon", 1e-5), f32("llama.rope.freq_base", 5e5)]
    tensors = [("token_embd.weight", (hidden, vocab), Q4_K), ("output_norm.weight", (hidden,), F32),
               ("output.weight", (hidden, vocab), Q6_K)]
    for layer in range(layers):
        of = f"blk.{layer}."
        tensors += [(of + name + ".weight", dims, kind) for name, dims, kind in (
            ("attn_norm", (hidden,), F32), ("ffn_norm", (hidden,), F32),
            ("attn_q", (hidden, hidden), Q4_K), ("attn_k", (hidden, kv), Q4_K),
            ("attn_v", (hidden, kv), Q6_K), ("attn_output", (hidden, hidden), Q4_K),
            ("ffn_gate", (hidden, wide), Q4_K), ("ffn_up", (hidden, wide), Q4_K),
            ("ffn_down", (wide, hidden), Q6_K))]
    try:
        write_gguf("large.gguf", keys, tensors)
    except OSError as error:
        print("without a large file:", error)
        return
    start = time.monotonic()
    facts = info("large.gguf")
    seconds = time.monotonic() - start
    print(f"a file of {os.path.getsize('large.gguf') / 1e9:.0f} GB: {seconds:.2f} s")
    check(seconds < 10, f"{seconds} s for headers")
    check(facts["parameters"] == 70553706496, facts["parameters"])
    check([row["format"] for row in facts["formats"]] == ["Q4_K", "Q6_K", "F32"], "formats")
    check(facts["kv_bytes_token"]["bf16"] == 2 * 2 * layers * kv, "K and V of a token")
    check(facts["kv_bytes_1000_tokens"]["bf16"] == 1000 * facts["kv_bytes_token"]["bf16"], "1000")
    check(sum(row["bytes"] for row in facts["formats"]) <= facts["file_bytes"], "bytes")
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if not os.environ.get("PC_TEST_NO_MEMORY"):
        check(used < 300000, f"{used} KiB of memory")
    os.unlink("large.gguf")


def demo():
    facts = info(DEMO)
    check(list(facts) == KEYS, f"keys: {list(facts)}")
    check(facts["loads"] and facts["reason"] is None and facts["kind"] == "gguf", "loads")
    check((facts["layers"], facts["heads"], facts["kv_heads"], facts["head_dim"]) == (4, 4, 2, 64),
          "shape")
    check(facts["tokenizer"] == {"kind": "byte-level BPE", "tokens": 3030}, facts["tokenizer"])
    check(facts["chat"]["system"] and facts["modules_move"], "chat template and modules")
    check(facts["file_bytes"] == os.path.getsize(DEMO), "size of the file")
    check(all(list(facts[key]) == KV for key in (
        "kv_bytes_token", "kv_bytes_1000_tokens", "kv_bytes_kilobyte", "longest_context")), "K/V")
    check(facts["tokens_kilobyte"] > 100, "tokens of a kilobyte")
    check(0 < facts["longest_context"]["f32"] <= facts["context_length"], "longest context")
    other = info(DEMO, "--compute", "bf16", "--kv", "int8")
    check((other["compute"], other["kv"]) == ("bf16", "int8"), "--compute and --kv")
    other = run(DEMO).stdout
    check("Llama (llama), 3.1 million parameters" in other and "can be placed anywhere" in other,
          other)


def refused():
    os.mkdir("mamba")
    with open("mamba/config.json", "w", encoding="ascii") as file:
        json.dump({"model_type": "mamba2", "hidden_size": 768, "num_hidden_layers": 24}, file)
    facts = info("mamba", code=3)
    check(list(facts) == KEYS, "keys of a refused model")
    check(not facts["loads"] and facts["family"] == "Mamba 2" and facts["layers"] == 24, facts)
    check("keeps a recurrent state" in facts["reason"], facts["reason"])
    check(facts["weight_bytes"] is None and facts["kv_bytes_token"] is None, "memory")
    done = run("mamba", code=3)
    check("Mamba 2 (mamba2)" in done.stdout and done.stderr.count("\n") == 1
          and "keeps a recurrent state" in done.stderr, done.stdout + done.stderr)
    check("No such file" in run("nothing", code=3).stderr, "a file that is not there")
    check("a model is needed" in run(code=2).stderr, "no model")
    check("is none of" in run(DEMO, "--kv", "f64", code=2).stderr, "a wrong option")


def main():
    demo()
    refused()
    large()


if __name__ == "__main__":
    run_in_folder(main)
