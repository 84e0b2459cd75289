/* The golden models that can answer prompts: folders below golden/ of the test data, one of each
 * kind of architecture, of positions and of experts. */
#ifndef PC_GOLDEN_MODELS_H
#define PC_GOLDEN_MODELS_H

static const char *const golden_models[] = {"llama_mha",
                                            "llama_gqa",
                                            "llama_rope_linear",
                                            "llama_rope_dynamic",
                                            "llama_rope_yarn",
                                            "llama_rope_llama3",
                                            "phi3_longrope_short",
                                            "phi3_longrope_long",
                                            "mistral_swa",
                                            "qwen2",
                                            "phi",
                                            "opt",
                                            "opt_postnorm_proj",
                                            "gpt2",
                                            "falcon_new",
                                            "falcon_new_1ln",
                                            "falcon_mq",
                                            "falcon_rw",
                                            "mpt",
                                            "bloom",
                                            "mixtral",
                                            "qwen2_moe",
                                            "deepseek_v1"};
enum { GOLDEN_MODELS = sizeof golden_models / sizeof *golden_models };

#endif
