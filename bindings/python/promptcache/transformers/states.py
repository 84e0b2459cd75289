"""Segments and sequences: K and V of a run of tokens, all layers, as tensors.

K of a segment is rotated as if the segment started at position 0, if the model's states can be
moved; else it stays as it was computed at `origin`. So a segment that comes back from a record has
the same bits as one that never left. A sequence holds tensors of its own that its forks share: a
step makes new ones and changes none."""
import torch


class Segment:
    def __init__(self, keys, values, relative, origin):
        self.keys, self.values = keys, values  # of each layer [heads, tokens, dim]
        self.relative = relative  # [tokens] positions from the start on
        self.origin = origin  # where it was computed, if it cannot be moved; else 0

    def bytes(self):
        return sum(t.numel() * t.element_size() for t in self.keys + self.values)


class Sequence:
    """What it gets waits until somebody reads it, so that many segments are joined once."""

    def __init__(self, device):
        self.joined = ([], [])  # K and V of each layer [1, heads, tokens, dim], rotated
        self.places = torch.zeros(0, dtype=torch.long, device=device)
        self.waiting = []
        self.appended = []  # of each token: a step has appended it

    def __len__(self):
        return len(self.appended)

    def add(self, keys, values, positions, appended):
        """keys, values: of each layer [heads, tokens, dim]."""
        self.waiting.append((keys, values, positions))
        self.appended += [appended] * len(positions)

    def settle(self):
        if not self.waiting:
            return
        parts = [self.joined] if len(self.places) else []
        parts += [tuple([t[None] for t in side] for side in added[:2]) for added in self.waiting]
        self.joined = tuple([torch.cat(layer, 2) for layer in zip(*[part[side] for part in parts])]
                            for side in (0, 1))
        self.places = torch.cat([self.places] + [added[2] for added in self.waiting])
        self.waiting = []

    @property
    def keys(self):
        self.settle()
        return self.joined[0]

    @property
    def values(self):
        self.settle()
        return self.joined[1]

    @property
    def positions(self):
        self.settle()
        return self.places

    def fork(self):
        copy = Sequence(self.places.device)
        self.settle()
        copy.joined, copy.places, copy.appended = self.joined, self.places, list(self.appended)
        return copy

    def truncate(self, count):
        """Removes the last `count` tokens that steps have appended."""
        steps = [i for i, appended in enumerate(self.appended) if appended]
        if count > len(steps):
            raise ValueError(f"{count} tokens are to go, steps have appended {len(steps)}")
        gone = set(steps[len(steps) - count:])
        left = torch.tensor([i for i in range(len(self)) if i not in gone], dtype=torch.long)
        self.settle()
        self.joined = tuple([t[:, :, left.to(t.device)] for t in side] for side in self.joined)
        self.places = self.places[left.to(self.places.device)]
        self.appended = [self.appended[i] for i in left.tolist()]
