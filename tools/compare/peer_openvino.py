"""The side of OpenVINO GenAI: ContinuousBatchingPipeline (paged attention, kept prefixes) on the
CPU, with its defaults.

    peer_openvino.py FOLDER THREADS

Commands as in peer_promptcache.c, each with STEP after its name: the most tokens that are computed
in one step. 256 is OpenVINO's default; with 2048 a prompt is one step.
    prefill STEP TOKENS | ttft STEP TOKENS NEW | decode STEP DEPTH STEPS |
    shared STEP PREFIX SUFFIX BATCH STEPS | logits STEP TOKENS FILE
"""
import json
import os
import sys
import time

import numpy as np
import openvino
import openvino_genai

from peer_python import Texts, serve, token


def pipeline(folder, threads, step):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.max_num_batched_tokens = step
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_seqs = 256
    scheduler.cache_size = 1
    return openvino_genai.ContinuousBatchingPipeline(
        folder, scheduler, "CPU",
        {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"})


class Peer:
    def __init__(self, folder, threads):
        with open(os.path.join(folder, "config.json")) as file:
            self.vocab = json.load(file)["vocab_size"]
        self.folder, self.threads, self.texts = folder, threads, Texts()
        self.made, self.next = {}, 0

    def use(self, step):
        if step not in self.made:
            self.made.clear()  # one at a time: each holds the weights
            self.made[step] = pipeline(self.folder, self.threads, step)
        self.pipe = self.made[step]

    def prompt(self, prefix, suffix, text, base=0):
        ids = [token(base if i < prefix else text, i, self.vocab) for i in range(prefix + suffix)]
        return openvino.Tensor(np.array([ids], np.int64))

    def add(self, prompt, new):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        self.next += 1
        return self.pipe.add_request(self.next, prompt, config)

    @staticmethod
    def got(handle):
        """Tokens that came since the last look."""
        count = 0
        while handle.can_read():
            count += sum(len(output.generated_ids) for output in handle.read().values())
        return count

    def first(self, prompt):
        began, handle = time.perf_counter(), self.add(prompt, 1)
        while self.pipe.has_non_finished_requests():
            self.pipe.step()
        seconds = time.perf_counter() - began
        if self.got(handle) != 1:
            raise RuntimeError("no token came")
        return seconds

    def prefill(self, step, tokens):
        self.use(step)
        return [self.first(self.prompt(0, tokens, self.texts.fresh()))]

    def ttft(self, step, tokens, new):
        self.use(step)
        for _ in range(2):  # the first one may fill the cache
            seconds = self.first(self.prompt(tokens - new, new, self.texts.fresh()))
        return [seconds]

    def steps(self, handles, steps):
        times = []
        for turn in range(-1, steps):  # the first one warms
            began = time.perf_counter()
            self.pipe.step()
            seconds = time.perf_counter() - began
            tokens = sum(self.got(handle) for handle in handles)
            if tokens != len(handles):
                raise RuntimeError(f"{tokens} tokens in a step of {len(handles)} sequences")
            times += [seconds] if turn >= 0 else []
        for handle in handles:
            handle.cancel()
        while self.pipe.has_non_finished_requests():
            self.pipe.step()
        return times

    def decode(self, step, depth, steps):
        self.use(step)
        handle = self.add(self.prompt(0, max(depth, 1), 0), steps + 64)
        while not self.got(handle):
            self.pipe.step()
        return self.steps([handle], steps)

    def shared(self, step, prefix, suffix, batch, steps):
        self.use(step)
        self.first(self.prompt(prefix, 1, self.texts.fresh()))  # the prefix, once
        handles = [self.add(self.prompt(prefix, suffix, i + 1), 4096) for i in range(batch)]
        waiting = set(range(batch))
        while waiting:
            self.pipe.step()
            waiting -= {i for i in waiting if self.got(handles[i])}
        for handle in handles:
            self.got(handle)
        return self.steps(handles, steps)

    def logits(self, step, tokens, path):
        """Of the same model by OpenVINO alone: the pipeline does not show them."""
        model = openvino.Core().compile_model(
            os.path.join(self.folder, "openvino_model.xml"), "CPU",
            {"INFERENCE_NUM_THREADS": self.threads})
        ids = np.array([[token(0, i, self.vocab) for i in range(tokens)]], np.int64)
        found = model.create_infer_request().infer({
            "input_ids": ids, "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(tokens, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32)
        })
        next(iter(found.values())).astype("<f4").tofile(path)
        return []


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    serve({name: getattr(peer, name)
           for name in ("prefill", "ttft", "decode", "shared", "logits")})


if __name__ == "__main__":
    main()
