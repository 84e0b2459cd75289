#!/usr/bin/env python3
"""A conversation over files, by a model of transformers: the files are modules, whose states are
computed once and come from the folder next time.

usage: transformers_chat.py MODEL FOLDER FILE... < questions
  MODEL   name on the hub, or a folder, of a causal language model with a chat template
  FOLDER  of the cache; it is made
Each line of the standard input is a question."""
import os
import sys

if len(sys.argv) < 4:
    print(__doc__, file=sys.stderr)
    sys.exit(2)
try:
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError:
    print("transformers_chat: torch and transformers are not installed")
    sys.exit(77)
import promptcache
from promptcache.transformers import Host

name, folder, *files = sys.argv[1:]
host = Host(AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name))
cache = promptcache.Cache(disk_path=folder)

builder = promptcache.SchemaBuilder(host.model, "files")
for number, path in enumerate(files):
    with open(path, encoding="utf-8") as file, builder.module(f"file{number}"):
        builder.text(f"File {os.path.basename(path)}:\n{file.read()}\n")
schema = builder.schema()

sequence, batch = None, promptcache.Batch(host.model)
for question in sys.stdin:
    message = {"role": "user", "content": question.strip()}
    if sequence is None:  # the first question brings the files along
        message["modules"] = [f"file{number}" for number in range(len(files))]
        prompt = promptcache.Prompt.from_messages(host.model, [message], schema=schema)
        sequence = batch.add(promptcache.Sequence(prompt, cache, keep=True, max_tokens=60))
    else:
        sequence.push_messages([message])
    batch.run()
    print(sequence.text.strip())
stats = sequence.stats
print(f"{stats.tokens_cached} of {stats.tokens_prompt} tokens of the prompt came from the cache")
