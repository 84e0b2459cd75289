"""Momentum, then the nearest orthogonal matrix (Newton-Schulz), for all weight matrices of the
blocks."""
import torch


class Muon:
    def __init__(self, params, lr, momentum=0.95, decay=0.01):
        self.lr, self.momentum, self.decay = lr, momentum, decay
        self.shapes = {}
        for p in params:
            self.shapes.setdefault(tuple(p.shape), []).append(p)
        self.buf = {
            s: torch.zeros(len(ps), *s, device=ps[0].device)
            for s, ps in self.shapes.items()
        }

    @staticmethod
    def orthogonal(g, steps=5):
        x = g.bfloat16()
        flip = x.shape[1] > x.shape[2]
        if not flip:
            x = x.transpose(1, 2)
        x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
        for _ in range(steps):
            a = x @ x.transpose(1, 2)
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
        return (x if flip else x.transpose(1, 2)).float()

    @torch.no_grad()
    def step(self, scale):
        for s, ps in self.shapes.items():
            g = torch.stack([p.grad for p in ps])
            m = self.buf[s].lerp_(g, 1 - self.momentum)
            u = self.orthogonal(torch.lerp(g, m, self.momentum))
            lr = self.lr * scale
            for p, d in zip(ps, u):
                p.mul_(1 - lr * self.decay).add_(d, alpha=-lr * max(1, s[0] / s[1]) ** 0.5)

    def state_dict(self):
        return {str(s): b for s, b in self.buf.items()}

    def load_state_dict(self, d):
        for s, b in self.buf.items():
            b.copy_(d[str(s)])
