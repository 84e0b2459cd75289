/* Files are named by their first bytes, folders by the files that they have. */
#include "model/load/foreign_files.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/json_file.h"

#define TO_SAFETENSORS ": convert them to safetensors, in a folder with config.json"

static int begins(const uint8_t *data, size_t size, size_t at, const char *with, size_t n)
{
    return size >= at + n && !memcmp(data + at, with, n);
}

static const struct {
    size_t at;
    const char *bytes;
    size_t count;
    const char *what;
} signatures[] = {
    {0, "version https://git-lfs.", 24,
     "the file is a pointer of Git LFS: fetch the file itself (git lfs pull)"},
    {0, "\x80\2", 2, "the file has weights of PyTorch" TO_SAFETENSORS},
    {0, "tjgg", 4, "the file has the old format GGJT of ggml: convert the original to GGUF"},
    {0, "fmgg", 4, "the file has the old format GGMF of ggml: convert the original to GGUF"},
    {0, "lmgg", 4, "the file has the old format GGML: convert the original to GGUF"},
    {0, "algg", 4, "the file is a LoRA adapter in the old format GGLA: merge it into its model"},
    {0, "\x89HDF\r\n\x1a\n", 8, "the file has weights of Keras (HDF5)" TO_SAFETENSORS},
    {0, "ptrt", 4, "the file is an engine of TensorRT, made for one GPU: take the original model"},
    {0, "ftrt", 4, "the file is an engine of TensorRT, made for one GPU: take the original model"},
    {4, "TFL3", 4, "the file is a graph of TensorFlow Lite: take the original model"},
    {0, "\x93NUMPY", 6, "the file is an array of NumPy, not a model"},
    {4, "\0\0\0\0{\"", 6, "the file is one of safetensors: give its folder, with config.json"},
};

/* A ZIP file: NumPy's arrays (MLX), or PyTorch's weights. */
static const char *zip_file(const uint8_t *data, size_t size)
{
    size_t name = size >= 30 ? data[26] + 256u * data[27] : 0;
    if (name > 4 && size >= 30 + name && !memcmp(data + 30 + name - 4, ".npy", 4))
        return "the file has arrays of NumPy (MLX)" TO_SAFETENSORS;
    return "the file has weights of PyTorch" TO_SAFETENSORS;
}

/* ONNX and Core ML begin with field 1, a small version number. Then comes field 2: the producer's
 * name, or the message that describes a Core ML model; or field 7, ONNX's graph. */
static const char *protobuf_file(const uint8_t *data, size_t size)
{
    if (size < 8 || data[0] != 8 || !data[1] || data[1] > 31
        || (data[2] != 0x12 && data[2] != 0x3a))
        return NULL;
    if (data[2] == 0x3a || (data[4] >= 32 && data[4] < 127))
        return "the file is a graph of ONNX: take the original model, as safetensors or GGUF";
    return "the file is a model of Core ML: take the original model, as safetensors or GGUF";
}

/* Whether the first bytes may be ASCII or UTF-8 text. */
static int is_text(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size && i < 1024; i++)
        if (data[i] == 127 || data[i] > 0xf7
            || (data[i] < 32 && (data[i] < '\t' || data[i] > '\r')))
            return 0;
    return 1;
}

const char *pc__foreign_file(const uint8_t *data, size_t size)
{
    const char *what;
    if (!size)
        return "the file is empty";
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (begins(data, size, signatures[i].at, signatures[i].bytes, signatures[i].count))
            return signatures[i].what;
    if (begins(data, size, 0, "PK\3\4", 4))
        return zip_file(data, size);
    if ((what = protobuf_file(data, size)))
        return what;
    return is_text(data, size) ? "the file is text, not a model" : NULL;
}

/* ------------------------------------------------------------------ folders */

static const struct {
    const char *file, *what;
    int beside_config; /* 1: stands in for the safetensors, beside a config.json */
} folder_signs[] = {
    {"model_index.json", "an image generator (diffusers), not a language model", 0},
    {"Manifest.json", "a package of Core ML: take the original model", 0},
    {"saved_model.pb", "a SavedModel of TensorFlow" TO_SAFETENSORS, 0},
    {"adapter_model.bin", "an adapter (LoRA) alone: merge it into its model", 0},
    {"pytorch_model.bin", "weights of PyTorch (pytorch_model.bin)" TO_SAFETENSORS, 1},
    {"pytorch_model.bin.index.json", "weights of PyTorch (pytorch_model-*.bin)" TO_SAFETENSORS, 1},
    {"consolidated.00.pth", "weights of PyTorch (consolidated.*.pth)" TO_SAFETENSORS, 1},
    {"consolidated.safetensors",
     "weights by Mistral's own names (consolidated.safetensors): take the release for transformers",
     1},
    {"tf_model.h5", "weights of TensorFlow (tf_model.h5)" TO_SAFETENSORS, 1},
    {"flax_model.msgpack", "weights of Flax (flax_model.msgpack)" TO_SAFETENSORS, 1},
    {"weights.npz", "arrays of NumPy (MLX, weights.npz)" TO_SAFETENSORS, 1},
    {"rank0.engine", "an engine of TensorRT, made for one GPU: take the original model", 1},
    {"model.onnx", "a graph of ONNX: take the original model, as safetensors or GGUF", 1},
    {"onnx/model.onnx", "a graph of ONNX: take the original model, as safetensors or GGUF", 1},
    {"openvino_model.xml", "a graph of OpenVINO: take the original model", 1},
};

/* Of a folder with adapter_config.json; PC_OK if there is none. */
static pc_status refuse_adapter(const pc_allocator *mem, const char *folder)
{
    json_t *config;
    pc_status status = pc__json_in_folder(&config, mem, folder, "adapter_config.json", 1 << 20, 0);
    if (status < 0)
        return status == PC_ERR_NOMEM ? status : PC_OK;
    const char *base = json_string_value(json_object_get(config, "base_model_name_or_path"));
    const char *type = json_string_value(json_object_get(config, "peft_type"));
    status = pc__fail(
        PC_ERR_UNSUPPORTED,
        "%s: the folder has an adapter (%.32s) alone: merge it into its model%s%.160s", folder,
        type ? type : "LoRA", base ? ", " : "", base ? base : "");
    json_decref(config);
    return status;
}

static int has_file(const pc_allocator *mem, const char *folder, const char *name,
                    pc_status *status)
{
    char *path = pc__path_join(mem, folder, name);
    int found = path && !access(path, F_OK);
    if (!path)
        *status = PC_ERR_NOMEM;
    pc__free(mem, path);
    return found;
}

pc_status pc__foreign_folder(const pc_allocator *mem, const char *folder, int has_config)
{
    pc_status status = has_config ? PC_OK : refuse_adapter(mem, folder);
    for (size_t i = 0; status == PC_OK && i < sizeof folder_signs / sizeof *folder_signs; i++)
        if ((!has_config || folder_signs[i].beside_config)
            && has_file(mem, folder, folder_signs[i].file, &status))
            return pc__fail(PC_ERR_UNSUPPORTED, "%s: the folder has %s", folder,
                            folder_signs[i].what);
    return status;
}
