/* The table of families. A row with a reason is for models that no reader takes; it is the one
 * place that says why. test_families.c checks that none of them is read after all. */
#include "model/load/families.h"

#include <stdio.h>
#include <string.h>

/* Reasons that several families have. They go on after the family's name. */
#define RECURRENT "keeps a recurrent state of a fixed size, not keys and values of each token"
#define HYBRID                                                                                     \
    "has layers with a recurrent state, which cannot be made of modules, between its layers with " \
    "attention"
#define ENCODER_DECODER "is an encoder with a decoder that attends to it (cross-attention)"
#define SPEECH "works on sound, not on text"
#define VISION "is a vision tower: it works on pictures, not on text"
#define MULTIMODAL "takes pictures or sound beside text, and its text part is none that is read"
#define PICTURES "makes pictures or films: it is not a language model"
#define SPARSE "has sparse attention by a pattern of its own"
#define SPEAKS_BOTH_WAYS "fills masks by diffusion: its tokens also see the tokens behind them"
#define ENCODER "is an encoder of a form that is not implemented"
#define NOT_YET "is not implemented: "
#define NO_READER NOT_YET "no reader was written for its configuration"

static const pc__family families[] = {
    /* read */
    {"llama", "Llama", NULL},
    {"mistral", "Mistral", NULL},
    {"ministral", "Ministral", NULL},
    {"ministral3 mistral3", "Ministral 3", NULL},
    {"mixtral", "Mixtral", NULL},
    {"qwen2", "Qwen 2", NULL},
    {"qwen2_moe qwen2moe", "Qwen 2 MoE", NULL},
    {"qwen3", "Qwen 3", NULL},
    {"qwen3_moe qwen3moe", "Qwen 3 MoE", NULL},
    {"falcon", "Falcon", NULL},
    {"mpt", "MPT", NULL},
    {"bloom", "Bloom", NULL},
    {"gpt2", "GPT-2", NULL},
    {"gpt_neox gptneox", "GPT-NeoX", NULL},
    {"phi phi2", "Phi", NULL},
    {"phi3", "Phi-3", NULL},
    {"opt", "OPT", NULL},
    {"deepseek", "DeepSeek MoE", NULL},
    {"deepseek_v2 deepseek2", "DeepSeek V2", NULL},
    {"deepseek_v3", "DeepSeek V3", NULL},
    {"gemma", "Gemma", NULL},
    {"gemma2", "Gemma 2", NULL},
    {"gemma3 gemma3_text", "Gemma 3", NULL},
    {"llama4 llama4_text", "Llama 4", NULL},
    {"gpt_oss gpt-oss", "gpt-oss", NULL},
    {"olmo2", "OLMo 2", NULL},
    {"granite", "Granite", NULL},
    {"cohere command-r", "Command R", NULL},
    {"cohere2", "Command R7B", NULL},
    {"starcoder2", "StarCoder 2", NULL},
    {"stablelm", "StableLM", NULL},
    {"glm", "GLM", NULL},
    {"glm4", "GLM-4", NULL},
    {"nemotron", "Nemotron", NULL},
    {"smollm3", "SmolLM3", NULL},
    {"bert", "BERT", NULL},
    {"roberta", "RoBERTa", NULL},
    {"xlm-roberta", "XLM-RoBERTa", NULL},
    {"camembert", "CamemBERT", NULL},
    {"deberta", "DeBERTa", NULL},
    {"deberta-v2", "DeBERTa V2", NULL},
    /* recurrent */
    {"mamba falcon_mamba", "Mamba", RECURRENT},
    {"mamba2", "Mamba 2", RECURRENT},
    {"rwkv rwkv5 rwkv6 rwkv7 rwkv6qwen2 arwkv7", "RWKV", RECURRENT},
    {"retnet", "RetNet", RECURRENT},
    {"xlstm", "xLSTM", RECURRENT},
    {"jamba", "Jamba", HYBRID},
    {"zamba zamba2", "Zamba", HYBRID},
    {"bamba", "Bamba", HYBRID},
    {"falcon_h1 falcon-h1", "Falcon-H1", HYBRID},
    {"granitemoehybrid granitehybrid", "Granite 4 (hybrid)", HYBRID},
    {"nemotron_h nemotron_h_moe", "Nemotron-H", HYBRID},
    {"plamo2", "PLaMo 2", HYBRID},
    {"recurrent_gemma", "RecurrentGemma", HYBRID},
    {"qwen3_next qwen3next", "Qwen3-Next", HYBRID},
    {"kimi_linear kimi-linear", "Kimi Linear", HYBRID},
    {"minimax minimax_text_01", "MiniMax-01", HYBRID},
    {"lfm2 lfm2_moe lfm2moe", "LFM2",
     "has layers of short convolutions, which keep a state, between its layers with attention"},
    /* encoders with decoders */
    {"t5 mt5 umt5 longt5 switch_transformers t5gemma", "T5", ENCODER_DECODER},
    {"t5encoder", "T5 (encoder)",
     "adds learned biases by distance to its scores, which is not "
     "implemented for encoders"},
    {"bart mbart pegasus pegasus_x plbart", "BART", ENCODER_DECODER},
    {"marian m2m_100 nllb-moe fsmt", "Marian and M2M-100", ENCODER_DECODER},
    {"blenderbot blenderbot-small", "Blenderbot", ENCODER_DECODER},
    {"led prophetnet bigbird_pegasus", "LED and ProphetNet", ENCODER_DECODER},
    {"encoder-decoder vision-encoder-decoder speech-encoder-decoder", "EncoderDecoder",
     ENCODER_DECODER},
    /* sound and pictures */
    {"whisper", "Whisper", SPEECH ": an encoder with a decoder that attends to it"},
    {"wav2vec2 wav2vec2-bert hubert wavlm speecht5 seamless_m4t seamless_m4t_v2 moshi",
     "a speech model", SPEECH},
    {"wavtokenizer-dec encodec dac", "an audio codec", SPEECH},
    {"clip clip_vision_model clip_text_model chinese_clip mmproj", "CLIP", VISION},
    {"siglip siglip_vision_model siglip2 siglip2_vision_model", "SigLIP", VISION},
    {"vit dinov2 dinov3_vit beit deit swin swinv2 convnext convnextv2 resnet sam sam2 detr",
     "a vision transformer", VISION},
    {"llava llava_next llava_next_video llava_onevision bunny-llama", "LLaVA", MULTIMODAL},
    {"qwen2_vl qwen2_5_vl qwen2vl qwen3_vl qwen3_vl_moe qwen3vl qwen3vlmoe", "Qwen-VL",
     "gives tokens positions of three numbers, for pictures (M-RoPE)"},
    {"qwen2_audio qwen2_5_omni qwen3_omni_moe", "Qwen-Audio and Qwen-Omni", MULTIMODAL},
    {"mllama", "Llama 3.2 Vision", "has layers that attend to pictures (cross-attention)"},
    {"paligemma", "PaliGemma", MULTIMODAL},
    {"idefics idefics2 idefics3 smolvlm", "Idefics", MULTIMODAL},
    {"internvl internvl_chat", "InternVL", MULTIMODAL},
    {"blip blip-2 instructblip kosmos-2 florence2 git pix2struct", "BLIP and Kosmos", MULTIMODAL},
    {"pixtral aya_vision cohere2_vision phi3_v phi4mm phi4_multimodal minicpmv got_ocr2 fuyu",
     "a model for pictures and text", MULTIMODAL},
    {"chameleon emu3 janus", "Chameleon and Emu", MULTIMODAL},
    {"flux sd1 sdxl sd3 wan hyvid hidream ltxv cosmos lumina2 aura pig", "an image generator",
     PICTURES},
    {"llada llada-moe dream", "LLaDA and Dream", SPEAKS_BOTH_WAYS},
    /* attention of another kind */
    {"xlnet", "XLNet", "orders tokens by permutations and attends in two streams"},
    {"transfo-xl", "Transformer-XL", "attends to cached states by relative positions of its own"},
    {"longformer", "Longformer", SPARSE},
    {"big_bird", "BigBird", SPARSE},
    {"reformer", "Reformer", "finds what it attends to by hashing"},
    {"gpt_neo", "GPT-Neo", NOT_YET "scores without a scale, with learned positions and windows"},
    {"bitnet bitnet-25 bitnet-b1.58", "BitNet",
     NOT_YET "activations of 8 bits and norms within its blocks"},
    {"gemma3n gemma3n_text", "Gemma 3n",
     NOT_YET "several streams of activations, and embeddings of its own for each layer"},
    {"openelm deci nemotron-nas", "OpenELM and Llama-Nemotron",
     NOT_YET "layers of different shapes"},
    /* encoders */
    {"albert electra distilbert mpnet funnel squeezebert mobilebert convbert ernie",
     "a relative of BERT", ENCODER},
    {"modernbert modern-bert nomic_bert nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3 "
     "gte-new new neo-bert eurobert gemma-embedding",
     "an encoder with RoPE or ALiBi", ENCODER},
    /* decoders that could be read, but are not yet */
    {"gptj codegen", "GPT-J",
     NOT_YET "biases in its MLP and head alone, with attention and MLP in "
             "parallel"},
    {"gpt_bigcode starcoder", "StarCoder",
     NOT_YET "one K/V head in a fused matrix, with learned positions"},
    {"minicpm minicpm3 minicpm4", "MiniCPM", NO_READER},
    {"dbrx", "DBRX", NOT_YET "experts in one matrix beside clipped queries, keys and values"},
    {"arctic", "Arctic", NOT_YET "a dense MLP beside the experts of each layer"},
    {"grok grok-1 grok-2", "Grok", NOT_YET "capped scores together with experts and outer norms"},
    {"chatglm", "ChatGLM",
     NOT_YET "its configuration and names are its own; GLM-4 in the form of transformers is read"},
    {"baichuan", "Baichuan", NOT_YET "a fused Q, K and V (W_pack), with ALiBi in the larger model"},
    {"internlm internlm2 internlm3", "InternLM",
     NOT_YET "a fused Q, K and V (wqkv) with names of its own"},
    {"jais jais2", "Jais", NOT_YET "ALiBi with a gated MLP and scaled logits"},
    {"olmo", "OLMo 1", NOT_YET "norms without gains"},
    {"olmoe", "OLMoE", NO_READER},
    {"xverse", "XVERSE", NO_READER},
    {"orion", "Orion", NO_READER},
    {"aquila", "Aquila", NO_READER},
    {"persimmon", "Persimmon", NO_READER},
    {"plamo", "PLaMo", NO_READER},
    {"codeshell", "CodeShell", NO_READER},
    {"refact", "Refact", NO_READER},
    {"qwen", "Qwen 1", NO_READER},
    {"phimoe", "Phi-3.5 MoE", NO_READER},
    {"granitemoe granitemoeshared", "Granite MoE", NO_READER},

    {"glm4_moe glm4moe", "GLM-4.5", NO_READER},
    {"exaone exaone4", "EXAONE", NO_READER},
    {"ernie4_5 ernie4_5_moe ernie4_5-moe", "ERNIE 4.5", NO_READER},
    {"hunyuan hunyuan_v1_dense hunyuan_v1_moe hunyuan-dense hunyuan-moe", "Hunyuan", NO_READER},
    {"olmo3", "OLMo 3", NO_READER},
    {"minimax_m2 minimax-m2", "MiniMax M2", NO_READER},
    {"kimi_k2", "Kimi K2", NO_READER},
    {"seed_oss", "Seed-OSS", NO_READER},
    {"dots1", "dots.llm1", NO_READER},
    {"arcee", "Arcee", NO_READER},
    {"apertus", "Apertus", NO_READER},
    {"bailing_moe bailingmoe bailingmoe2", "Ling", NO_READER},
    {"smallthinker", "SmallThinker", NO_READER},
};

