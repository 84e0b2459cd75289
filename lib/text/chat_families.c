/* The families of chat templates. Each gives the bytes of the published template of its models
 * (test/golden/chat.json), with a system prompt and without one.
 *
 * Two things differ on purpose. Default system prompts that contain a date are left out. Mistral's
 * templates before v7 put the system prompt before the last user turn; here it stays before the
 * first, so that a turn can use the states of the turns before it. */
#include "text/chat.h"

#define DEEPSEEK_BEGIN \
    "<\xef\xbd\x9c"    \
    "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"
#define DEEPSEEK_END \
    "<\xef\xbd\x9c"  \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"
#define DEEPSEEK_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DEEPSEEK_ASSISTANT \
    "<\xef\xbd\x9c"        \
    "Assistant\xef\xbd\x9c>"
#define DEEPSEEK_CODER_SYSTEM                                                                \
    "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by " \
    "Deepseek Company, and you only answer questions related to computer science. For "      \
    "politically sensitive questions, security and privacy issues, and other non-computer "  \
    "science questions, you will refuse to answer\n"
#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA31_SYSTEM                                                             \
    "<|begin_of_text|>" LLAMA3("system") "Cutting Knowledge Date: December 2023\n" \
                                         "Today Date: 26 Jul 2024\n\n"
#define LLAMA4(role) "<|header_start|>" role "<|header_end|>\n\n"
#define CHATML(role) "<|im_start|>" role "\n"
/* clang-format off */
#define CHATML_FORM(names, start)                                                                  \
    {                                                                                              \
        .name = names,                                                                             \
        .pieces = {{CHATML("system"), "<|im_end|>\n", start, CHATML("user"),                       \
                   "<|im_end|>\n" CHATML("assistant"), "", "", "<|im_end|>\n"}},                   \
        .tokens = {"<|im_start|>", "<|im_end|>"},                                                  \
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},                                            \
    }
/* clang-format on */
#define PHI4(role) "<|im_start|>" role "<|im_sep|>"
#define COMMAND_R(role) "<|START_OF_TURN_TOKEN|><|" role "_TOKEN|>"
#define GRANITE(role) "<|start_of_role|>" role "<|end_of_role|>"

/* In the order of pc__chat_pieces: system open, close, empty; user open, close; generation;
 * assistant open, close. */
