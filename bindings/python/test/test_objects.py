#!/usr/bin/env python3
"""Contexts, models, schemas, prompts and answers. Catches: an option that does not arrive, an error
without place or of another class, an object that crashes when it is closed twice, used afterwards
or freed in any order, a field of the interface that Python does not have."""
import gc
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import promptcache
from promptcache import _api
from support import MODEL, PML, employees, model, modules, run, text_prompt

ANSWER = "The desk of Peter Novak is 368."


class Answers(unittest.TestCase):
    def test_first_and_second_use(self):
        _, prompt = employees()
        cache = promptcache.Cache()
        first, second = prompt.generate(cache), prompt.generate(cache)
        self.assertEqual((first.text, second.text), (ANSWER, ANSWER))
        self.assertEqual((first.stats.tokens_cached, second.stats.tokens_cached), (0, 590))
        self.assertEqual(second.stats.tokens_tier[promptcache.Tier.RAM], 590)
        self.assertIs(second.stats.exactness, promptcache.Exactness.APPROXIMATE)
        self.assertIs(second.finish, promptcache.Finish.STOP_TOKEN)

    def test_stream_gives_the_same(self):
        _, prompt = employees()
        stream = prompt.stream()
        pieces = list(stream)
        self.assertGreater(len(pieces), 1)
        self.assertEqual(pieces[0], "The")
        self.assertEqual("".join(pieces), ANSWER)
        self.assertEqual(stream.text, ANSWER)
        self.assertEqual(stream.stats.tokens_generated, 9)
        self.assertEqual(list(stream), [])

    def test_stream_that_is_left(self):
        with text_prompt().stream(max_tokens=500, ignore_end=True) as stream:
            next(stream)
        self.assertIs(stream.finish, promptcache.Finish.CANCELLED)
        stream.close()
        with self.assertRaises(ValueError):
            text_prompt().stream(samples=2)

    def test_samples_and_sampling(self):
        prompt = text_prompt()
        options = dict(samples=3, max_tokens=8, temperature=1.5, seed=3, ignore_end=True)
        answer = prompt.generate(**options)
        self.assertEqual(len(answer.texts), 3)
        self.assertGreater(len(set(answer.texts)), 1)
        self.assertEqual(prompt.generate(**options).texts, answer.texts)
        options["seed"] = 4
        self.assertNotEqual(prompt.generate(**options).texts, answer.texts)

    def test_logit_bias_and_tokens(self):
        [token] = model().tokenize(" the")[-1:]
        answer = text_prompt().generate(max_tokens=3, logit_bias={token: 100.0}, top_logprobs=2,
                                        ignore_end=True)
        self.assertEqual([one.token for one in answer.tokens], [token] * 3)
        self.assertEqual(len(answer.tokens[0].top_tokens), 2)
        self.assertLess(answer.tokens[0].logprob, 0)

    def test_stop_strings(self):
        _, prompt = employees()
        answer = prompt.generate(stop_strings=["Novak", "nothing"])
        self.assertEqual(answer.text, "The desk of Peter ")
        self.assertIs(answer.finish, promptcache.Finish.STOP_STRING)

    def test_a_stats_object(self):
        stats = text_prompt().generate(max_tokens=2).stats
        self.assertIn("tokens_generated=2", repr(stats))
        self.assertEqual(stats.as_dict()["tokens_generated"], 2)
        self.assertIn("tokens_generated", dir(stats))
        with self.assertRaises(AttributeError):
            stats.tokens_generated = 3
        with self.assertRaises(AttributeError):
            stats.nothing

    def test_messages(self):
        schema, _ = employees()
        prompt = promptcache.Prompt.from_messages(model(), [
            {"role": "system", "content": "", "modules": modules(schema)},
            {"role": "user", "content": "What is the desk of Peter Novak?"}], schema=schema)
        self.assertEqual(prompt.generate().text, ANSWER)
        with self.assertRaises(TypeError):
            promptcache.Prompt.from_messages(model(), "hello")
        with self.assertRaises(TypeError):
            promptcache.Prompt.from_messages(model(), [{"content": "no role"}])

    def test_parts(self):
        _, prompt = employees()
        kinds = {str(part.kind) for part in prompt.parts}
        self.assertEqual(kinds, {"cached", "text"})
        self.assertEqual(len(prompt.tokens), 601)

    def test_builders(self):
        builder = promptcache.SchemaBuilder(model(), "trip")
        with builder.turn("system"):
            with builder.module("city"):
                builder.text("The city is Rome <b>.").parameter("days", 4, scaffold="x")
            with builder.union():
                with builder.module("a"):
                    builder.text("One.")
                with builder.module("b"):
                    builder.text("Two.")
        schema = builder.schema()
        self.assertEqual(modules(schema), ["city", "a", "b"])
        with promptcache.PromptBuilder(schema) as request:
            prompt = request.use("city", days="two").use("b").prompt()
        self.assertEqual([part.path for part in prompt.parts if str(part.kind) == "argument"],
                         ["city/days"])

    def test_format_and_fill(self):
        schema = promptcache.Schema.from_format(
            model(), "<s>{__SYS_PROMPT}|{__USR_PROMPT}", system="Answer.")
        by_text = promptcache.Prompt.fill(schema, "Hello")
        by_tokens = promptcache.Prompt.fill(schema, model().tokenize("Hello"))
        self.assertEqual(by_text.tokens, by_tokens.tokens)

    def test_pictures(self):
        import xml.dom.minidom
        schema, prompt = employees()
        for svg in (schema._repr_svg_(), prompt._repr_svg_()):
            xml.dom.minidom.parseString(svg)
            self.assertGreater(svg.count("<rect"), 10)
        answer = prompt.generate()
        self.assertIn(ANSWER, answer._repr_html_())
        self.assertIn("590 tokens", answer._repr_html_())
        self.assertIn("<table>", answer.stats._repr_html_())
        odd = text_prompt("a\0b \x1b[1m <i>")  # characters that XML has not
        xml.dom.minidom.parseString(odd._repr_svg_())
        xml.dom.minidom.parseString(f"<p>{odd.generate(max_tokens=1)._repr_html_()}</p>")


