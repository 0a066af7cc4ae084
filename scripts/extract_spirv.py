#!/usr/bin/env python3
"""Takes the SPIR-V modules out of a file that embeds them.

Usage: extract_spirv.py FILE FOLDER

A module begins with the magic number and a plausible header, and ends with the last OpFunctionEnd that is
followed by something that cannot stand there. Each distinct module becomes FOLDER/<bytes>-<sha256>.spv; its
name sorts by size. FOLDER/index.tsv lists them.
"""

import hashlib
import pathlib
import struct
import sys

MAGIC = struct.pack("<I", 0x07230203)
HEADER_BYTES = 20
# Instructions that may follow the end of a function: the next function, or debug information about source lines.
OP_NO_OP, OP_LINE, OP_EXT_INST, OP_FUNCTION, OP_NO_LINE = 0, 8, 12, 54, 317
OP_ENTRY_POINT, OP_FUNCTION_END = 15, 56
MODELS = {0: "vertex", 1: "tess_control", 2: "tess_eval", 3: "geometry", 4: "fragment", 5: "compute"}


def header_is_plausible(data: bytes, start: int) -> bool:
    if start + HEADER_BYTES > len(data):
        return False
    version, _generator, bound, schema = struct.unpack_from("<4I", data, start + 4)
    return version & 0xFF0000FF == 0 and 0x10000 <= version <= 0x10600 and 0 < bound < 1 << 22 and schema == 0


def walk(data: bytes, start: int) -> tuple[int, str, str] | None:
    """End of the module at `start`, its first entry point's execution model and name; None if it is none."""
    position = start + HEADER_BYTES
    end = None
    model = name = ""
    between_functions = False
    limit = len(data) - 4
    first_word = struct.Struct("<HH").unpack_from
    while position <= limit:
        opcode, words = first_word(data, position)
        if words == 0 or position + 4 * words > len(data):
            break
        if between_functions and opcode != OP_FUNCTION:
            if opcode not in (OP_NO_OP, OP_LINE, OP_EXT_INST, OP_NO_LINE):
                break
        elif opcode == OP_FUNCTION:
            if words != 5:
                break
            between_functions = False
        elif opcode == OP_FUNCTION_END:
            if words != 1:
                break
            end = position + 4
            between_functions = True
        elif opcode == OP_ENTRY_POINT and not name:
            model = MODELS.get(struct.unpack_from("<I", data, position + 4)[0], "other")
            operands = data[position + 12 : position + 4 * words]
            name = operands.split(b"\0", 1)[0].decode("utf-8", "replace")
        position += 4 * words
    return None if end is None else (end, model, name)


def modules(data: bytes):
    start = data.find(MAGIC)
    while start >= 0:
        found = walk(data, start) if header_is_plausible(data, start) else None
        if found:
            end, model, name = found
            yield start, data[start:end], model, name
        else:
            end = start + 1
        start = data.find(MAGIC, end)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    data = pathlib.Path(sys.argv[1]).read_bytes()
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    distinct = {}
    for start, code, model, name in modules(data):
        digest = hashlib.sha256(code).hexdigest()
        distinct.setdefault(digest, (start, code, model, name))
    rows = []
    for digest, (start, code, model, name) in distinct.items():
        file = f"{len(code):08d}-{digest[:12]}.spv"
        (folder / file).write_bytes(code)
        rows.append((file, str(len(code)), digest, str(start), model, name))
    rows.sort()
    lines = ["file\tbytes\tsha256\toffset\tmodel\tentry_point"] + ["\t".join(row) for row in rows]
    (folder / "index.tsv").write_text("\n".join(lines) + "\n")
    total = sum(int(row[1]) for row in rows)
    print(f"{len(rows)} distinct modules, {total / 1e6:.1f} MB")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
