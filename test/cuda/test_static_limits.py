#!/usr/bin/env python3
"""Catches: a static limit that is computed wrongly, so that a kernel which misses it would pass."""
import unittest

import static_limits as limits

LOOP = [(0x00, "MOV R1, R2 "), (0x10, "LDG.E.128 R4, [R2.64] "), (0x20, "LDG.E R4, [R2.64] "),
        (0x30, "HMMA.16816.F32 R4, R8, R12, R4 "),
        (0x40, "LDGSTS.E.BYPASS.LTC128B.128 [R1], [R2] "),
        (0x50, "BRA 0x10 "), (0x60, "LDG.E.U16 R1, [R2.64] "), (0x70, "BRA 0x0 "),
        (0x80, "EXIT "), (0x90, "BRA 0x90 ")]


class Limits(unittest.TestCase):
    def test_blocks(self):
        # As NVIDIA's occupancy calculator says for compute capability 8.0 and 9.0.
        for arch, threads, registers, shared, blocks in (
                ("sm_80", 256, 32, 0, 8), ("sm_80", 128, 255, 0, 2), ("sm_80", 128, 168, 0, 3),
                ("sm_80", 32, 16, 0, 32), ("sm_80", 1024, 64, 0, 1), ("sm_80", 1024, 65, 0, 0),
                ("sm_80", 128, 128, 81 * 1024, 2), ("sm_80", 128, 128, 82 * 1024, 1),
                ("sm_90", 128, 128, 113 * 1024, 2), ("sm_90", 128, 128, 227 * 1024, 1)):
            self.assertEqual(limits.blocks_at_once(arch, threads, registers, shared), blocks,
                             (arch, threads, registers, shared))

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
