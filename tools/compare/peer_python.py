"""What the sides written in Python share: peer.h's tokens and protocol."""
import json
import sys
import time

MASK = (1 << 64) - 1


def token(text, i, vocab):
    """Token `i` of text number `text`, as peer_token of peer.h."""
    x = (((text * 0x9E3779B97F4A7C15) & MASK) + ((i * 0xBF58476D1CE4E5B9) & MASK) + 1) & MASK
    x = ((x ^ (x >> 31)) * 0x94D049BB133111EB) & MASK
    return 3 + ((x >> 33) % (vocab - 3))


class Texts:
    """Numbers of texts that no earlier prompt had, so that nothing of them is kept."""

    def __init__(self):
        self.last = 1000000 + int(time.time()) % 1000000 * 1000

    def fresh(self):
        self.last += 1
        return self.last


def word(text):
    return int(text) if text.isdigit() else text


def serve(jobs):
    """Answers commands; `jobs` has a function of each command's words, which returns seconds."""
    print('{"seconds": []}', flush=True)
    for line in sys.stdin:
        name, *words = line.split() or [""]
        try:
            if name not in jobs:
                raise ValueError(f"no command {name}")
            answer = {"seconds": jobs[name](*map(word, words))}
        except Exception as error:  # the protocol has a place for it, and the side goes on
            answer = {"error": str(error)[:300]}
        print(json.dumps(answer), flush=True)
