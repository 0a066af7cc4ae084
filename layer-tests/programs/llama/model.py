"""Writes a meaningless language model for llama.cpp: model.py FILE.

A GGUF file (version 3) of the architecture "llama" with two layers, made-up weights in three of the formats that have
shaders of their own, and a vocabulary of bytes. Its output means nothing; the pipelines that llama.cpp creates do not
depend on the output.
"""

import struct
import sys

EMBEDDING, FEED_FORWARD, LAYERS, HEADS, CONTEXT = 64, 128, 2, 2, 256
TOKENS = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["\u2581"]
# llama.cpp's numbers of token types: normal, unknown, control, byte.
KINDS = [2, 3, 3] + [6] * 256 + [1]
F32, F16, Q8_0 = 0, 1, 8
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == STRING:
        return string(content)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], content)


def entry(key, kind, content):
    if isinstance(content, list):
        items = b"".join(value(kind, item) for item in content)
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(content)) + items
    return string(key) + struct.pack("<I", kind) + value(kind, content)


def weights(count):
    """Numbers between -0.1 and 0.1, the same in every run."""
    state = count
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 40) / 2**24 * 0.2 - 0.1


def data(kind, shape):
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if len(shape) == 1:
        return struct.pack(f"<{count}f", *[1.0] * count)
    numbers = list(weights(count))
    if kind == F32:
        return struct.pack(f"<{count}f", *numbers)
    if kind == F16:
        return struct.pack(f"<{count}e", *numbers)
    # Blocks of a scale and 32 numbers to multiply it by.
    scale = 0.1 / 127
    block = lambda at: struct.pack("<e32b", scale, *(round(number / scale) for number in numbers[at : at + 32]))
    return b"".join(block(at) for at in range(0, count, 32))


def main(path):
    entries = [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "nothing"),
        entry("llama.context_length", UINT32, CONTEXT),
        entry("llama.embedding_length", UINT32, EMBEDDING),
        entry("llama.block_count", UINT32, LAYERS),
        entry("llama.feed_forward_length", UINT32, FEED_FORWARD),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.head_count_kv", UINT32, HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.dimension_count", UINT32, EMBEDDING // HEADS),
        entry("llama.vocab_size", UINT32, len(TOKENS)),
        entry("tokenizer.ggml.model", STRING, "llama"),
        entry("tokenizer.ggml.tokens", STRING, TOKENS),
        entry("tokenizer.ggml.scores", FLOAT32, [0.0] * len(TOKENS)),
        entry("tokenizer.ggml.token_type", INT32, KINDS),
        entry("tokenizer.ggml.unknown_token_id", UINT32, 0),
        entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2),
    ]
    tensors = [("token_embd.weight", F16, (EMBEDDING, len(TOKENS)))]
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        tensors.append((name + "attn_norm.weight", F32, (EMBEDDING,)))
        for part in ("q", "k", "v", "output"):
            tensors.append((f"{name}attn_{part}.weight", F16, (EMBEDDING, EMBEDDING)))
        tensors.append((name + "ffn_norm.weight", F32, (EMBEDDING,)))
        tensors.append((name + "ffn_gate.weight", Q8_0, (EMBEDDING, FEED_FORWARD)))
        tensors.append((name + "ffn_up.weight", Q8_0, (EMBEDDING, FEED_FORWARD)))
        tensors.append((name + "ffn_down.weight", Q8_0, (FEED_FORWARD, EMBEDDING)))
    tensors.append(("output_norm.weight", F32, (EMBEDDING,)))
    tensors.append(("output.weight", F32, (EMBEDDING, len(TOKENS))))

    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries)) + b"".join(entries)
    body = b""
    for name, kind, shape in tensors:
        head += string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, len(body))
        body += data(kind, shape)
        body += bytes(-len(body) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + body)


main(sys.argv[1])
