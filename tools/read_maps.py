#!/usr/bin/env python3
"""Reads the attention maps of a memo (doc/format.md, "A memo's maps") without the library: a second reader, made from the document.

usage: read_maps.py [--out FOLDER] MEMO_FOLDER ...

Prints a line of JSON for each folder: what it is of, its records, and what of the log was not whole. Checksums need the module xxhash, packed layers zstandard; what
cannot be checked is said in "checked".
--out FOLDER   writes each record's note to FOLDER/note-ID and its layers to FOLDER/layer-ID-L, unpacked

exit: 0 all is whole, 1 something is damaged or cannot be read, 2 usage
"""
import argparse
import json
import pathlib
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None
try:
    import zstandard
except ImportError:
    zstandard = None

PAGE, LOG_HEADER, ENTRY, HEADER, ROW, ALIGN = 4096, 128, 128, 128, 32, 64
STORED, REMOVED, PACKED = 1, 2, 1
WIDE = {0: 4, 1: 2, 2: 1}


class Damaged(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Damaged(what)


def checksum(data):
    return xxhash.xxh3_128_digest(data)[::-1] if xxhash else None


def has_sum(data, at):
    return not xxhash or checksum(data[:at]) == data[at:at + 16]


def up(value, to=ALIGN):
    return (value + to - 1) // to * to


class Store:
    def __init__(self, folder):
        self.log, self.data = (folder / "maps.log").read_bytes(), (folder / "maps.data").read_bytes()
        self.checked = {"checksums": xxhash is not None, "zstd": zstandard is not None}
        self.bad = []
        self.read_log_header()
        self.read_data_header()
        self.entries = self.read_entries()

    def read_log_header(self):
        log = self.log
        need(len(log) >= LOG_HEADER and log[:8] == b"PCMAPLOG" and has_sum(log, 112), "maps.log: header")
        version, size, entry, self.format, self.layers, self.heads, causal, _ = struct.unpack_from("<8I", log, 8)
        need((version, size, entry) == (1, LOG_HEADER, ENTRY) and causal < 2 and self.format in WIDE, "maps.log: version or sizes")
        self.causal, self.model, self.nonce = bool(causal), log[40:72], log[72:88]
        self.next, = struct.unpack_from("<q", log, 88)

    def read_data_header(self):
        data = self.data
        need(len(data) >= 48 and data[:8] == b"PCMAPDAT" and has_sum(data, 32), "maps.data: header")
        need(struct.unpack_from("<II", data, 8) == (1, PAGE) and data[16:32] == self.nonce, "maps.data: another version, or of another log")

    def read_entries(self):
        live = {}
        for index in range((len(self.log) - LOG_HEADER) // ENTRY):
            raw = self.log[LOG_HEADER + index * ENTRY:LOG_HEADER + (index + 1) * ENTRY]
            if not any(raw) or not has_sum(raw, 112):
                if any(raw):
                    self.bad.append("entry %d of the log" % index)
                continue
            kind, flags, number, at, size, heat, tokens, note = struct.unpack_from("<IIqQQdII", raw)
            if kind == REMOVED:
                live.pop(number, None)
            else:
                live[number] = {"id": number, "packed": bool(flags & PACKED), "at": at, "bytes": size, "heat": heat, "tokens": tokens, "note": note,
                                "tokens_id": raw[48:80].hex(), "sum": raw[80:96], "used": struct.unpack_from("<q", raw, 96)[0]}
        return [live[number] for number in sorted(live)]

    def layer_bytes(self, tokens):
        weights = tokens * (tokens + 1) // 2 if self.causal else tokens * tokens
        size = self.heads * weights * WIDE[self.format]
        return up(size, 4) + 4 * self.heads * tokens if self.format == 2 else size

    def record(self, entry):
        """The note and the layers of one record."""
        need(entry["at"] % PAGE == 0 and entry["at"] + entry["bytes"] <= len(self.data), "it is not in maps.data")
        data = self.data[entry["at"]:entry["at"] + entry["bytes"]]
        size = HEADER + self.layers * ROW
        need(data[:8] == b"PCMAPREC" and data[112:128] == entry["sum"], "its header is not the one that the log knows")
        need(not xxhash or checksum(data[:112] + data[128:size]) == entry["sum"], "checksum of its header")
        need(struct.unpack_from("<qIIII", data, 8) == (entry["id"], size, self.layers, entry["tokens"], entry["note"]), "its header and the log differ")
        note = data[up(size):up(size) + entry["note"]]
        need(not xxhash or checksum(note) == data[96:112], "checksum of its note")
        need(not any(data[size:up(size)]), "something lies before its note")
        return note, self.record_layers(entry, data, up(size) + entry["note"])

    def record_layers(self, entry, data, end):
        layers, whole = [], self.layer_bytes(entry["tokens"])
        for i in range(self.layers):
            at, size = struct.unpack_from("<QQ", data, HEADER + i * ROW)
            need(at == up(end) and not any(data[end:at]) and at + size <= len(data), "place of layer %d" % i)
            packed, end = data[at:at + size], at + size
            need(not xxhash or checksum(packed) == data[HEADER + i * ROW + 16:HEADER + (i + 1) * ROW], "checksum of layer %d" % i)
            need(size == whole or (entry["packed"] and size < whole), "bytes of layer %d" % i)
            layers.append(packed if size == whole else self.unpack(packed, whole))
        need(end == len(data), "its end")
        return layers

    def unpack(self, packed, size):
        if not zstandard:
            return None
        planes, wide = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size), WIDE[self.format]
        need(len(planes) == size, "a packed layer")
        values = size // wide
        out = bytearray(planes)
        for plane in range(wide):
            out[wide - 1 - plane:values * wide:wide] = planes[plane * values:(plane + 1) * values]
        return bytes(out)

    def head(self):
        return {"model": self.model.hex(), "layers": self.layers, "heads": self.heads, "causal": self.causal, "format": self.format, "next": self.next}


def read(folder, out):
    store = Store(folder)
    told = dict(store.head(), records=[], checked=store.checked)
    for entry in store.entries:
        try:
            note, layers = store.record(entry)
        except Damaged as error:
            store.bad.append("record %d: %s" % (entry["id"], error))
            continue
        told["records"].append({k: v for k, v in entry.items() if k != "sum"})
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / ("note-%d" % entry["id"])).write_bytes(note)
            for i, layer in enumerate(layers):
                if layer is not None:
                    (out / ("layer-%d-%d" % (entry["id"], i))).write_bytes(layer)
    told["damaged"] = store.bad
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="MEMO_FOLDER")
    options = parser.parse_args()
    bad = 0
    for folder in options.folders:
        try:
            told = read(folder, options.out)
            print(json.dumps(told))
            bad |= bool(told["damaged"])
        except (Damaged, OSError) as error:
            print("%s: %s" % (folder, error), file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