enum { FAMILIES = sizeof families / sizeof *families };

const pc__family *pc__families(size_t *count)
{
    *count = FAMILIES;
    return families;
}

/* Whether `word` is one of the words of a list. */
static int has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        if (n == size && !memcmp(at, word, n))
            return 1;
        at += n;
        at += strspn(at, " ");
    }
    return 0;
}

const pc__family *pc__family_of(const char *type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (has_word(families[i].types, type))
            return &families[i];
    return NULL;
}

/* As many names as fit, and how many more there are. */
static void list_supported(pc__supported_fn *supported, char *out, size_t size)
{
    enum { MORE = 16 }; /* " and 99 others" */
    size_t used = 0, i = 0;
    const char *name;
    *out = 0;
    for (; (name = supported(i)); i++) {
        if (used + strlen(name) + 2 + MORE > size)
            break;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", name);
    }
    for (size_t left = 0; name; name = supported(i + left))
        if (!supported(i + ++left))
            snprintf(out + used, size - used, " and %zu others", left);
}

pc_status pc__family_refuse(const char *where, const char *key, const char *type,
                            pc__supported_fn *supported)
{
    const pc__family *family = pc__family_of(type);
    pc__quoted room;
    char list[sizeof pc__fail_state()->text];
    type = pc__quote(type, strlen(type), &room);
    size_t before = strlen(where) + strlen(key) + strlen(type) + 48;
    if (family && family->reason)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: %s (%s '%s') %s", where, family->words, key, type,
                        family->reason);
    list_supported(supported, list, before + 64 < sizeof list ? sizeof list - before : 64);
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': '%s' is not supported (%s are)", where, key,
                    type, list);
}

/* -------------------------------------------------------------- quantisation */

static const struct {
    const char *methods, *words;
} quantisations[] = {
    {"gptq", "GPTQ"},
    {"awq", "AWQ"},
    {"bitsandbytes", "bitsandbytes"},
    {"fp8 fbgemm_fp8 finegrained_fp8", "FP8"},
    {"compressed-tensors", "compressed-tensors"},
    {"exl2 exl3", "ExLlama"},
    {"aqlm", "AQLM"},
    {"hqq", "HQQ"},
    {"quanto", "quanto"},
    {"eetq", "EETQ"},
    {"torchao", "torchao"},
    {"mxfp4", "MXFP4"},
    {"bitnet", "BitNet"},
    {"modelopt", "ModelOpt"},
};

pc_status pc__quantised_refuse(const char *where, const char *method)
{
    const char *words = method;
    for (size_t i = 0; method && i < sizeof quantisations / sizeof *quantisations; i++)
        if (has_word(quantisations[i].methods, method))
            words = quantisations[i].words;
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "%s: key 'quantization_config': weights quantised by %s are not read: use the "
                    "original weights (safetensors) or a GGUF file",
                    where, words ? PC__QUOTE(words) : "an unnamed method");
}
