#!/usr/bin/env python3
"""Catches: a static limit that is computed wrongly, so that a kernel which misses it would pass."""
import unittest

import static_limits as limits

LOOP = [(0x00, "MOV R1, R2 "), (0x10, "LDG.E.128 R4, [R2.64] "), (0x20, "LDG.E R4, [R2.64] "),
        (0x30, "HMMA.16816.F32 R4, R8, R12, R4 "),
        (0x40, "LDGSTS.E.BYPASS.LTC128B.128 [R1], [R2] "),
        (0x50, "BRA 0x10 "), (0x60, "LDG.E.U16 R1, [R2.64] "), (0x70, "BRA 0x0 "),
        (0x80, "EXIT "), (0x90, "BRA 0x90 ")]

# What cuobjdump prints, shortened.
USAGE = """
Fatbin elf code:
================
arch = sm_80
Resource usage:
 Common:
  GLOBAL:0
 Function pc__cuda_a:
  REG:32 STACK:0 SHARED:256 LOCAL:0 CONSTANT[0]:384 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function pc__cuda_b:
  REG:80 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:384 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90
 Function pc__cuda_a:
  REG:40 STACK:0 SHARED:1280 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
ATTRIBUTES = """
arch = sm_80
   b 1e9e9c    2f4  0  4                    CUDA_INFO       40    3        0 .nv.info.pc__cuda_a
.nv.info.pc__cuda_a
\tAttribute:\tEIATTR_MAXREG_COUNT
\tFormat:\tEIFMT_HVAL
\tValue:\t0xff

.nv.info.pc__cuda_b
\tAttribute:\tEIATTR_MAX_THREADS
\tFormat:\tEIFMT_SVAL
\tValue:\t0x100 0x1 0x1
"""


class Limits(unittest.TestCase):
    def test_blocks(self):
        # As NVIDIA's occupancy calculator says for compute capability 8.0 and 9.0.
        for arch, threads, registers, shared, blocks in (
                ("sm_80", 256, 32, 0, 8), ("sm_80", 128, 255, 0, 2), ("sm_80", 128, 168, 0, 3),
                ("sm_80", 32, 16, 0, 32), ("sm_80", 1024, 64, 0, 1), ("sm_80", 1024, 65, 0, 0),
                ("sm_80", 128, 128, 81 * 1024, 2), ("sm_80", 128, 128, 82 * 1024, 1),
                ("sm_90", 128, 128, 113 * 1024, 2), ("sm_90", 128, 128, 227 * 1024, 1),
                ("sm_120", 32, 16, 0, 24), ("sm_120", 256, 32, 0, 6),
                ("sm_120", 128, 128, 99 * 1024, 1), ("sm_120", 128, 128, 100 * 1024, 0)):
            self.assertEqual(limits.blocks_at_once(arch, threads, registers, shared), blocks,
                             (arch, threads, registers, shared))
        self.assertEqual(limits.wanted_blocks("sm_80", "2"), 2)
        self.assertEqual(limits.wanted_blocks("sm_120", "2"), 1)

    def test_usage(self):
        self.assertEqual(limits.read_usage(USAGE), {
            ("pc__cuda_a", "sm_80"): {"registers": 32, "shared": 256, "stack": 0},
            ("pc__cuda_b", "sm_80"): {"registers": 80, "shared": 0, "stack": 8},
            ("pc__cuda_a", "sm_90"): {"registers": 40, "shared": 256, "stack": 0}})
        self.assertEqual(limits.read_threads(ATTRIBUTES), {"pc__cuda_a": 0, "pc__cuda_b": 256})

    def test_instructions(self):
        self.assertEqual(limits.inner_loops(LOOP), [(0x10, 0x50)])
        found = limits.look_at(LOOP)
        self.assertEqual(found["tensor"], 1)
        self.assertEqual(dict(found["loads"]), {16: 2, 4: 1})
        without = [(at, text) for at, text in LOOP if "HMMA" not in text]
        self.assertEqual(dict(limits.look_at(without)["loads"]), {16: 2, 4: 1})
        for text, size in (("LDG.E.64 R1", 8), ("LD.E R1", 4), ("LDS.128 R1", 0), ("STG.E R1", 0),
                           ("LDG.E.U8 R1", 1), ("LDGSTS.E.64 [R1]", 8)):
            self.assertEqual(limits.width(text), size, text)

    def test_columns(self):
        loads = {16: 9, 4: 2}
        for column, fault in (("16 4", False), ("16 4:2", False), ("16 4:1", True), ("16", True),
                              ("16:8 4", True), ("16 8 4:3", False)):
            self.assertEqual(limits.too_many(loads, column), fault, column)


if __name__ == "__main__":
    unittest.main()
