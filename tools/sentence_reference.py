#!/usr/bin/env python3
"""Embeddings of a sentence encoder by its own runtime, for test/golden/test_minilm.c to be
compared with.

sentence_reference.py MODEL_FOLDER < texts, one a line > reference.json

Needs the Python package sentence-transformers. The texts' token ids come from the same runtime."""
import json
import sys

from sentence_transformers import SentenceTransformer


def main():
    texts = [line.rstrip("\n") for line in sys.stdin]
    model = SentenceTransformer(sys.argv[1], device="cpu")
    limit = model.max_seq_length
    ids = [model.tokenizer(text, truncation=True, max_length=limit)["input_ids"] for text in texts]
    embeddings = model.encode(texts, convert_to_numpy=True)
    rows = [{"text": text, "ids": row, "embedding": [round(float(x), 7) for x in vector]}
            for text, row, vector in zip(texts, ids, embeddings)]
    print("[" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "]")


main()
