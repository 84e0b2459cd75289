"""Checks a model folder, and a GGUF file made from it, against Hugging Face transformers:

    python verify.py MODEL_FOLDER [demo.gguf]

Compares the training path, the plain masked path and LlamaForCausalLM in all four modes, the
tokenizers,
and every tensor of the GGUF file with the weights (query and key rows put back in order).
"""
import random
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, LlamaForCausalLM

import batch as batching
from export_gguf import gguf_name, heads_to_permute, permute
from model import load_hf
from tokenizer import Encoder

LIMIT = 2e-3                                            # largest difference of logits, fp32
TEXTS = (
    "City guide: Lisbon. The room in Lisbon is 120 euros.\n    The tram in Lisbon is 5 minutes. ",
    "<|user|>How much is it?<|end|><|assistant|>", " \u00fcn\u00efcode 1234, don't  a  b\n\n")


def check_tokenizer(enc, folder):
    htok = AutoTokenizer.from_pretrained(folder)
    for t in TEXTS:
        ids = enc.tok.encode(t).ids
        assert ids == htok(t, add_special_tokens=False).input_ids and enc.tok.decode(
            ids, skip_special_tokens=False) == t
    chat = [dict(role="system", content="A."), dict(role="user", content="B?")]
    text = htok.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<s><|system|>A.<|end|><|user|>B?<|end|><|assistant|>", text
    print("tokenizer and chat template agree")


def flat_mask(b):
    """The mask of a batch of one document as one [T, T] matrix."""
    (_, G, L), E, (_, Q, T) = b["ctx_ids"].shape, b["ext_ids"].shape[1], b["new_ids"].shape
    C = G * L
    N = C + E + Q * T
    mask = torch.full((N, N), -1e9)

    def causal(at, n):
        mask[at:at + n, at:at + n] = torch.full((n, n), -1e9).triu(1)
    for g in range(G):
        causal(g * L, L)
    mask[C:C + E, :C + E] = torch.where(b["ext_bias"][0] < 0, -1e9, 0.0)
    for q in range(Q):
        at = C + E + q * T
        mask[at:at + T, :C + E] = torch.where(b["new_bias"][0] < 0, -1e9, 0.0)
        causal(at, T)
    return mask[None, None]


@torch.no_grad()
def check_logits(model, enc, folder):
    hf = LlamaForCausalLM.from_pretrained(folder,
                                          torch_dtype=torch.float32,
                                          attn_implementation="eager")
    for mode in batching.MODES:
        b = batching.make_batch(random.Random(5), enc, mode, 1, 6, 4, split="test", p_param=0.2)
        fast = model.logits(model.hidden(*(b[k] for k in batching.INPUTS)))
        ids, pos = (torch.cat([b[p + k].reshape(1, -1) for p in ("ctx", "ext", "new")], 1)
                    for k in ("_ids", "_pos"))
        slow = model(ids, pos, flat_mask(b))
        ref = hf(input_ids=ids, position_ids=pos, attention_mask=flat_mask(b)).logits
        own, other = (fast - slow).abs().max().item(), (slow - ref).abs().max().item()
        same = (slow.argmax(-1) == ref.argmax(-1)).float().mean().item()
        print(f"{mode:18} largest difference of logits: own paths {own:.1e}, "
              f"transformers {other:.1e}; same choice {same:.4f}")
        assert own < LIMIT and other < LIMIT


def check_gguf(folder, path, config):
    tensors = {x.name: x for x in gguf.GGUFReader(path).tensors}
    state = load_file(folder + "/model.safetensors")
    assert len(tensors) == len(state)
    for name, want in state.items():
        x = tensors[gguf_name(name)]
        got = torch.from_numpy(np.array(gguf.quants.dequantize(x.data, x.tensor_type))).float()
        heads = heads_to_permute(name, config)
        want = permute(want.float(), heads) if heads else want.float()
        assert got.shape == want.shape and torch.equal(got, want), name
    print(f"{path}: {len(tensors)} tensors equal the weights")


if __name__ == "__main__":
    where = sys.argv[1]
    torch.set_num_threads(1)
    m, encoder = load_hf(where), Encoder(where)
    check_tokenizer(encoder, where)
    check_logits(m, encoder, where)
    for p in sys.argv[2:]:
        check_gguf(where, p, m.config)