class Errors(unittest.TestCase):
    def test_classes_and_places(self):
        schema, _ = employees()
        with self.assertRaises(promptcache.PMLError) as caught:
            promptcache.Prompt.parse(schema, '<prompt schema="employees">\n <nobody/></prompt>')
        self.assertEqual((caught.exception.line, caught.exception.column), (2, 2))
        self.assertIn("nobody", str(caught.exception))
        with self.assertRaises(promptcache.NotFoundError) as caught:
            promptcache.Model.load("/nothing.gguf")
        self.assertEqual(caught.exception.name, "PC_ERR_NOT_FOUND")
        self.assertEqual(caught.exception.cause, "not found")
        self.assertIsNone(caught.exception.line)
        with self.assertRaises(promptcache.FormatError):
            promptcache.Prompt.from_messages(
                model(), [{"role": "user", "content": "x"}], variables="{")
        with self.assertRaises(promptcache.CancelledError) as caught:
            text_prompt().generate(cancelled=lambda: True)
        self.assertIsInstance(caught.exception.answer, promptcache.Answer)

    def test_every_code_has_a_class(self):
        codes = [int(code) for code in promptcache.Status if code < 0]
        classes = {error.status for error in promptcache._errors._CLASSES.values()}
        self.assertEqual(classes, {0})  # the code is the error's own
        self.assertEqual(set(promptcache._errors._CLASSES), set(codes))

    def test_keywords(self):
        prompt = text_prompt()
        for options, kind in (({"unknown": 1}, TypeError), ({"max_tokens": "a"}, TypeError),
                              ({"max_tokens": -1}, OverflowError), ({"encoding": "x"}, ValueError),
                              ({"on_text": 3}, TypeError), ({"stop_strings": "abc"}, TypeError),
                              ({"adapter": b"short"}, ValueError)):
            with self.assertRaises(kind, msg=str(options)) as caught:
                prompt.generate(**options)
            self.assertIn(list(options)[0], str(caught.exception)
                          .replace("'x' is no Encoding", "encoding"))
        with self.assertRaises(ValueError):
            promptcache.Cache(disk_path="a\0b")

    def test_constructors_that_say_how(self):
        for kind in (promptcache.Model, promptcache.Schema, promptcache.Prompt,
                     promptcache.Segment):
            with self.assertRaises(TypeError):
                kind()


