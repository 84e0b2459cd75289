#!/usr/bin/env python3
"""Reads records (doc/format.md, "Records") without the library: a second reader, made from the
document.

usage: read_record.py [--key HEX] [--tokens FILE] [--blocks FOLDER] RECORD ...

Prints the header of each record as a line of JSON. A name as those of a folder's records has to
fit what is in it. Checksums need the module xxhash, seals nacl (PyNaCl), the codec zstd zstandard;
what cannot be checked is
said in "checked".
--key HEX        32 bytes: opens sealed records
--tokens FILE    writes the token ids, i32 little-endian ("-": none are printed, for long records)
--blocks FOLDER  writes each block to FOLDER/block-N: raw and zstd as they were, other codecs as
their codec left them

exit: 0 all records are whole, 1 a record is damaged or cannot be read, 2 usage
"""
import argparse
import hashlib
import json
import pathlib
import re
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None
try:
    import nacl.bindings as nacl
except ImportError:
    nacl = None

try:
    import zstandard
except ImportError:
    zstandard = None

MAGIC = bytes.fromhex("89504352 0d0a1a0a")
PROLOGUE, FACE, ENTRY, DESCRIPTION, DESCRIPTION_1, ALIGN = 64, 232, 72, 112, 144, 4096
SEALED, HAS_CONTENT, HAS_PARENT, LOSSY = 1, 1, 2, 4
TAG_DESCRIPTION, TAG_TOKENS, TAG_RELATIVE, TAG_CODEC, TAG_IDS, TAG_NEEDED = 1, 2, 3, 4, 5, 1 << 31
PIECES, NAMES, SALTS, CONTENTS, KEY_ID = 1, 2, 3, 4, 5  # purposes of subkeys
RAW, ZSTD = 1, 2
LAYOUT_PAGES, PAGE, CHUNK = 1, 64, 32768
F32, BF16, F16, I8 = 1, 2, 3, 4
LATENT = 2  # layout: pages of K alone
CODED = 1 << 31


