"""Chat templates in the styles of released ones, in texts of our own.

A template is put together from choices that released templates differ in: how turns are marked,
where the system prompt goes, what happens to the text of a message, what is checked, what opens an
answer, which parts are there for tools. `templates(count)` gives that many different ones, always
the same.
"""
import random

DEEP_BOS = "<\uff5cbegin\u2581of\u2581text\uff5c>"
DEEP_EOS = "<\uff5cend\u2581of\u2581text\uff5c>"

# How turns are marked: bos, eos; before and behind a message, as expressions of its role and TEXT;
# the words for the roles; the opening of an answer.
MARKS = {
    "im": (None, "<|im_end|>", "'<|im_start|>' + ROLE + '\\n' + TEXT + '<|im_end|>' + '\\n'",
           "'<|im_start|>assistant\\n'", "assistant"),
    "im_tight": (None, "<|im_end|>", "'<|im_start|>' ~ ROLE ~ '<|im_sep|>' ~ TEXT ~ '<|im_end|>'",
                 "'<|im_start|>assistant<|im_sep|>'", "assistant"),
    "header": ("<|begin_of_text|>", "<|eot_id|>",
               "'<|start_header_id|>' + ROLE + '<|end_header_id|>\\n\\n' + TEXT + '<|eot_id|>'",
               "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'", "assistant"),
    "angle": ("<s>", "</s>", "'<|' + ROLE + '|>\\n' + TEXT + eos_token + '\\n'",
              "'<|assistant|>\\n'", "assistant"),
    "end": ("<s>", "<|endoftext|>", "'<|' + ROLE + '|>' + TEXT + '<|end|>'", "'<|assistant|>'",
            "assistant"),
    "turn": ("<bos>", "<eos>", "'<start_of_turn>' + ROLE + '\\n' + TEXT + '<end_of_turn>\\n'",
             "'<start_of_turn>model\\n'", "model"),
    "role": (None, "<|end_of_text|>",
             "'<|start_of_role|>' + ROLE + '<|end_of_role|>' + TEXT + '<|end_of_text|>\\n'",
             "'<|start_of_role|>assistant<|end_of_role|>'", "assistant"),
    "colon": ("<s>", "</s>", "ROLE | upper ~ ': ' ~ TEXT ~ '\\n\\n'", "'ASSISTANT:'", "assistant"),
    "hash": (None, "</s>", "'### ' ~ ROLE | capitalize ~ ':\\n' ~ TEXT ~ '\\n\\n'",
             "'### Assistant:\\n'", "assistant"),
    "token": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>",
              "'<|START_OF_TURN_TOKEN|><|' ~ ROLE.upper() ~ '_TOKEN|>' ~ TEXT ~ "
              "'<|END_OF_TURN_TOKEN|>'", "'<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'", "chatbot"),
}
# Turns that differ by more than the word for the role: before and behind a user's, an answer's.
PAIRS = {
    "inst": ("<s>", "</s>", "'[INST] ' + TEXT + ' [/INST]'", "' ' + TEXT + eos_token", "''"),
    "inst_tight": ("<s>", "</s>", "'[INST]' ~ TEXT ~ '[/INST]'", "TEXT ~ eos_token", "''"),
    "deep": (DEEP_BOS, DEEP_EOS, "'<\uff5cUser\uff5c>' + TEXT", "'<\uff5cAssistant\uff5c>' + TEXT "
             "+ '" + DEEP_EOS + "'", "'<\uff5cAssistant\uff5c>'"),
    "deep_colon": (DEEP_BOS, DEEP_EOS, "'User: ' + TEXT + '\\n\\n'", "'Assistant: ' + TEXT + "
                   "eos_token", "'Assistant:'"),
    "instruction": (None, "<|EOT|>", "'### Instruction:\\n' + TEXT + '\\n'",
                    "'### Response:\\n' + TEXT + '\\n<|EOT|>\\n'", "'### Response:\\n'"),
    "say": ("<s>", "</s>", "'USER: ' + TEXT + ' '", "'ASSISTANT: ' + TEXT + eos_token",
            "'ASSISTANT:'"),
}

