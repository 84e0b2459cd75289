#!/usr/bin/env python3
"""Reads the attention maps of a memo (doc/format.md, "A memo's maps") and its index files
("Indexes of a memo") without the library: a second reader, made from the document.

usage: read_maps.py [--out FOLDER] FOLDER_OF_MAPS | INDEX.pci ...

Prints a line of JSON for each folder: what it is of, its records, and what of the log was not
whole; for each file of indexes: what they are of. Checksums need the module xxhash, compressed
layers zstandard; what cannot be checked is said in "checked".
--out FOLDER   writes each record's metadata to FOLDER/metadata-ID and its layers to
FOLDER/layer-ID-L, decompressed

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
STORED, REMOVED, COMPRESSED = 1, 2, 1
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
        self.log, self.data = (folder / "maps.log").read_bytes(), (folder /
                                                                   "maps.data").read_bytes()
        self.checked = {"checksums": xxhash is not None, "zstd": zstandard is not None}
        self.bad = []
        self.read_log_header()
        self.read_data_header()
        self.entries = self.read_entries()

    def read_log_header(self):
        log = self.log
        need(
            len(log) >= LOG_HEADER and log[:8] == b"PCMAPLOG" and has_sum(log, 112),
            "maps.log: header")
        version, size, entry, self.format, self.layers, self.heads, causal, _ = struct.unpack_from(
            "<8I", log, 8)
        need((version, size, entry) == (1, LOG_HEADER, ENTRY) and causal < 2
             and self.format in WIDE, "maps.log: version or sizes")
        self.causal, self.model, self.nonce = bool(causal), log[40:72], log[72:88]
        self.next, self.generation = struct.unpack_from("<qQ", log, 88)

    def read_data_header(self):
        data = self.data
        need(len(data) >= 48 and data[:8] == b"PCMAPDAT" and has_sum(data, 32), "maps.data: header")
        need(
            struct.unpack_from("<II", data, 8) == (1, PAGE) and data[16:32] == self.nonce,
            "maps.data: another version, or of another log")

    def read_entries(self):
        live, seen = {}, 0
        for index in range((len(self.log) - LOG_HEADER) // ENTRY):
            raw = self.log[LOG_HEADER + index * ENTRY:LOG_HEADER + (index + 1) * ENTRY]
            if not any(raw) or not has_sum(raw, 112):
                if any(raw):
                    self.bad.append("entry %d of the log" % index)
                    seen = index + 1
                continue
            seen = index + 1
            kind, flags, number, at, size, log_uses, tokens, metadata = struct.unpack_from(
                "<IIqQQdII", raw)
            if kind == REMOVED:
                live.pop(number, None)
            else:
                live[number] = {
                    "id": number, "compressed": bool(flags & COMPRESSED), "at": at, "bytes": size,
                    "log_uses": log_uses, "tokens": tokens, "metadata": metadata,
                    "tokens_id": raw[48:80].hex(), "sum": raw[80:96], "used": struct.unpack_from(
                        "<q", raw, 96)[0]
                }
        marked = self.marked_entries()
        if marked > seen:
            self.bad.append("%d entries that the log had are cut off" % (marked - seen))
        return [live[number] for number in sorted(live)]

    def marked_entries(self):
        mark = self.data[64:96]
        if len(mark) < 32 or not has_sum(mark, 16):
            return 0
        generation, entries = struct.unpack_from("<QQ", mark)
        return entries if generation and generation == self.generation else 0

    def layer_bytes(self, tokens):
        weights = tokens * (tokens + 1) // 2 if self.causal else tokens * tokens
        size = self.heads * weights * WIDE[self.format]
        return up(size, 4) + 4 * self.heads * tokens if self.format == 2 else size

    def record(self, entry):
        """The metadata and the layers of one record."""
        need(entry["at"] % PAGE == 0 and entry["at"] + entry["bytes"] <= len(self.data),
             "it is not in maps.data")
        data = self.data[entry["at"]:entry["at"] + entry["bytes"]]
        size = HEADER + self.layers * ROW
        need(data[:8] == b"PCMAPREC" and data[112:128] == entry["sum"],
             "its header is not the one that the log knows")
        need(not xxhash or checksum(data[:112] + data[128:size]) == entry["sum"],
             "checksum of its header")
        need(
            struct.unpack_from("<qIIII", data, 8) == (entry["id"], size, self.layers,
                                                      entry["tokens"], entry["metadata"]),
            "its header and the log differ")
        metadata = data[up(size):up(size) + entry["metadata"]]
        need(not xxhash or checksum(metadata) == data[96:112], "checksum of its metadata")
        need(not any(data[size:up(size)]), "the bytes before its metadata are not 0")
        return metadata, self.record_layers(entry, data, up(size) + entry["metadata"])

    def record_layers(self, entry, data, end):
        layers, whole = [], self.layer_bytes(entry["tokens"])
        for i in range(self.layers):
            at, size = struct.unpack_from("<QQ", data, HEADER + i * ROW)
            need(at == up(end) and not any(data[end:at]) and at + size <= len(data),
                 "offset of layer %d" % i)
            compressed, end = data[at:at + size], at + size
            need(
                not xxhash
                or checksum(compressed) == data[HEADER + i * ROW + 16:HEADER + (i + 1) * ROW],
                "checksum of layer %d" % i)
            need(size == whole or (entry["compressed"] and size < whole), "bytes of layer %d" % i)
            layers.append(compressed if size == whole else self.decompress(compressed, whole))
        need(end == len(data), "its end")
        return layers

    def decompress(self, compressed, size):
        if not zstandard:
            return None
        planes, wide = zstandard.ZstdDecompressor().decompress(
            compressed, max_output_size=size), WIDE[self.format]
        need(len(planes) == size, "a compressed layer")
        values = size // wide
        out = bytearray(planes)
        for plane in range(wide):
            out[wide - 1 - plane:values * wide:wide] = planes[plane * values:(plane + 1) * values]
        return bytes(out)

    def head(self):
        return {
            "model": self.model.hex(), "layers": self.layers, "heads": self.heads, "causal":
            self.causal, "format": self.format, "next": self.next
        }


def read(folder, out):
    store = Store(folder)
    result = dict(store.head(), records=[], checked=store.checked)
    for entry in store.entries:
        try:
            metadata, layers = store.record(entry)
        except Damaged as error:
            store.bad.append("record %d: %s" % (entry["id"], error))
            continue
        result["records"].append({k: v for k, v in entry.items() if k != "sum"})
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / ("metadata-%d" % entry["id"])).write_bytes(metadata)
            for i, layer in enumerate(layers):
                if layer is not None:
                    (out / ("layer-%d-%d" % (entry["id"], i))).write_bytes(layer)
    result["damaged"] = store.bad
    return result


class Indexes:
    KINDS = ("scan", "flat", "hnsw", "ivf")

    def __init__(self, path):
        data = self.data = path.read_bytes()
        need(len(data) >= 56 and data[:8] == b"PCMEMIDX", "no file of indexes")
        version, count, size, self.projector, *zeros = struct.unpack_from("<IIQQQQ", data, 8)
        end = 48 + 32 * count
        need(
            version == 1 and size == len(data) and not any(zeros) and count <= 1 << 22
            and end + 8 <= size, "version or sizes")
        need(
            not xxhash
            or struct.pack("<Q", xxhash.xxh3_64_intdigest(data[:end])) == data[end:end + 8],
            "checksum of the head")
        self.bad, self.indexes, at, before = [], [], end + 8, (-1, -1)
        for i in range(count):
            tokens, layer, begin, bytes_, total = struct.unpack_from("<IIQQQ", data, 48 + 32 * i)
            need((tokens, layer) > before and begin == at and at + bytes_ <= size,
                 "offset of index %d" % i)
            before, at = (tokens, layer), at + bytes_
            try:
                self.indexes.append(
                    dict(self.index(data[begin:at], total),
                         tokens=tokens,
                         layer=layer,
                         bytes=bytes_))
            except Damaged as error:
                self.bad.append("index of %d tokens, layer %d: %s" % (tokens, layer, error))
        need(at == size, "its end")

    def index(self, data, total):
        need(not xxhash or xxhash.xxh3_64_intdigest(data) == total, "checksum")
        need(len(data) >= 56 and data[:8] == b"pcindex\1", "no index")
        kind, dim, links, build, search, *_, zero, _seed, positions = struct.unpack_from(
            "<II5iIQQ", data, 8)
        need(
            kind < 4 and dim == 128 and not zero
            and positions <= (len(data) - 56) // (16 + 4 * dim), "kind or sizes")
        ids = struct.unpack_from("<%dq" % positions, data, 56)
        living = [number for number in ids if number != -1]
        need(
            len(set(living)) == len(living) and min(living, default=0) >= 0
            and (kind or len(living) == positions), "ids")
        at = 56 + (8 + 4 * dim) * positions
        result = {"kind": self.KINDS[kind], "positions": positions, "records": sorted(living)}
        if kind:
            at = self.parts(data, at, kind, positions, dim, links, result)
        need(at + 8 * positions == len(data), "its end")
        result["prompts"] = {
            str(number): data[at + 8 * i:at + 8 * i + 8].hex()
            for i, number in enumerate(ids) if number != -1
        }
        return result

    @staticmethod
    def parts(data, at, kind, positions, dim, links, result):
        _trained, neighbours, lists, entry, top = struct.unpack_from("<QQQii", data, at)
        at += 32
        if kind == 2:
            levels = struct.unpack_from("<%di" % positions, data, at)
            need(
                neighbours == sum(links * (level + 1) for level in levels)
                and at + 4 * (positions + neighbours) <= len(data), "links")
            need(
                not positions
                or (0 <= entry < positions and levels[entry] == top + 1 == max(levels)), "entry")
            graph, place = struct.unpack_from("<%di" % neighbours, data, at + 4 * positions), 0
            for level in levels:
                for i in range(links * (level + 1)):
                    to, on = graph[place + i], max(0, i // links - 1)
                    need(-1 <= to < positions and (to < 0 or levels[to] > on), "a link")
                place += links * (level + 1)
            return at + 4 * (positions + neighbours)
        if kind == 3:
            need(at + 4 * (positions + lists * dim) <= len(data), "lists")
            need(all(0 <= one < lists for one in struct.unpack_from("<%di" % positions, data, at)),
                 "a vector's list")
            result["lists"] = lists
            return at + 4 * (positions + lists * dim)
        return at


def read_indexes(path):
    file = Indexes(path)
    return {
        "projector": "%016x" % file.projector, "indexes": file.indexes, "checked":
        {"checksums": xxhash is not None}, "damaged": file.bad
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER_OR_INDEX")
    options = parser.parse_args()
    bad = 0
    for folder in options.folders:
        try:
            result = read_indexes(folder) if folder.is_file() else read(folder, options.out)
            print(json.dumps(result))
            bad |= bool(result["damaged"])
        except (Damaged, OSError) as error:
            print("%s: %s" % (folder, error), file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