const pc__chat_template pc__chat_families[] = {
    {.name = "none", .pieces = {{"", "", "", "", "", "", "", ""}}},
    {.name = "llama2 codellama",
     .pieces = {{"<s>[INST] <<SYS>>\n", "\n<</SYS>>\n\n", "", "<s>[INST] ", " [/INST]", "", " ",
                 " </s>"}},
     .system_joins_user = 1,
     .tokens = {"<s>", "</s>"},
     .stop_tokens = {"</s>"}},
    {.name = "llama3",
     .pieces = {{"<|begin_of_text|>" LLAMA3("system"), "<|eot_id|>", "<|begin_of_text|>",
                 LLAMA3("user"), "<|eot_id|>" LLAMA3("assistant"), "", "", "<|eot_id|>"}},
     .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .stop_tokens = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"}},
    {.name = "llama3.1 llama3.2 llama3.3",
     .pieces = {{LLAMA31_SYSTEM, "<|eot_id|>", LLAMA31_SYSTEM "<|eot_id|>", LLAMA3("user"),
                 "<|eot_id|>" LLAMA3("assistant"), "", "", "<|eot_id|>"}},
     .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .stop_tokens = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"}},
    {.name = "llama4",
     .pieces = {{"<|begin_of_text|>" LLAMA4("system"), "<|eot|>", "<|begin_of_text|>",
                 LLAMA4("user"), "<|eot|>" LLAMA4("assistant"), "", "", "<|eot|>"}},
     .tokens = {"<|begin_of_text|>", "<|header_start|>", "<|header_end|>", "<|eot|>"},
     .stop_tokens = {"<|eot|>", "<|end_of_text|>", "<|eom|>"}},
    CHATML_FORM("chatml qwen3", ""),
    CHATML_FORM("qwen2", CHATML("system") "You are a helpful assistant.<|im_end|>\n"),
    CHATML_FORM("qwen2.5", CHATML("system") "You are Qwen, created by Alibaba Cloud. You are a "
                                            "helpful assistant.<|im_end|>\n"),
    {.name = "mistral-v1 mistral",
     .pieces = {{"<s> [INST] ", "\n\n", "<s>", " [INST] ", " [/INST]", "", " ", "</s>"}},
     .system_joins_user = 1,
     .tokens = {"<s>", "</s>"},
     .stop_tokens = {"</s>"}},
    {.name = "mistral-v3 mistral-v2",
     .pieces = {{"<s>[INST] ", "\n\n", "<s>", "[INST] ", "[/INST]", "", " ", "</s>"}},
     .system_joins_user = 1,
     .tokens = {"<s>", "</s>", "[INST]", "[/INST]"},
     .stop_tokens = {"</s>"}},
    {.name = "mistral-v3-tekken",
     .pieces = {{"<s>[INST]", "\n\n", "<s>", "[INST]", "[/INST]", "", "", "</s>"}},
     .system_joins_user = 1,
     .tokens = {"<s>", "</s>", "[INST]", "[/INST]"},
     .stop_tokens = {"</s>"}},
    {.name = "mistral-v7",
     .pieces = {{"<s>[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]", "<s>", "[INST] ", "[/INST]", "", " ",
                 "</s>"}},
     .tokens = {"<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .stop_tokens = {"</s>"}},
    {.name = "mistral-v7-tekken",
     .pieces = {{"<s>[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<s>", "[INST]", "[/INST]", "", "",
                 "</s>"}},
     .tokens = {"<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .stop_tokens = {"</s>"}},
    {.name = "phi3",
     .pieces = {{"<|system|>\n", "<|end|>\n", "", "<|user|>\n", "<|end|>\n<|assistant|>\n", "", "",
                 "<|end|>\n"}},
     .tokens = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
     .stop_tokens = {"<|end|>", "<|endoftext|>"}},
    {.name = "phi4-mini",
     .pieces = {{"<|system|>", "<|end|>", "", "<|user|>", "<|end|><|assistant|>", "", "",
                 "<|end|>"}},
     .tokens = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
     .stop_tokens = {"<|end|>", "<|endoftext|>"}},
    {.name = "phi4",
     .pieces = {{PHI4("system"), "<|im_end|>", "", PHI4("user"), "<|im_end|>" PHI4("assistant"), "",
                 "", "<|im_end|>"}},
     .tokens = {"<|im_start|>", "<|im_sep|>", "<|im_end|>"},
     .stop_tokens = {"<|im_end|>", "<|endoftext|>"}},
    {.name = "gemma gemma2 gemma3",
     .pieces = {{"<bos><start_of_turn>user\n", "\n\n", "<bos>", "<start_of_turn>user\n",
                 "<end_of_turn>\n<start_of_turn>model\n", "", "", "<end_of_turn>\n"}},
     .system_joins_user = 1,
     .tokens = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .stop_tokens = {"<end_of_turn>", "<eos>"}},
    {.name = "command-r",
     .pieces = {{"<BOS_TOKEN>" COMMAND_R("SYSTEM"), "<|END_OF_TURN_TOKEN|>", "<BOS_TOKEN>",
                 COMMAND_R("USER"), "<|END_OF_TURN_TOKEN|>" COMMAND_R("CHATBOT"), "", "",
                 "<|END_OF_TURN_TOKEN|>"}},
     .tokens = {"<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"},
     .stop_tokens = {"<|END_OF_TURN_TOKEN|>"}},
    {.name = "granite",
     .pieces = {{GRANITE("system"), "<|end_of_text|>\n", "", GRANITE("user"),
                 "<|end_of_text|>\n" GRANITE("assistant"), "", "", "<|end_of_text|>\n"}},
     .tokens = {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"},
     .stop_tokens = {"<|end_of_text|>"}},
    {.name = "deepseek deepseek-v2",
     .pieces = {{DEEPSEEK_BEGIN, "\n\n", DEEPSEEK_BEGIN, "User: ", "\n\nAssistant:", "", " ",
                 DEEPSEEK_END}},
     .tokens = {DEEPSEEK_BEGIN, DEEPSEEK_END},
     .stop_tokens = {DEEPSEEK_END}},
    {.name = "deepseek-coder",
     .pieces = {{DEEPSEEK_BEGIN, "", DEEPSEEK_BEGIN DEEPSEEK_CODER_SYSTEM, "### Instruction:\n",
                 "\n### Response:\n", "", "", "\n<|EOT|>\n"}},
     .tokens = {DEEPSEEK_BEGIN, "<|EOT|>"},
     .stop_tokens = {"<|EOT|>", DEEPSEEK_END}},
    {.name = "deepseek-v3 deepseek-v2.5",
     .pieces = {{DEEPSEEK_BEGIN, "", DEEPSEEK_BEGIN, DEEPSEEK_USER, DEEPSEEK_ASSISTANT, "", "",
                 DEEPSEEK_END}},
     .tokens = {DEEPSEEK_BEGIN, DEEPSEEK_USER, DEEPSEEK_ASSISTANT, DEEPSEEK_END},
     .stop_tokens = {DEEPSEEK_END}},
    {.name = "deepseek-r1",
     .pieces = {{DEEPSEEK_BEGIN, "", DEEPSEEK_BEGIN, DEEPSEEK_USER, DEEPSEEK_ASSISTANT, "<think>\n",
                 "", DEEPSEEK_END}},
     .tokens = {DEEPSEEK_BEGIN, DEEPSEEK_USER, DEEPSEEK_ASSISTANT, DEEPSEEK_END},
     .stop_tokens = {DEEPSEEK_END}},
    {.name = "zephyr",
     .pieces = {{"<|system|>\n", "</s>\n", "", "<|user|>\n", "</s>\n<|assistant|>\n", "", "",
                 "</s>\n"}},
     .tokens = {"</s>"}, /* the roles are plain text */
     .stop_tokens = {"</s>"}},
    {.name = "falcon",
     .pieces = {{"", "\n\n", "", "User: ", "\n\nAssistant:", "", " ", "\n\n"}},
     .stop_tokens = {">>TITLE<<", ">>ABSTRACT<<", ">>INTRODUCTION<<", ">>SUMMARY<<", ">>COMMENT<<",
                     ">>ANSWER<<", ">>QUESTION<<", ">>DOMAIN<<", ">>PREFIX<<", ">>SUFFIX<<",
                     ">>MIDDLE<<", "<|endoftext|>"},
     .stop_strings = {"\nUser"}},
    {.name = "falcon3",
     .pieces = {{"<|system|>\n", "\n", "", "<|user|>\n", "\n<|assistant|>\n", "", "",
                 "<|endoftext|>\n"}},
     .tokens = {"<|endoftext|>", "<|assistant|>"},
     .stop_tokens = {"<|endoftext|>"}},
    {.name = "vicuna",
     .pieces = {{"<s>", " ", "<s>", "USER: ", " ASSISTANT:", "", " ", "</s>"}},
     .tokens = {"<s>", "</s>"},
     .stop_tokens = {"</s>"},
     .stop_strings = {"USER:"}},
    {.name = "alpaca",
     .pieces = {{"<s>", "\n\n", "<s>", "### Instruction:\n", "\n\n### Response:\n", "", "",
                 "</s>\n\n"}},
     .tokens = {"<s>", "</s>"},
     .stop_tokens = {"</s>"},
     .stop_strings = {"### Instruction:"}},
};

const size_t pc__chat_family_count = sizeof pc__chat_families / sizeof *pc__chat_families;