class Damaged(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Damaged(what)


def subkey(key, purpose, size=32):
    return hashlib.blake2b(b"", digest_size=size, key=key, person=b"pcrecord",
                           salt=struct.pack("<Q", purpose)).digest()


def keyed(key, purpose, data):
    return hashlib.blake2b(data, digest_size=32, key=subkey(key, purpose)).digest()


def checksum(data):
    return xxhash.xxh3_128_digest(data)[::-1] if xxhash else None


def without(data, at, size):
    return data[:at] + bytes(size) + data[at + size:]


def unseal(sealed, beside, nonce, key, what):
    need(nacl, what + " is sealed: the module nacl is needed to open it")
    try:
        return nacl.crypto_aead_xchacha20poly1305_ietf_decrypt(
            sealed, beside, nonce, subkey(key, PIECES))
    except Exception:
        raise Damaged(what + ": the seal does not open") from None


class Coded:
    """What a codec wrote: runs of byte planes, one after the other ("Codecs")."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        need(size <= len(self.data) - self.at, "codec: cut short")
        self.at += size
        return self.data[self.at - size:self.at]

    def plane(self, size):
        word, = struct.unpack("<I", self.take(4))
        data = self.take(word & ~CODED)
        if word & CODED:
            need(zstandard, "codec zstd: the module zstandard is needed")
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        need(len(data) == size, "codec: a plane of %d bytes, not %d" % (len(data), size))
        return data

    def run(self, size, wide):
        out, left = bytearray(), size // wide
        while left:
            count = min(left, CHUNK)
            planes = [self.plane(count) for _ in range(wide)]
            for value in zip(*planes):
                number = int.from_bytes(value, "big")
                if wide > 1:
                    number = number >> 1 | (number & 1) << 8 * wide - 1
                out += number.to_bytes(wide, "little")
            left -= count
        return bytes(out) + self.take(size % wide)


def round_up(value, to):
    return (value + to - 1) // to * to


class Pages:
    """A block of layout 1 or 2 ("K/V pages"): what of the last page belongs to tokens."""

    def __init__(self, head):
        self.heads, self.wide = head["kv_heads"], {F32: 4, BF16: 2, F16: 2, I8: 1}[head["dtype"]]
        self.group = 4 // self.wide
        dk, dv = head["k_dim"], 0 if head["layout"] == LATENT else head["v_dim"]
        self.rows = round_up(dk, self.group) // self.group
        self.k_values = self.rows * self.group * PAGE * self.wide
        self.v_values = dv * PAGE * self.wide
        self.dv = dv
        self.k_bytes = round_up(self.k_values + (2 * dk if head["dtype"] == I8 else 0), 64)
        self.page = self.k_bytes + round_up(
            self.v_values + (2 * PAGE if dv and head["dtype"] == I8 else 0), 64)
        self.last = (head["tokens"] - 1) % PAGE + 1

    def parts(self):
        """(offset, bytes) of a head's last page that are kept when it is closed up."""
        row = self.group * PAGE * self.wide
        for i in range(self.rows):
            yield i * row, self.group * self.last * self.wide
        yield self.k_values, self.k_bytes - self.k_values
        yield self.k_bytes, round_up(self.last, self.group) * self.dv * self.wide
        yield self.k_bytes + self.v_values, self.page - self.k_bytes - self.v_values

    def open_up(self, closed):
        out, at = bytearray(self.heads * self.page), 0
        for head in range(self.heads):
            for offset, size in self.parts():
                out[head * self.page + offset:head * self.page + offset + size] = closed[at:at +
                                                                                         size]
                at += size
        return bytes(out)


def unzstd(data, size, head):
    wide, closed = data[0], data[1]
    need(
        len(data) >= 4 and wide in (1, 2, 4) and closed <= 1 and not any(data[2:4]),
        "codec zstd: its first bytes")
    coded = Coded(data[4:])
    if closed:
        pages = Pages(head)
        before = size - pages.heads * pages.page
        out = coded.run(before, wide)
        out += pages.open_up(coded.run(pages.heads * sum(part for _, part in pages.parts()), wide))
    else:
        out = coded.run(size, wide)
    need(coded.at == len(coded.data),
         "codec zstd: %d bytes too many" % (len(coded.data) - coded.at))
    return out


class Record:
    def __init__(self, data, key=None):
        self.data, self.key, self.head = data, key, {}
        self.checked = {"checksums": bool(xxhash), "seals": False, "zstd": bool(zstandard)}
        self.read_prologue()
        self.check_header()
        self.read_face()
        self.read_table()
        self.opened = not self.sealed or key is not None
        if self.opened:
            self.read_body(self.open_body())

    def read_prologue(self):
        need(len(self.data) >= PROLOGUE, "no record: %d bytes" % len(self.data))
        need(self.data[:8] == MAGIC, "no record: the first bytes are others")
        major, minor = struct.unpack_from("<HH", self.data, 8)
        need(major in (1, 2), "major version %d" % major)
        (self.header_bytes, record_bytes, self.flags, self.face_bytes, self.block_count,
         self.entry_bytes, self.body_bytes) = struct.unpack_from("<IQIIIII", self.data, 12)
        need(not self.flags & 0xffff & ~SEALED, "flags %#x" % self.flags)
        self.sealed, self.major = bool(self.flags & SEALED), major
        need(major == 2 or not self.sealed, "a sealed record of version 1, which shows its ids")
        self.clear = PROLOGUE + self.face_bytes + self.block_count * self.entry_bytes
        need(self.face_bytes >= FACE and self.entry_bytes >= ENTRY, "parts of the header")
        need(not (self.face_bytes % 8 or self.entry_bytes % 8 or self.body_bytes % 8),
             "parts of the header")
        need(
            self.block_count <= 65536
            and self.header_bytes == self.clear + self.body_bytes <= 1 << 29, "bytes of the header")
        need(record_bytes == len(self.data) >= self.header_bytes,
             "%d bytes, it says %d" % (len(self.data), record_bytes))
        self.head.update(version=[major, minor],
                         sealed=self.sealed,
                         header_bytes=self.header_bytes,
                         file_bytes=record_bytes)

    def check_header(self):
        if xxhash:
            header = self.data[:self.header_bytes]
            need(checksum(without(header, 48, 16)) == header[48:64], "checksum of the header")

    def read_face(self):
        ids = [self.data[PROLOGUE + 32 * i:PROLOGUE + 32 * i + 32].hex() for i in range(4)]
        (bits, priority, cost, ttl, expires, written, state_bytes, tokens,
         codec) = struct.unpack_from("<IiddqqQQI", self.data, PROLOGUE + 128)
        need(0 <= cost < float("inf") and 0 <= ttl < float("inf"), "cost or time to live")
        need(tokens <= 1 << 25, "%d tokens" % tokens)
        self.key_id = self.data[PROLOGUE + 192:PROLOGUE + 208]
        self.nonce = self.data[PROLOGUE + 208:PROLOGUE + 232]
        self.head.update(seal_id=self.key_id.hex() if self.sealed else "",
                         key=ids[0],
                         salt=ids[1],
                         content=ids[2] if bits & HAS_CONTENT else "",
                         parent=ids[3] if bits & HAS_PARENT else "",
                         lossy=bool(bits & LOSSY),
                         priority=priority,
                         cost=cost,
                         ttl=ttl,
                         expires=expires,
                         written=written,
                         state_bytes=state_bytes,
                         tokens=tokens,
                         codec=codec)

    def read_table(self):
        self.blocks, end, tag = [], self.header_bytes, 16 if self.sealed else 0
        for i in range(self.block_count):
            at = PROLOGUE + self.face_bytes + i * self.entry_bytes
            offset, stored, raw, codec = struct.unpack_from("<QQQI", self.data, at)
            what = "block %d: " % i
            need(raw <= 1 << 40 and tag <= stored <= raw + tag and raw <= (stored - tag) << 18,
                 what + "bytes")
            need(codec in (RAW, self.head["codec"]) and (codec != RAW or stored == raw + tag),
                 what + "codec")
            if stored:
                need(offset % ALIGN == 0 and end <= offset and offset + stored <= len(self.data),
                     what + "place")
                need(not any(self.data[end:offset]), what + "something lies before it")
                end = offset + stored
            self.blocks.append({
                "offset": offset, "stored": stored, "bytes": raw, "codec": codec, "checksum":
                self.data[at + 32:at + 48], "nonce": self.data[at + 48:at + 72]
            })
            if xxhash:
                need(checksum(self.stored(i)) == self.blocks[i]["checksum"], what + "checksum")
        need(end == len(self.data), "the last block ends at %d" % end)
        need(sum(b["bytes"] for b in self.blocks) == self.head["state_bytes"], "bytes of states")
        self.head["blocks"] = [{k: b[k]
                                for k in ("offset", "stored", "bytes", "codec")}
                               for b in self.blocks]
        self.head["block_bytes"] = [b["bytes"] for b in self.blocks]
        self.shown_key = bytes(self.data[PROLOGUE:PROLOGUE + 32])

    def stored(self, index):
        block = self.blocks[index]
        return self.data[block["offset"]:block["offset"] + block["stored"]]

    def open_body(self):
        body = self.data[self.clear:self.header_bytes]
        if not self.sealed:
            return body
        need(subkey(self.key, KEY_ID, 16) == self.key_id, "sealed with another key")
        beside = without(without(self.data[:self.clear], 48, 16), PROLOGUE + 208, 24)
        self.checked["seals"] = True
        return unseal(body, beside, self.nonce, self.key, "header")

    def read_body(self, body):
        fields, at, last = {}, 0, -1
        while at < len(body):
            need(len(body) - at >= 16, "end of the body")
            tag, _, size = struct.unpack_from("<IIQ", body, at)
            need(tag > last and (size + 7) // 8 * 8 <= len(body) - at - 16, "field %d" % tag)
            need(tag in (1, 2, 3, 4, 5) or not tag & TAG_NEEDED, "field %d has to be known" % tag)
            fields[tag] = body[at + 16:at + 16 + size]
            at, last = at + 16 + (size + 7) // 8 * 8, tag
        need(all(tag in fields for tag in (TAG_DESCRIPTION, TAG_TOKENS, TAG_CODEC)),
             "description, tokens or codec are missing")
        self.read_description(fields[TAG_DESCRIPTION])
        tokens, name = self.head["tokens"], fields[TAG_CODEC]
        need(len(fields[TAG_TOKENS]) == 4 * tokens, "token ids")
        self.head["token_ids"] = list(struct.unpack("<%di" % tokens, fields[TAG_TOKENS]))
        self.head["relative"] = None
        if TAG_RELATIVE in fields:
            need(len(fields[TAG_RELATIVE]) == 8 * tokens, "relative positions")
            self.head["relative"] = list(struct.unpack("<%dq" % tokens, fields[TAG_RELATIVE]))
        need(1 <= len(name) <= 31 and 0 not in name, "name of the codec")
        self.head["codec_name"] = name.decode(errors="replace")
        if self.sealed:
            need(TAG_IDS in fields, "ids are missing")
            self.read_ids(fields[TAG_IDS])

    def read_ids(self, data):
        """The face shows them keyed."""
        need(len(data) >= 160 and 0 in data[128:160], "ids")
        key, salt, content, parent, own = (data[i:i + 32] for i in range(0, 160, 32))
        shown = {
            "key": keyed(self.key, NAMES, key + own), "salt": keyed(self.key, SALTS, salt),
            "content": keyed(self.key, CONTENTS, content), "parent": keyed(
                self.key, NAMES, parent + own)
        }
        for name, value in zip(shown, (key, salt, content, parent)):
            if self.head[name]:
                need(self.head[name] == shown[name].hex(), "it shows another %s" % name)
                self.head[name] = value.hex()
        self.head["own_kernels"] = own.split(b"\0")[0].decode(errors="replace")

    def read_description(self, data):
        need(len(data) >= DESCRIPTION and 0 in data[32:64], "description")
        names = ("position_scheme", "dtype", "layout", "encoding", "regime", "origin", "layers",
                 "kv_heads", "k_dim", "v_dim")
        self.head.update(model=data[:32].hex(),
                         architecture=data[32:64].split(b"\0")[0].decode(errors="replace"))
        self.head.update(zip(names, struct.unpack_from("<IIIIQqiiii", data, 64)))
        kernels = data[DESCRIPTION:DESCRIPTION_1] if len(data) >= DESCRIPTION_1 else b"\0"
        need(0 in kernels, "name of the kernels")
        self.head["kernels"] = kernels.split(b"\0")[0].decode(errors="replace")

    def block(self, index):
        """As it was, or as its codec left it."""
        block, data = self.blocks[index], self.unsealed(index)
        return unzstd(data, block["bytes"],
                      self.head) if block["codec"] == ZSTD and zstandard else data

    def unsealed(self, index):
        block = self.blocks[index]
        if not self.sealed:
            return self.stored(index)
        beside = MAGIC + struct.pack("<HHI32sQII", self.major, 0, 1 + index, self.shown_key,
                                     block["bytes"], block["codec"], 0)
        return unseal(self.stored(index), beside, block["nonce"], self.key, "block %d" % index)


def check_name(name, head, shown_key):
    """A file of a folder of records: its key, and its seal ("The folder")."""
    parts = re.fullmatch(r"([0-9a-f]{64})(?:\.([0-9a-z+.-]{1,63}))?\.pcr", name)
    if not parts:
        return
    seal = re.match(r"[0-9a-f]{32}(?=\.|$)", parts[2] or "")
    need(parts[1] == shown_key.hex(), "its name says another key")
    need((seal[0] if seal else "") == head["seal_id"], "its name says another seal than it has")


def read(path, key, options):
    record = Record(path.read_bytes(), key)
    check_name(path.name, record.head, record.shown_key)
    if record.opened:
        blocks = [record.block(i) for i in range(record.block_count)]
        if options.blocks:
            folder = pathlib.Path(options.blocks)
            folder.mkdir(parents=True, exist_ok=True)
            for i, data in enumerate(blocks):
                (folder / ("block-%d" % i)).write_bytes(data)
        if options.tokens:
            ids = record.head.pop("token_ids")
            if options.tokens != "-":
                pathlib.Path(options.tokens).write_bytes(struct.pack("<%di" % len(ids), *ids))
    record.head["checked"] = record.checked
    if not xxhash:
        print("%s: checksum not checked (no module xxhash)" % path, file=sys.stderr)
    return record.head


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", type=bytes.fromhex)
    parser.add_argument("--tokens")
    parser.add_argument("--blocks")
    parser.add_argument("records", nargs="+", type=pathlib.Path, metavar="RECORD")
    options = parser.parse_args()
    bad = 0
    for path in options.records:
        try:
            print(json.dumps(read(path, options.key, options)))
        except (Damaged, OSError) as error:
            print("%s: %s" % (path, error), file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
