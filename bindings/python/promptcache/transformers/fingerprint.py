"""The digest of everything that changes K and V of a model in memory."""
import hashlib
import json

import torch
import transformers

from .._raw import ffi

FORM = "promptcache transformers states/1"  # changes when a segment means something else
# Settings that change no K and V.
IDLE = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache",
        "architectures", "return_dict", "output_hidden_states", "output_attentions", "id2label",
        "label2id")
BLOCK = 64 << 20


def raw(tensor):
    """The bytes of a tensor, block by block."""
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8) if tensor.numel() else None
    for first in range(0, len(flat) if flat is not None else 0, BLOCK):
        block = flat[first:first + BLOCK].cpu()
        yield ffi.buffer(ffi.cast("char *", block.data_ptr()), len(block))


def fingerprint(model, body):
    """32 bytes. Reads all weights but those of the logits: about a second for each GB."""
    digest = hashlib.blake2b(digest_size=32)
    config = {k: v for k, v in model.config.to_dict().items() if k not in IDLE}
    head = {"form": FORM, "transformers": transformers.__version__, "dtype": str(model.dtype),
            "attention": getattr(model.config, "_attn_implementation", None), "config": config}
    digest.update(json.dumps(head, sort_keys=True, default=str).encode())
    for name, tensor in sorted(body.state_dict().items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        for block in raw(tensor):
            digest.update(block)
    return digest.digest()