# What becomes of the text of a message. M is the message.
TEXTS = [
    "M['content']", "M.content", "M['content'] | trim", "M.content.strip()",
    "M['content'] | string", "(M.content or '')", "(M.content | default('', true))",
    "(M['content'] if M['content'] is string else '')", "M.content.lstrip('\\n')",
    "M.get('content', '')", "M.content.replace('<|tool|>', '')",
]
ANSWERS = [
    "TEXT", "TEXT", "TEXT", "TEXT.split('</think>')[-1].lstrip('\\n')",
    "(TEXT.split('</think>') | last | trim if '</think>' in TEXT else TEXT)", "(TEXT | trim)",
    "(TEXT.split('<answer>')[1].split('</answer>')[0] if '<answer>' in TEXT else TEXT)",
    "(TEXT | replace('\\n\\n\\n', '\\n\\n'))", "(TEXT[7:] if TEXT.startswith('<think>') else TEXT)",
    "(TEXT if TEXT | length < 40 else TEXT | trim)",
]
BEFORE = [
    "", "", "",
    "{%- set today = '26 Jul 2024' if strftime_now is not defined else strftime_now('%d') %}\n",
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}"
    "{% endif %}",
    "{%- if tools %}\n    {{- '<tools>' }}\n    {%- for tool in tools %}\n"
    "        {{- tool | tojson }}\n    {%- endfor %}\n{%- endif %}\n",
    "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool | tojson(indent=2) }}\n"
    "{% endfor %}",
    "{#- a note about tools {{ not run }} -#}\n",
    "{%- if documents is defined and documents %}{{ documents | tojson(indent=4) }}{% endif -%}\n",
    "{%- set ns = namespace(seen=false, turns=0) %}\n",
    "{%- if enable_thinking is not defined %}{%- set enable_thinking = true %}{%- endif %}\n",
]
CHECKS = [
    "", "", "", "",
    "{% if (M['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant/...') }}{% endif %}",
    "{%- if M.role not in ['user', 'assistant', 'system'] %}"
    "{{- raise_exception('Unknown role: ' + M.role) }}{%- endif %}",
    "{%- if M.content is not string %}{{- raise_exception('text only') }}{% endif %}",
    "{% if 'tool_calls' in M %}{{ M.tool_calls | tojson }}{% endif %}",
    "{% for call in M.tool_calls or [] %}<{{ call.function.name }}>{% for k, v in "
    "call.function.arguments | items %}{{ k }}={{ v | tojson }} {% endfor %}{% endfor %}",
    "{%- if M.role == 'tool' %}{{ '<tool>' ~ M.content }}{% continue %}{% endif %}",
    "{%- if loop.index > 30 %}{% break %}{% endif %}",
    "{%- if '/off' in M.content %}{{- '<|off|>' }}{%- endif %}",
    "{%- if M.content | length > 90 %}{{- '<|long|>' }}{%- endif %}",
    "{%- if M.content == '' %}{{- '<|nothing|>' }}{%- endif %}",
]
OPENINGS = ["", "", "", " + '<think>\\n'", " + ('' if enable_thinking is defined else '')",
            " + ('<think>\\n\\n</think>\\n\\n' if enable_thinking is defined and "
            "enable_thinking is false else '')",
            " + ('<|brief|>' if messages[-1].content.endswith('?!') else '')"]
DEFAULT = ["You are a helpful assistant.", "You are Helper, made in Harbor House.", ""]


def text_of(choice, message, role, r):
    """The expression for the text of a message."""
    text = r["text"].replace("M", message)
    if role == "assistant":
        return choice.replace("TEXT", text)
    return text


