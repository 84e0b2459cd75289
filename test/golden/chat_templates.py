#!/usr/bin/env python3
"""Makes chat.json: what published chat templates make of conversations.

    chat_templates.py FOLDER >chat.json

FOLDER holds the Jinja texts (NAME.jinja, as PUBLISHED below names them), as they stand in
tokenizer_config.json of the models, or in a project that carries them. They belong to others and
are not part of this repository. chat.json has the SHA-256 of each and the strings that jinja2, set
up as transformers does, makes of it. It has the full texts under OURS, which are our own.
"""
import hashlib
import json
import os
import re
import sys

from jinja_peer import TemplateError, environment

S = ("system", "You are the desk of Harbor House.\nAnswer in one line.")
U1 = ("user", "What is the desk of Peter Novak?")
A1 = ("assistant", "It is 368.")
U2 = ("user", "And of Rosa Silva,\n\nplease?")
A2 = ("assistant", "Nobody knows.")
U3 = ("user", "Why?")
TALKS = {
    "one turn": [U1],
    "one turn, system": [S, U1],
    "two turns": [U1, A1, U2],
    "three turns, system": [S, U1, A1, U2, A2, U3],
}

DEEPSEEK = ("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
LLAMA = ("<s>", "</s>")
LLAMA3 = ("<|begin_of_text|>", "<|eot_id|>")
CHATML = (None, "<|im_end|>")
PHI3 = ("<s>", "<|endoftext|>")

# file, whose template it is, its family or "own" (like none), (bos, eos). With "own" as a fifth: of
# the family but for a default system prompt, or without one; what is read off it is its own.
PUBLISHED = [
    ("unsloth-llama_template", "Llama 2", "llama2", LLAMA),
    ("axolotl-llama3", "Llama 3", "llama3", LLAMA3),
    ("llama.cpp-test-Llama-3", "Llama 3, first published", "llama3", LLAMA3),
    ("meta-llama-Llama-3.1-8B-Instruct", "Llama 3.1", "llama3.1", LLAMA3),
    ("meta-llama-Llama-3.2-3B-Instruct", "Llama 3.2", "llama3.1", LLAMA3),
    ("meta-llama-Llama-3.3-70B-Instruct", "Llama 3.3", "llama3.1", LLAMA3),
    ("axolotl-llama4", "Llama 4", "llama4", ("<|begin_of_text|>", "<|eot|>")),
    ("llama.cpp-test-teknium-OpenHermes-2.5-Mistral-7B", "OpenHermes 2.5", "chatml", CHATML),
    ("unsloth-chatml_template", "ChatML", "chatml", CHATML),
    ("axolotl-chatml", "ChatML", "chatml", CHATML),
    ("llama.cpp-vocab-qwen2", "Qwen 1.5", "own", CHATML),
    ("axolotl-qwen2_vl", "Qwen 2, Qwen 2 VL", "qwen2", CHATML),
    ("Qwen-Qwen2.5-7B-Instruct", "Qwen 2.5", "qwen2.5", CHATML),
    ("Qwen-Qwen3-0.6B", "Qwen 3", "qwen3", CHATML),
    ("unsloth-qwen3_instruct_template", "Qwen 3 2507", "qwen3", CHATML),
    ("Qwen-QwQ-32B", "QwQ", "own", CHATML),
    ("SmolLM2", "SmolLM2", "own", CHATML),
    ("axolotl-falcon_h1", "Falcon H1", "chatml", CHATML),
    ("unsloth-yi_chat_template", "Yi", "chatml", CHATML),
    ("axolotl-mistral_v1", "Mistral v0.1, v0.2", "mistral-v1", LLAMA),
    ("llama.cpp-test-mistralai-Mistral-7B-Instruct-v0.2-mistralai-v1-template-with-a-system-prompt",
     "Mistral v0.2", "mistral-v1", LLAMA),
    ("llama.cpp-test-mistralai-Mistral-7B-Instruct-v0.2-NOTE-Old-pre-v1-without-a-system-prompt",
     "Mistral v0.2, first published", "own", LLAMA),
    ("axolotl-mistral_v2v3", "Mistral v0.3", "mistral-v3", LLAMA),
    ("optimum-intel-Mistral-7B-Instruct-v0.3", "Mistral v0.3", "mistral-v3", LLAMA),
    ("mistralai-Mistral-Nemo-Instruct-2407", "Mistral Nemo", "mistral-v3-tekken", LLAMA),
    ("axolotl-mistral_v3_tekken", "Mistral Nemo", "mistral-v3-tekken", LLAMA),
    ("llama.cpp-test-mistralai-Mistral-Large-Instruct-2411-mistralai-v7-template",
     "Mistral Large 2411", "mistral-v7", LLAMA),
    ("axolotl-mistral_v7_tekken", "Mistral Small 2501", "mistral-v7-tekken", LLAMA, "own"),
    ("Mistral-Small-3.2-24B-Instruct-2506", "Mistral Small 3.2", "mistral-v7-tekken", LLAMA,
     "own"),
    ("microsoft-Phi-3.5-mini-instruct", "Phi 3.5", "phi3", PHI3),
    ("llama.cpp-test-Phi-3-vision", "Phi 3 vision", "phi3", PHI3),
    ("llama.cpp-test-Phi-3-mini", "Phi 3 mini, first published", "own", PHI3),
    ("Phi-4-mini-instruct", "Phi 4 mini", "phi4-mini", ("<|endoftext|>", "<|endoftext|>")),
    ("llama.cpp-test-phi-4", "Phi 4", "phi4", (None, "<|im_end|>")),
    ("unsloth-phi4_template", "Phi 4", "phi4", (None, "<|im_end|>")),
    ("google-gemma-2-2b-it", "Gemma 2", "gemma", ("<bos>", "<eos>"), "own"),
    ("axolotl-gemma3", "Gemma 3", "gemma", ("<bos>", "<eos>")),
    ("axolotl-gemma3n", "Gemma 3n", "gemma", ("<bos>", "<eos>")),
    ("llama.cpp-test-CohereForAI-c4ai-command-r-plus", "Command R+", "command-r",
     ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>")),
    ("axolotl-cohere", "Command R", "command-r", ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>")),
    ("llama.cpp-test-ibm-granite-granite-3.0-8b-instruct", "Granite 3.0", "granite",
     (None, "<|end_of_text|>")),
    ("ibm-granite-granite-3.3-2B-Instruct", "Granite 3.3", "granite", (None, "<|end_of_text|>"),
     "own"),
    ("llama.cpp-test-DeepSeek-V2", "DeepSeek V2", "deepseek", DEEPSEEK),
    ("llama.cpp-test-deepseek-ai-deepseek-coder-33b-instruct", "DeepSeek Coder", "deepseek-coder",
     (DEEPSEEK[0], "<|EOT|>")),
    ("axolotl-deepseek_v3", "DeepSeek V3", "deepseek-v3", DEEPSEEK),
    ("llama-cpp-deepseek-r1", "DeepSeek R1 (llama.cpp)", "own", DEEPSEEK),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "DeepSeek R1 distilled", "deepseek-r1", DEEPSEEK),
    ("unsloth-zephyr_template", "Zephyr", "zephyr", LLAMA),
    ("optimum-intel-falcon3-7b-instruct", "Falcon 3", "falcon3", (None, "<|endoftext|>")),
    ("unsloth-vicuna_template", "Vicuna", "vicuna", LLAMA, "own"),
    ("unsloth-alpaca_template", "Alpaca", "alpaca", LLAMA, "own"),
    ("axolotl-nemotron_h", "Nemotron H", "chatml", CHATML),
    ("axolotl-exaone", "EXAONE", "own", (None, "[|endofturn|]")),
    ("llama.cpp-test-openchat-openchat-3.5-0106", "OpenChat 3.5", "own",
     ("<s>", "<|end_of_turn|>")),
]

LOOP = "{% for m in messages %}"
OURS = [
    ("role tags",
     "{{ bos_token }}" + LOOP + "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}", "own", ("<s>", "<|end|>")),
    ("phi4-mini form",
     LOOP + "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}", "phi4-mini",
     (None, "<|endoftext|>")),
    ("names and numbers", """{%- set ns = namespace(turn=0, texts=[]) -%}
{#- a comment with {{ braces }} -#}
{%- macro turn(name, text, n=1) -%}
[{{ name|upper }} {{ n }}] {{ text | trim }}
{%- endmacro -%}
{%- for message in messages if message.content is defined -%}
    {%- if message.role == 'user' -%}
        {%- set ns.turn = ns.turn + 1 -%}
        {{- turn('ask', message.content) ~ '\\n' -}}
    {%- elif message['role'] in ['assistant', 'model'] -%}
        {{- turn(name='say', text=message.content, n=2 - 1) + "\\n" -}}
    {%- else -%}
        {{- 'Notes: %s' | replace('%s', message.content) + '\\n' -}}
    {%- endif -%}
    {%- if loop.last and add_generation_prompt and not tools %}[SAY 1] {% endif -%}
{%- endfor -%}
""", "own", (None, None)),
    ("system set aside", """{% if messages[0].role == 'system' %}
  {% set first = messages[0]['content'] %}
  {% set rest = messages[1:] %}
{% else %}
  {% set first = "Be kind." if bos_token is defined else '' %}
  {% set rest = messages | rejectattr('role', 'equalto', 'system') | list %}
{% endif %}
{{ bos_token }}<<{{ first }}>>
{% for x in rest %}
  {% set who = 'Q' if loop.index0 is even else 'A' %}
{{ who }}: {{ x.content }}{{ eos_token if who == 'A' else '' }}
{% endfor %}
{% if add_generation_prompt and rest[-1]['role'] != 'assistant' %}
A: {%+ endif %}""", "own", ("<s>", "</s>")),
    ("no system prompt", LOOP + "{% if m.role == 'system' %}"
     "{{ raise_exception('no system prompts') }}{% endif %}"
     "{{ '<|' ~ m.role ~ '|>' ~ m.content ~ eos_token }}{% endfor %}"
     "{{ '<|assistant|>' if add_generation_prompt }}", "own", (None, "</s>")),
    ("drops the system prompt", LOOP + "{% if m.role != 'system' %}"
     "{{ '<|' ~ m.role ~ '|>' ~ m.content ~ eos_token }}{% endif %}{% endfor %}"
     "{{ '<|assistant|>' if add_generation_prompt }}", "own",
     (None, "</s>")),
    ("thinks", LOOP + "{% set c = m.content.split('</think>')[-1].lstrip('\\n') %}"
     "{{ '<|' + m.role + '|>' + c + eos_token }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|><think>\\n' }}{% endif %}", "own",
     (None, "</s>")),
    ("blocks", "{% set head %}<|begin|>{% endset %}{{ head }}" + LOOP +
     "{%- if loop.index > 40 %}{% break %}{% endif -%}{% generation %}"
     "<|{{ m.get('role', 'user')|capitalize }}|>{{ m.content }}{% endgeneration %}"
     "{{ '</s>' if m.role == 'assistant' else '\\n\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}<|Assistant|>{% endif %}", "own", (None, "</s>")),
    ("harmony form", """{%- macro opening(effort) -%}
<|start|>system<|message|>{{ "You write." if model_identity is not defined }}
{{ "Effort: " ~ effort }}<|end|>
{%- endmacro -%}
{%- if reasoning_effort is not defined %}{% set reasoning_effort = "medium" %}{% endif -%}
{%- set first = messages[0] -%}
{{- opening(reasoning_effort) -}}
{%- if first.role in ["developer", "system"] -%}
    {%- set words = first.content -%}{%- set rest = messages[1:] -%}
    {{- "<|start|>developer<|message|># Instructions\n\n" + words + "<|end|>" -}}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for m in rest -%}
    {%- if m.role == "assistant" -%}
        {%- if "thinking" in m and not loop.last -%}
            {{- "<|start|>assistant<|channel|>analysis<|message|>" + m.thinking + "<|end|>" -}}
        {%- endif -%}
        {{- "<|start|>assistant<|channel|>final<|message|>" + m.content + "<|end|>" -}}
    {%- else -%}
        {{- "<|start|>" + m.role + "<|message|>" + m.content + "<|end|>" -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant<|channel|>final<|message|>{%- endif -%}
""", "own", ("<|startoftext|>", "<|end|>")),
    ("smollm3 form", """{%- if enable_thinking is not defined %}
{%- set enable_thinking = true %}
{%- endif %}
{%- set mode = "/think" if enable_thinking else "/no_think" %}
{%- if messages[0].role == "system" %}
  {%- set said = messages[0].content.replace("/no_think", "").rstrip() %}
  {%- set mode = "/no_think" if "/no_think" in messages[0].content else mode %}
{%- endif %}
{{- "<|im_start|>system\n## Mode: " ~ mode ~ "\n\n" }}
{%- if said %}{{- said ~ "\n\n" }}{% else %}{{- "Be kind.\n\n" }}{% endif %}
{{- "<|im_end|>\n" }}
{%- for m in messages %}
  {%- set content = m.content if m.content is string else "" %}
  {%- if m.role == "user" %}{{ "<|im_start|>user\n" + content + "<|im_end|>\n" }}
  {%- elif m.role == "assistant" %}
    {%- generation %}{{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
    {%- endgeneration %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\n" }}{% endif %}""", "own",
     (None, "<|im_end|>")),
    ("olmo2 form", "{{ bos_token }}" + LOOP +
     "{% if m['role'] == 'assistant' %}{% if not loop.last %}"
     "{{ '<|assistant|>\n' + m['content'] + eos_token + '\n' }}{% else %}"
     "{{ '<|assistant|>\n' + m['content'] + eos_token }}{% endif %}{% else %}"
     "{{ '<|' + m['role'] + '|>\n' + m['content'] + '\n' }}{% endif %}"
     "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
     "{% endfor %}", "own", ("<|endoftext|>", "<|endoftext|>")),
    ("counts its turns", LOOP + "{{ loop.index ~ '. ' ~ m.content ~ '\\n' }}{% endfor %}", None,
     LLAMA),
    ("system prompt last", LOOP + "{% if m.role != 'system' %}{{ '[' + m.content + ']' }}"
     "{% endif %}{% endfor %}"
     "{{ messages[0].content if messages[0].role == 'system' else '' }}>", None, LLAMA),
    ("hides what users say", LOOP + "{{ '<' + m.role + '>' }}{% endfor %}", None, LLAMA),
    ("says it twice", LOOP + "{{ m.content + m.content }}{% endfor %}", None, LLAMA),
    ("not closed", LOOP + "{{ m.content }}", None, LLAMA),
    ("a filter that is not known", LOOP + "{{ m.content | wordwrap(20) }}{% endfor %}", None,
     LLAMA),
    ("refuses all", "{{ raise_exception('not today') }}", None, LLAMA),
    ("never ends", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
     None, LLAMA),
]


def render(text, talk, bos, eos):
    """None: it refuses. A date that cannot be avoided counts as a refusal, for it changes."""
    dated = []
    values = {"messages": [{"role": r, "content": c} for r, c in talk], "tools": None,
              "documents": None, "add_generation_prompt": True}
    values.update({k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v is not None})
    if "strftime_now is defined" not in text:
        def strftime_now(_):
            dated.append(1)
            return "<a date>"
        values["strftime_now"] = strftime_now
    try:
        made = environment().from_string(text).render(**values)
    except TemplateError:
        return None
    return None if "<a date>" in made else made


def talks_of(text, bos, eos):
    """Without what the pieces of a template cannot give: a system prompt that moves on with the
    last turn, and one that is left out."""
    made = {name: render(text, talk, bos, eos) for name, talk in TALKS.items()}
    if any(t is not None and S[1] not in t for n, t in made.items() if n.endswith("system")):
        made = {n: None if n.endswith("system") else t for n, t in made.items()}
    moved = made["three turns, system"]
    if moved and moved.find(S[1]) > moved.find(U1[1]):
        made["three turns, system"] = None
    return made


def special(texts, bos, eos):
    found = {t for t in (bos, eos) if t}
    for text in texts:
        found.update(re.findall(r"<[^<>\s]+>|\[/?[A-Z_|a-z]+\]", text or ""))
    return sorted(found)


def entry(name, text, family, bos, eos, read, ours):
    talks = talks_of(text, bos, eos) if family else {}
    made = {"name": name, "family": family, "read": read,
            "sha256": hashlib.sha256(text.encode()).hexdigest(), "bos": bos, "eos": eos,
            "special": special(talks.values(), bos, eos), "talks": talks}
    if ours:
        made["jinja"] = text
    return made


def main():
    folder = sys.argv[1]
    out = {"conversations": {n: [list(m) for m in t] for n, t in TALKS.items()}, "templates": []}
    for file, name, family, (bos, eos), *read in PUBLISHED:
        with open(os.path.join(folder, file + ".jinja"), encoding="utf-8", newline="") as f:
            made = entry(name, f.read(), family, bos, eos, (read or [family])[0], False)
        made["file"] = file + ".jinja"
        out["templates"].append(made)
    for name, text, family, (bos, eos) in OURS:
        out["templates"].append(entry(name, text, family, bos, eos, family, True))
    json.dump(out, sys.stdout, indent=1, ensure_ascii=True)
    print()


if __name__ == "__main__":
    main()