class Lifetimes(unittest.TestCase):
    def objects(self):
        context = promptcache.Context(threads=1)
        a_model = promptcache.Model.load(MODEL, context=context)
        schema = promptcache.Schema.load(a_model, os.path.join(PML, "employees.pml"))
        prompt = promptcache.Prompt.load(schema, os.path.join(PML, "employees-prompt.pml"))
        cache = promptcache.Cache(context)
        sequence = promptcache.Sequence(prompt, cache, max_tokens=4, keep=True)
        batch = promptcache.Batch(a_model)
        batch.add(sequence)
        batch.step()
        return [context, a_model, schema, prompt, cache, sequence, batch]

    def test_close_in_any_order_twice(self):
        orders = list(itertools.permutations(range(7)))
        for order in orders[::len(orders) // 12]:
            objects = self.objects()
            for index in order:
                objects[index].close()
                objects[index].close()
                self.assertTrue(objects[index].closed)
            del objects
            gc.collect()

    def test_drop_in_any_order(self):
        for order in ([6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6], [1, 4, 0, 3, 6, 2, 5]):
            objects = dict(enumerate(self.objects()))
            for index in order:
                del objects[index]
            gc.collect()

    def test_use_after_close(self):
        context, a_model, schema, prompt, cache, sequence, batch = objects = self.objects()
        for one in objects:
            one.close()
            self.assertIn("closed", repr(one))
        for use in (lambda: a_model.tokenize("x"), lambda: schema.name, lambda: prompt.parts,
                    lambda: prompt.generate(), lambda: cache.stats, lambda: sequence.tokens,
                    lambda: batch.step(), lambda: promptcache.Cache(context),
                    lambda: sequence.push([1]), lambda: schema.items[0],
                    lambda: text_prompt().generate(cache)):
            with self.assertRaises(promptcache.ClosedError):
                use()

    def test_close_while_others_compute(self):
        context, a_model, schema, prompt, cache, sequence, batch = self.objects()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            prompt.generate(cache, max_tokens=60, ignore_end=True)))
        begun = threading.Event()
        begun.set()
        thread.start()
        for one in (prompt, cache, schema, a_model, context):
            one.close()
        thread.join()
        # The thread had its objects, or came too late to use them.
        self.assertTrue(not answers or answers[0].stats.tokens_generated == 60)

    def test_callbacks_close_what_computes(self):
        _, prompt = employees()
        cache = promptcache.Cache()

        def on_text(sample, text):
            prompt.close()
            cache.close()
        self.assertEqual(prompt.generate(cache, on_text=on_text).text, ANSWER)

    def test_many_errors_leak_nothing(self):
        import resource

        def fail():
            for _ in range(300):
                try:
                    promptcache.Schema.parse(model(), "<schema name='a'><b></schema>")
                except promptcache.PMLError:
                    pass
        fail()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(10):
            fail()
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 8000)


