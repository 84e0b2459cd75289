"""What the library asks of a model, on segments and sequences of tensors."""
import torch

from . import errors
from .states import Segment, Sequence

PADDING = 1.5  # a pass over several sequences reads at most so many times their keys
TOGETHER = 64  # most sequences of one pass


class Rows:
    """Rows of a step that belong to one sequence."""

    def __init__(self, sequence):
        self.sequence, self.ids, self.positions, self.want, self.results = sequence, [], [], [], []


class Engine:
    """facts: check.Facts of the model."""

    def __init__(self, passes, facts):
        self.passes, self.facts = passes, facts

    # ---- Segments

    def moved(self, states, side, distance):
        """states of each layer, `distance` positions further on. side: 0 of K, 1 of V."""
        turn = self.facts.rotations
        return [turn[layer][side](t, distance) for layer, t in enumerate(states)]

    def segment(self, keys, values, positions):
        """Copies states out of a pass."""
        start = positions[0]
        relative = torch.tensor(positions, dtype=torch.long) - start
        if self.facts.relocatable:
            keys, values = self.moved(keys, 0, -start), self.moved(values, 1, -start)
        keys, values = ([t.clone(memory_format=torch.contiguous_format) for t in side]
                        for side in (keys, values))
        return Segment(keys, values, relative, 0 if self.facts.relocatable else start)

    def empty(self, count, origin):
        """A segment whose layers are still to come."""
        none = [None] * self.facts.layers
        return Segment(none, list(none), torch.arange(count), origin)

    def encode(self, ids, positions, visible, ranges, poll=lambda: None):
        """visible: (segment, start, lo, hi). ranges: (first, count). A segment for each range."""
        sequence = self.new_sequence()
        for span in visible:
            self.attach(sequence, *span)
        keys, values, _ = self.passes.rows(sequence, ids, positions, poll=poll)
        return [self.segment([k[:, at:at + n] for k in keys], [v[:, at:at + n] for v in values],
                             positions[at:at + n]) for at, n in ranges]

    # ---- Sequences

    def new_sequence(self):
        return Sequence(self.passes.device)

    def placed(self, segment, start, lo, hi):
        """(keys, values, positions) of tokens [lo, hi) of a segment at a start."""
        if not self.facts.relocatable and start != segment.origin:
            raise errors.Refused(f"states of position {segment.origin} cannot be moved to "
                                 f"{start}: {self.facts.why_fixed}")
        hi = hi or len(segment.relative)
        keys = [k[:, lo:hi] for k in segment.keys]
        values = [v[:, lo:hi] for v in segment.values]
        if self.facts.relocatable:
            keys, values = self.moved(keys, 0, start), self.moved(values, 1, start)
        return keys, values, (segment.relative[lo:hi] + start).to(self.passes.device)

    def attach(self, sequence, segment, start, lo, hi):
        sequence.add(*self.placed(segment, start, lo, hi), appended=False)

    def step(self, rows, visibility_all=False, hidden=False, poll=lambda: None):
        """rows: (sequence, position, id, want). Appends them; returns outputs of the rows that want
        them, in order. Nothing changes if it fails."""
        groups = []
        for sequence, position, token, want in rows:
            if not groups or groups[-1].sequence is not sequence:
                groups.append(Rows(sequence))
            groups[-1].ids.append(token)
            groups[-1].positions.append(position)
            groups[-1].want.append(want)
        single = [g for g in groups if len(g.ids) == 1] if self.passes.batches else []
        together = [t for t in self.together(single) if len(t) > 1]
        done = {id(g) for t in together for g in t}
        for several in together:
            self.compute_together(several, visibility_all, hidden, poll)
        for group in groups:
            if id(group) not in done:
                want = [i for i, wanted in enumerate(group.want) if wanted]
                group.keys, group.values, group.results = self.passes.rows(
                    group.sequence, group.ids, group.positions, visibility_all, want, hidden, poll)
        for group in groups:
            places = torch.tensor(group.positions, dtype=torch.long, device=self.passes.device)
            group.sequence.add(group.keys, group.values, places, appended=True)
        return [result for group in groups for result in group.results]

    def compute_together(self, groups, visibility_all, hidden, poll):
        results = self.passes.one_row_each(
            [g.sequence for g in groups], [g.ids[0] for g in groups],
            [g.positions[0] for g in groups], visibility_all, any(g.want[0] for g in groups),
            hidden, poll)
        for group, (keys, values, output) in zip(groups, results):
            group.keys, group.values = keys, values
            group.results = [output[None]] if group.want[0] else []

    @staticmethod
    def together(groups):
        """Groups of one row each that are worth one pass: of similar length."""
        batch, tokens = [], 0
        for group in sorted(groups, key=lambda g: -len(g.sequence)):
            length = len(group.sequence) + 1
            longest = len(batch[0].sequence) + 1 if batch else length
            if batch and (len(batch) == TOGETHER
                          or longest * (len(batch) + 1) > PADDING * (tokens + length) + 64):
                yield batch
                batch, tokens = [], 0
            batch.append(group)
            tokens += length
        if batch:
            yield batch

    def deviation(self, ids, positions, spans):
        """How far states of spans are from those of a plain prefill, in the second layer: of each
        token the mean of the relative distances of K and V."""
        layer = min(1, self.facts.layers - 1)
        cached = [self.placed(*span) for span in spans]
        order = sorted(range(len(ids)), key=lambda i: positions[i])
        keys, values, _ = self.passes.rows(
            self.new_sequence(), [ids[i] for i in order], [positions[i] for i in order],
            last_layer=layer)
        score = torch.zeros(len(ids))
        for fresh, side in ((keys[layer], 0), (values[layer], 1)):
            was = torch.cat([c[side][layer] for c in cached], 1)[:, order]
            fresh, was = (t.double().transpose(0, 1).flatten(1).cpu() for t in (fresh, was))
            size = fresh.norm(dim=1)
            far = torch.where(size > 0, (was - fresh).norm(dim=1) / size, 0.0)
            score[order] += (0.5 * far).float()
        return score
