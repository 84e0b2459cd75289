"""How a model's states depend on position: found by measuring, not by the model's name.

A sequence of one token attends to itself alone, so its hidden states are the same at every
position, unless positions are embedded. What differs between two positions in K (or V) of a layer
is therefore the rotation. The frequencies are those that the model holds; which of them a layer
uses, for which dimensions and in which order, is what explains the difference."""
import torch

STEPS = (1, 7, 61)  # distances at which states are compared


class Rotation:
    """Turns dimensions [first, first + 2 * len(frequencies)) of a head by position."""

    def __init__(self, first, frequencies, interleaved):
        self.first = first
        self.frequencies = frequencies.detach().double().cpu()
        self.interleaved = interleaved

    def __call__(self, states, distance):
        """states [..., head_dim], as they would be `distance` positions further on."""
        if not distance:
            return states
        width = 2 * len(self.frequencies)
        angle = distance * self.frequencies
        cos, sin = (f(angle).to(states.device, torch.float32) for f in (torch.cos, torch.sin))
        part = states[..., self.first:self.first + width].float()
        if self.interleaved:
            a, b = part[..., 0::2], part[..., 1::2]
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            a, b = part.chunk(2, -1)
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        out = states.clone()
        out[..., self.first:self.first + width] = turned.to(states.dtype)
        return out


def fixed(states, distance):
    """The rotation of states that do not depend on position."""
    return states


def frequencies_of(model, config):
    """All inverse frequencies that the model holds, or that older kinds of models derive."""
    found = [b for name, b in model.named_buffers() if name.endswith("inv_freq") and b.dim() == 1]
    width = getattr(config, "rotary_dim", None)
    if width and not found:
        found.append(1.0 / 10000.0 ** (torch.arange(0, width, 2).double() / width))
    unique = []
    for candidate in found:
        candidate = candidate.detach().double().cpu()
        if not any(c.shape == candidate.shape and torch.equal(c, candidate) for c in unique):
            unique.append(candidate)
    return unique


def apart(a, b):
    """The largest difference, as a part of the largest number."""
    return ((a.double() - b.double()).abs().max() / a.double().abs().max().clamp(min=1e-30)).item()


def find(at_zero, moved, frequencies, tolerance):
    """The rotation that explains how states of single tokens change.

    at_zero: states [..., head_dim] at position 0. moved: {distance: states}. None: there is none
    among those that are known."""
    candidates, width = [fixed], at_zero.shape[-1]
    for f in frequencies:
        turned = 2 * len(f)
        for first in sorted({0, width - turned} if turned <= width else ()):
            candidates += [Rotation(first, f, False), Rotation(first, f, True)]
    worst = [max(apart(states, c(at_zero, d)) for d, states in moved.items()) for c in candidates]
    best = min(range(len(candidates)), key=worst.__getitem__)
    return candidates[best] if worst[best] <= tolerance else None
