"""A compact Llama (RMSNorm, SwiGLU, half-split RoPE, GQA, tied embeddings) in
plain PyTorch, with explicit position ids.

Two ways to run it, which give the same numbers:

* `forward(ids, pos, mask)`: one sequence, any additive attention mask.
* `hidden(...)`: the training path.  The context comes as groups [B, G, L] that
  attend causally inside themselves only (G = 1 is an ordinary causal prefill,
  G = number of modules is independent encoding), then extras [B, E] with a mask
  of their own, then questions [B, Q, T] that see the context, the extras and
  themselves.  Splitting the work so keeps attention cheap.
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

CONFIG = dict(vocab_size=3030, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
              num_key_value_heads=2, intermediate_size=512, rope_theta=1e8, rms_norm_eps=1e-5,
              max_position_embeddings=2048)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f, hd = c["hidden_size"], c[
            "intermediate_size"], c["hidden_size"] // c["num_attention_heads"]
        kv = c["num_key_value_heads"] * hd

        def w(o, i):
            return nn.Parameter(torch.randn(o, i) / math.sqrt(i))
        self.n1, self.n2 = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.q, self.k, self.v, self.o = w(d, d), w(kv, d), w(kv, d), w(d, d)
        self.gate, self.up, self.down = w(f, d), w(f, d), w(d, f)
        with torch.no_grad():
            self.o.mul_(0.3), self.down.mul_(0.3)


def rope(x, cos, sin):                                   # x [B, T, heads, hd], half-split pairs
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rms(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


def before(x, n, wqkv, cos, sin, hd, kv, eps):
    """Norm, projections, rotation."""
    y = F.linear(rms(x, n, eps).to(wqkv.dtype), wqkv)
    y = y.view(*y.shape[:2], -1, hd)
    h = y.shape[2] - 2 * kv
    qk = rope(y[:, :, :h + kv], cos, sin)
    return qk[:, :, :h], qk[:, :, h:], y[:, :, h + kv:]


def after(x, a, wo, n, wgu, wd, eps):
    """Output projection, norm, gated feed-forward, both with their residuals."""
    x = x + F.linear(a, wo)
    g, u = F.linear(rms(x, n, eps).to(wo.dtype), wgu).chunk(2, -1)
    return x + F.linear(F.silu(g) * u, wd)


def attend(q, k, v, mask=None):
    """q [b, kvh, rep*Tq, hd] (query heads of one kv head stacked), k, v [b, kvh, Tk, hd]."""
    s = torch.matmul(q, k.transpose(-1, -2))
    if mask is not None:
        s = s + mask
    return torch.matmul(torch.softmax(s, -1), v)


def upper(n, dtype, rep):
    """Additive causal mask, [rep, n, n]."""
    ar = torch.arange(n)
    return torch.zeros(n, n).masked_fill(ar[None] > ar[:, None], -1e4).to(dtype).expand(rep, n, n)


class Llama(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        c = self.config = dict(CONFIG, **(config or {}))
        self.hd = c["hidden_size"] // c["num_attention_heads"]
        self.emb = nn.Parameter(torch.randn(c["vocab_size"], c["hidden_size"]) * 0.05)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.Parameter(torch.ones(c["hidden_size"]))
        self.dtype = torch.float32                       # of activations inside the blocks
        inv = c["rope_theta"] ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        ang = torch.arange(c["max_position_embeddings"]).float()[:, None] * inv
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def rms(self, x, w):
        return F.rms_norm(x, (x.shape[-1],), w, self.config["rms_norm_eps"]).to(self.dtype)

    def logits(self, h):
        return F.linear(h.to(self.dtype), self.emb.to(self.dtype)).float()

    def layers(self, x, pos, attention):
        c, t = self.config, self.dtype
        H, KV, hd = c["num_attention_heads"], c["num_key_value_heads"], self.hd
        cos, sin = self.cos[pos].to(t)[:, :, None], self.sin[pos].to(t)[:, :, None]
        B, T = pos.shape
        for L in self.blocks:
            q, k, v = before(x, L.n1,
                             torch.cat([L.q * hd**-0.5, L.k, L.v]).to(t), cos, sin, hd, KV,
                             c["rms_norm_eps"])
            a = attention(q, k, v)
            x = after(x, a.reshape(B, T, H * hd), L.o.to(t), L.n2,
                      torch.cat([L.gate, L.up]).to(t), L.down.to(t), c["rms_norm_eps"])
        return F.rms_norm(x, (x.shape[-1],), self.norm, c["rms_norm_eps"])

    def forward(self, ids, pos, mask):
        """ids, pos [B, T]; mask additive [B, 1, T, T].  -> logits [B, T, V]"""
        def attention(q, k, v):
            rep = q.shape[2] // k.shape[2]
            q, k, v = (z.transpose(1, 2)
                       for z in (q, k.repeat_interleave(rep, 2), v.repeat_interleave(rep, 2)))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype),
                                                  scale=1.0).transpose(1, 2)
        return self.logits(self.layers(self.emb[ids], pos, attention))

    def hidden(self,
               ctx_ids,
               ctx_pos,
               ext_ids,
               ext_pos,
               ext_bias,
               new_ids,
               new_pos,
               new_bias,
               chunk=192):
        """-> final hidden states [B, G*L + E + Q*T, D].  See batch.py for the three parts."""
        c = self.config
        KV, hd = c["num_key_value_heads"], self.hd
        H = c["num_attention_heads"]
        rep = H // KV
        (B, G, L), E, (_, Q, T) = ctx_ids.shape, ext_ids.shape[1], new_ids.shape
        C = G * L
        ids = torch.cat([ctx_ids.view(B, C), ext_ids, new_ids.view(B, -1)], 1)
        pos = torch.cat([ctx_pos.view(B, C), ext_pos, new_pos.view(B, -1)], 1)
        eb = ext_bias.to(self.dtype)[:, None].repeat(1, 1, rep, 1)
        nb = new_bias.to(self.dtype)[:, None, None]
        group, own = upper(L, self.dtype, rep), upper(T, self.dtype, rep)

        def rows(q, b, t):                               # [b, t, H, hd] -> [b, KV, rep*t, hd]
            return q.reshape(b, t, KV, rep, hd).permute(0, 2, 3, 1, 4).reshape(b, KV, rep * t, hd)

        def back(o, b, t):
            return o.view(b, KV, rep, t, hd).permute(0, 3, 1, 2, 4).reshape(b, t, H, hd)

        def inside(q, k, v):
            """Groups, causally inside themselves; by chunks of queries, which skips most of the
            upper triangle."""
            kc, vc = (z[:, :C].reshape(B * G, L, KV, hd).transpose(1, 2) for z in (k, v))
            qc = q[:, :C].reshape(B * G, L, H, hd)
            outs = []
            for s in range(0, L, chunk):
                e = min(L, s + chunk)
                m = group[:, s:e, :e].reshape(-1, e)
                outs.append(
                    back(attend(rows(qc[:, s:e], B * G, e - s), kc[:, :, :e], vc[:, :, :e], m),
                         B * G, e - s))
            return torch.cat(outs, 1).reshape(B, C, H, hd)

        def attention(q, k, v):
            kt, vt = k[:, :C + E].transpose(1, 2), v[:, :C + E].transpose(1, 2)
            ext = back(attend(rows(q[:, C:C + E], B, E), kt, vt, eb), B, E)
            far = torch.matmul(rows(q[:, C + E:], B, Q * T), kt.transpose(2, 3)) + nb
            kn, vn = (z[:, C + E:].reshape(B * Q, T, KV, hd).transpose(1, 2) for z in (k, v))
            near = torch.matmul(rows(q[:, C + E:].reshape(B * Q, T, H, hd), B * Q, T),
                                kn.transpose(2, 3)) + own.reshape(-1, T)
            near = near.view(B, Q, KV, rep, T, T).permute(0, 2, 3, 1, 4, 5).reshape(
                B, KV, rep * Q * T, T)
            p = torch.softmax(torch.cat([far, near], -1), -1)
            o = back(torch.matmul(p[..., :C + E], vt), B, Q * T)
            pn = p[..., C + E:].reshape(B, KV, rep, Q, T, T).permute(0, 3, 1, 2, 4, 5).reshape(
                B * Q, KV, rep * T, T)
            o = o + back(torch.matmul(pn, vn), B * Q, T).reshape(B, Q * T, H, hd)
            return torch.cat([inside(q, k, v), ext, o], 1)
        return self.layers(self.emb[ids], pos, attention)


# --------------------------------------------------------------------------
# Hugging Face layout
# --------------------------------------------------------------------------

NAMES = {
    "n1": "input_layernorm", "n2": "post_attention_layernorm", "q": "self_attn.q_proj", "k":
    "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj",
    "up": "mlp.up_proj", "down": "mlp.down_proj"
}


def hf_state(model):
    out = {"model.embed_tokens.weight": model.emb, "model.norm.weight": model.norm}
    for i, b in enumerate(model.blocks):
        for short, name in NAMES.items():
            out[f"model.layers.{i}.{name}.weight"] = getattr(b, short)
    return {k: v.detach() for k, v in out.items()}


def save_hf(model, folder, dtype=torch.bfloat16):
    state = {k: v.to(dtype).contiguous().cpu() for k, v in hf_state(model).items()}
    save_file(state, folder + "/model.safetensors", metadata={"format": "pt"})
    c = model.config
    json.dump(dict(architectures=["LlamaForCausalLM"],
                   model_type="llama",
                   hidden_act="silu",
                   attention_bias=False,
                   mlp_bias=False,
                   attention_dropout=0.0,
                   head_dim=model.hd,
                   initializer_range=0.02,
                   tie_word_embeddings=True,
                   bos_token_id=1,
                   eos_token_id=6,
                   pad_token_id=2,
                   use_cache=True,
                   rope_scaling=None,
                   torch_dtype=str(dtype).split(".")[1],
                   **c),
              open(folder + "/config.json", "w"),
              indent=2)


def load_hf(folder):
    c = json.load(open(folder + "/config.json"))
    model = Llama({k: c[k] for k in CONFIG})
    state = load_file(folder + "/model.safetensors")
    with torch.no_grad():
        for k, p in hf_state(model).items():
            p.copy_(state[k])
    return model