class Interface(unittest.TestCase):
    def test_all_constants_and_fields(self):
        """Catches a constant or field of the interface that Python does not have."""
        folder = os.environ.get("PC_API")
        if not folder:
            self.skipTest("PC_API does not name the folder of promptcache.json")
        with open(os.path.join(folder, "promptcache.json"), encoding="utf-8") as file:
            api = json.load(file)
        keywords = {struct: json.dumps([how for how, _, _ in takes.values()], default=str)
                    for struct, takes in _api.TAKES.items()}
        left_out = {"struct_size", "reserved", "allocator", "parallel_for", "parallel_user",
                    "codecs", "codec_count", "bench", "sampling", "format", "format_size", "types",
                    "embeddings", "logits", "segments", "results", "result_stride", "bias_values",
                    "bias_count", "salt_stride", "salt_count", "blocks", "block_bytes",
                    "block_count", "pages", "q", "out", "lse", "rope", "slopes", "sinks", "stream",
                    "q_dtype", "out_dtype", "pool_k", "pool_v", "k_scales", "v_scales",
                    "frequency", "flags", "first_kv_head", "kv_head_count"}
        for struct in api["structs"]:
            if struct["name"] not in keywords:
                continue
            for field in struct["fields"]:
                if field["name"] not in left_out:
                    self.assertIn(f'"{field["name"]}"', keywords[struct["name"]],
                                  f"{struct['name']}.{field['name']}")
        by_name = {}
        for enum in api["enums"]:
            for item in enum["enumerators"]:
                by_name[item["name"]] = item["value"]
        self.assertEqual(promptcache.Reason.KERNELS, by_name["PC_REASON_KERNELS"])
        flags = {how[2] for how, _, _ in _api.TAKES["pc_cache_options"].values()
                 if how[0] == "flag"}
        self.assertEqual(sum(flags), sum(value for name, value in by_name.items()
                                         if name.startswith("PC_CACHE_")))

    def test_documentation_has_the_comments(self):
        text = promptcache.Prompt.generate.__doc__
        for word in ("max_tokens: int", "0: 256; of a sequence: since the last push",
                     "temperature: float", "stop_strings: Sequence[str]"):
            self.assertIn(word, text)
        import inspect
        signature = inspect.signature(promptcache.Prompt.generate)
        self.assertIn("top_p", signature.parameters)
        self.assertNotIn("options", signature.parameters)

    def test_enums_take_later_numbers(self):
        later = promptcache.Reason(4711)
        self.assertEqual((int(later), later.name), (4711, "UNKNOWN_4711"))

    def test_tokens(self):
        for text in ("", "The desk", "ä€𝄞", "a\0b", "<s>"):
            self.assertEqual(model().detokenize(model().tokenize(text)), text)
        self.assertEqual(len(model().tokenize("<s>", special=True)), 1)
        with self.assertRaises(promptcache.InvalidError):
            model().detokenize([10 ** 6])

    def test_log(self):
        lines = []
        context = promptcache.Context(threads=1, log=lambda level, line: lines.append(level))
        promptcache.Model.load(MODEL, context=context, packed_weights="/proc/nowhere")
        self.assertTrue(lines and all(isinstance(one, promptcache.LogLevel) for one in lines))
        logger = logging.getLogger("promptcache.test")
        with self.assertLogs(logger, logging.DEBUG):
            promptcache.Model.load(MODEL, packed_weights="/proc/nowhere",
                                   context=promptcache.Context(threads=1, log=logger))
        with self.assertRaises(promptcache.UnsupportedError):
            promptcache.Context(backend="nowhere")

    def test_cache_is_written_at_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import promptcache, sys\n"
                    "model = promptcache.Model.load(sys.argv[1])\n"
                    "schema = promptcache.Schema.load(model, sys.argv[2])\n"
                    "cache = promptcache.Cache(disk_path=sys.argv[3])\n"
                    "schema.encode(cache)\n")
            subprocess.run([sys.executable, "-c", code, MODEL, os.path.join(PML, "employees.pml"),
                            folder], check=True)
            schema, prompt = employees()
            with promptcache.Cache(disk_path=folder, always_load=True,
                                   deadline_seconds=60) as cache:
                self.assertGreater(prompt.generate(cache).stats.tokens_tier[
                    promptcache.Tier.DISK], 500)

    def test_folders_and_files(self):
        schema, _ = employees()
        with tempfile.TemporaryDirectory() as path:
            with promptcache.Cache(disk_path=path) as cache:
                schema.encode(cache)
            folder = promptcache.Folder(path)
            records = list(folder)
            self.assertGreater(len(records), 10)
            self.assertEqual({record.architecture for record in records}, {"llama"})
            self.assertEqual(len(folder.tokens(0)), records[0].tokens)
            folder.verify(0)
            folder.remove(0)
            with self.assertRaises(promptcache.NotFoundError):
                folder.verify(0)
            self.assertGreater(folder.trim(0), 1000)
            with self.assertRaises(IndexError):
                folder[len(records)]
        file = promptcache.ModelFile(MODEL)
        words = file.model
        file.close()
        self.assertEqual(words.detokenize(words.tokenize("The desk")), "The desk")
        self.assertIsNone(promptcache.ModelFile(MODEL).refusal)

    def test_systems(self):
        systems = promptcache.Systems(model(), promptcache.Cache())
        schema, _ = employees()
        systems.fill("text", "Answer.")
        systems.fill("tokens", model().tokenize("Answer."))
        systems.fill("schema", schema)
        self.assertEqual(list(systems), ["text", "tokens", "schema"])
        self.assertEqual(systems["schema"].length, schema.length)
        self.assertGreater(systems.infos[2].pinned, 10)
        del systems["text"]
        self.assertNotIn("text", systems)
        for use in (lambda: systems["text"], lambda: systems.__delitem__("text")):
            with self.assertRaises(KeyError):
                use()
        systems.clear()
        self.assertEqual(len(systems), 0)

    def test_the_program(self):
        path = os.environ.get("PROMPTCACHE_PROGRAM")
        if not path or not os.access(path, os.X_OK):
            self.skipTest("the program is not built")
        said = subprocess.run([sys.executable, "-m", "promptcache", "--version"], check=True,
                              capture_output=True, text=True).stdout
        self.assertIn(promptcache.__version__, said)


if __name__ == "__main__":
    run()