def with_marks(r, name):
    """All turns alike but for the word for the role, system prompts among them."""
    bos, eos, form, opening, model = MARKS[name]
    role = "M['role']"
    if model != "assistant":
        role = "('%s' if M.role == 'assistant' else M['role'])" % model
    turn = form.replace("ROLE", role)
    if r["answer"] == "TEXT":
        body = "{{ " + turn.replace("TEXT", r["text"]) + " }}"
    else:
        body = ("{%- if M.role == 'assistant' -%}\n{{- "
                + turn.replace("TEXT", text_of(r["answer"], "M", "assistant", r))
                + " }}{%- else -%}{{- " + turn.replace("TEXT", r["text"]) + " }}{%- endif -%}")
    if r["generation"]:
        body = "{% generation %}" + body + "{% endgeneration %}"
    begin = "{{ bos_token }}" if bos and r["bos"] else ""
    default = r["default"]
    over, first = "messages", ""
    if r["system"] == 0 and default:
        first = ("{% if loop.first and messages[0]['role'] != 'system' %}{{ "
                 + form.replace("ROLE", "'system'").replace("TEXT", "'" + default + "'")
                 + " }}{% endif %}")
    elif r["system"] == 1:
        begin += ("{%- if messages[0].role == 'system' %}\n{%- set system = messages[0].content "
                  "%}\n{%- set rest = messages[1:] %}\n{%- else %}\n{%- set system = '" + default
                  + "' %}\n{%- set rest = messages %}\n{%- endif %}\n{%- if system %}{{- "
                  + form.replace("ROLE", "'system'").replace("TEXT", "system")
                  + " }}{%- endif %}\n")
        over = "rest"
    elif r["system"] == 2:
        first = ("{%- if M.role == 'system' -%}{{ raise_exception('System role not supported') }}"
                 "{%- endif -%}")
    elif r["system"] == 3:
        over = "messages if M.role != 'system'"
    return (bos, eos, begin, over, first + r["check"] + body, opening)


def with_pairs(r, name):
    """Turns of users and answers differ; the system prompt joins the first or the last user's, or
    stands alone."""
    bos, eos, user, answer, opening = PAIRS[name]
    begin = "{{ bos_token }}" if bos and r["bos"] else ""
    begin += ("{%- if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
              "{% set rest = messages[1:] %}{% else %}{% set system = '" + r["default"]
              + "' %}{% set rest = messages %}{% endif %}")
    text = text_of("TEXT", "M", "user", r)
    joined = "(system ~ '\\n\\n' if system else '') ~ " + text
    said = user.replace("TEXT", text)
    where = ["loop.first", "loop.last", "false"][r["system"] % 3]
    if r["system"] % 3 == 2:
        begin += "{% if system %}{{ system + '\\n' }}{% endif %}"
    body = ("{% if M['role'] == 'user' and " + where + " %}{{ "
            + user.replace("TEXT", "(" + joined + ")") + " }}{% elif M['role'] == 'user' %}{{ "
            + said + " }}{% elif M['role'] == 'assistant' %}{{ "
            + answer.replace("TEXT", text_of(r["answer"], "M", "assistant", r))
            + " }}{% endif %}")
    return bos, eos, begin, "rest", r["check"] + body, opening


def compose(r):
    name = r["mark"]
    bos, eos, begin, over, body, opening = (with_marks if name in MARKS else with_pairs)(r, name)
    text = r["before"] + begin
    if r["macro"]:
        text += ("{%- macro turn(M, loop_) -%}\n" + body.replace("loop.", "loop_.")
                 + "{%- endmacro -%}\n")
        body = "{{ turn(M, {'first': loop.first, 'last': loop.last, 'index': loop.index, " \
               "'index0': loop.index0}) }}"
        if "continue" in text or "break" in text:
            return None
    if r["pretty"]:
        body = "\n    " + body.replace("{% endif %}", "{% endif %}\n    ") + "\n"
    text += "{% for M in " + over + " %}" + body + "{% endfor %}"
    if opening != "''":
        text += ("{% if add_generation_prompt %}{{ " + opening + r["opening"] + " }}{% endif %}")
    text = text.replace("M[", r["message"] + "[").replace("M.", r["message"] + ".")
    text = text.replace("for M ", "for " + r["message"] + " ").replace("(M,", "(%s," % r["message"])
    return text + r["after"], bos, eos


def templates(count):
    """Pairs of a template and its bos and eos."""
    random_ = random.Random(28)
    made, seen = [], set()
    while len(made) < count:
        c = random_.choice
        r = {"mark": c(sorted(MARKS) + sorted(PAIRS)), "text": c(TEXTS[:2] + TEXTS),
             "answer": c(ANSWERS), "before": c(BEFORE), "check": c(CHECKS), "opening": c(OPENINGS),
             "default": c(DEFAULT), "system": c([0, 0, 1, 1, 2, 3]), "bos": c([1, 1, 0]),
             "generation": c([0, 0, 0, 1]), "macro": c([0, 0, 0, 0, 1]), "pretty": c([0, 1]),
             "message": c(["message", "m", "msg"]), "after": c(["", "\n", "\n\n"])}
        one = compose(r)
        if one and one[0] not in seen:
            seen.add(one[0])
            made.append(one)
    return made
