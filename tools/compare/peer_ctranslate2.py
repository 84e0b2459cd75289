"""The side of CTranslate2: its Generator on the CPU, with its defaults.

    peer_ctranslate2.py FOLDER THREADS

Commands as in peer_promptcache.c. A kept prefix is CTranslate2's cached static prompt. Of many
sequences each has its own copy of it, as CTranslate2 does it.
"""
import json
import os
import sys
import time

import ctranslate2

from peer_python import Texts, serve, token


class Peer:
    def __init__(self, folder, threads):
        with open(os.path.join(folder, "vocabulary.json")) as file:
            self.vocab = len(json.load(file))
        self.generator = ctranslate2.Generator(folder, device="cpu", inter_threads=1,
                                               intra_threads=threads)
        self.texts = Texts()

    def words(self, text, low, high):
        return [f"t{token(text, i, self.vocab)}" for i in range(low, high)]

    def times(self, batch, new, static=None):
        """Until the first token, and between the following ones."""
        at = {}

        def look(result):
            at[result.step] = time.perf_counter()

        began = time.perf_counter()
        self.generator.generate_batch(batch, max_length=new, min_length=new, beam_size=1,
                                      include_prompt_in_result=False, static_prompt=static,
                                      cache_static_prompt=True, callback=look)
        ends = [began] + [at[step] for step in sorted(at)]
        return [b - a for a, b in zip(ends, ends[1:])]

    def prefill(self, tokens):
        return self.times([self.words(self.texts.fresh(), 0, tokens)], 1)[:1]

    def ttft(self, tokens, new):
        kept = self.words(0, 0, tokens - new)
        for _ in range(2):  # the first one may fill the cache
            times = self.times([self.words(self.texts.fresh(), tokens - new, tokens)], 1, kept)
        return times[:1]

    def decode(self, depth, steps):
        depth = max(depth, 1)
        kept = self.words(0, 0, depth - 1) if depth > 1 else None
        return self.times([self.words(0, depth - 1, depth)], steps + 2, kept)[2:]

    def shared(self, prefix, suffix, batch, steps):
        suffixes = [self.words(i + 1, prefix, prefix + suffix) for i in range(batch)]
        return self.times(suffixes, steps + 2, self.words(0, 0, prefix))[2:]


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    serve({name: getattr(peer, name) for name in ("prefill", "ttft", "decode", "shared")})


if __name__ == "__main__":
    main()
