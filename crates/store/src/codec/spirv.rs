//! The SPIR-V filter: five streams in place of the words. Operands become distances from predicted values; results are
//! predicted to be numbered one by one.
//!
//! Not SMOL-V, the known filter of this kind: it is written in C++ and needs valid modules, whereas any bytes must be
//! restored here.
//!
//! # The filtered payload
//!
//! A *number* has seven bits a byte, the lowest first; bit 7 says that another byte follows; it has at most 5 bytes. A
//! *distance* is a number for a difference modulo 2^32: `d` is written as `2 d` if it is not negative as a signed
//! number, else as `-2 d - 1`.
//!
//! The first 24 bytes of the payload (the flags and the SPIR-V header) are followed by the lengths in bytes of five
//! streams (5 numbers), the streams of first words, types, results, operands and text, and the bytes after the last
//! instruction, unchanged.
//!
//! Instructions are read until the stream of first words is used up; then every stream is used up. An instruction with
//! word count 0, or one that reaches past the end, is none: it belongs to the bytes after the last instruction, as do
//! one to three odd bytes.
//!
//! **First word.** Byte 255, then opcode and word count as numbers, is a first word without a number. It gets the next
//! free number of one byte, from 0 on, while there are any below 255. Any other byte is the number of an earlier first
//! word.
//!
//! **Context.** Each opcode has a context, which is created with its first instruction: the type that it had last, and
//! 16 slots (last value, score), all 0. From the 257th distinct opcode on, an opcode shares the context that was
//! created as number (opcode modulo 256), from 0.
//!
//! The operands follow, as the opcode's shape says ([`crate::codec::shape`], which never changes). A shorter
//! instruction lacks operands:
//!
//! 1. If the shape has a type, the first operand: a distance from the context's last type, in the stream of types.
//! 2. If the shape has a result, the next operand: a distance from the last result plus 1, in the stream of results.
//!    The last result starts as 0, and is that of the whole module.
//! 3. Further operands, counted from 0: from the shape's start of text on the word itself, in the stream of text.
//!    Before it a distance in the stream of operands, chosen by the slot of this number (15 for later ones): from the
//!    slot's last value to the value if the slot's score is 0 or below, otherwise from the value to the last result
//!    (last result minus value).
//!
//! After each operand of the third kind that is not text, the slot learns: its score grows by twice the difference
//! (leading zeros of the distance from the last result, less leading zeros of the distance from the last value, both as
//! 32-bit zigzag numbers), less an eighth of the score before (an arithmetic shift right by 3); its last value becomes
//! the value.

use std::collections::HashMap;

use crate::codec::stream::{Stream, put, unzigzag, zigzag};
use crate::codec::walk::Walk;
use vkstash_host::keyed::Keyed;

/// Bytes before the first instruction: the flags and the five words of the SPIR-V header.
const PREFIX: usize = 24;

/// The first word of SPIR-V in the byte order of little-endian machines.
const MAGIC: [u8; 4] = 0x0723_0203_u32.to_le_bytes();

/// Introduces an opcode and a word count.
const NEW_HEADER: u8 = 255;

/// The largest filtered payload. Encoding fails if there is more.
pub(crate) const fn most(raw_length: usize) -> usize {
    raw_length / 2 + 64
}

/// Appends the filtered payload to `out`. False: the payload is no SPIR-V, or hardly gets smaller; `out` must not be
/// used.
pub(crate) fn encode(payload: &[u8], out: &mut Vec<u8>) -> bool {
    let Some((prefix, code)) = payload.split_at_checked(PREFIX) else { return false };
    if prefix[4..8] != MAGIC {
        return false;
    }
    let (mut heads, mut types, mut results, mut operands, mut text) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    let mut walk = Walk::new();
    let mut numbers = HashMap::<u32, u8, Keyed>::default();
    let mut last_result = 0_u32;
    let mut rest = code;
    while let Some(first) = rest.first_chunk::<4>() {
        let first = u32::from_le_bytes(*first);
        let (opcode, words) = (first as u16, (first >> 16) as u16);
        let Some((instruction, after)) = rest.split_at_checked(4 * usize::from(words)) else { break };
        if words == 0 {
            break;
        }
        rest = after;
        let head = if let Some(number) = numbers.get(&first) {
            heads.push(*number);
            walk.heads[usize::from(*number)]
        } else {
            heads.push(NEW_HEADER);
            put(&mut heads, u32::from(opcode));
            put(&mut heads, u32::from(words));
            let number = walk.heads.len();
            let head = walk.add(opcode, words);
            if walk.heads.len() > number {
                numbers.insert(first, number as u8);
            }
            head
        };
        let context = &mut walk.contexts[head.context];
        let mut values =
            instruction.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        values.next();
        if head.shape.typed {
            if let Some(value) = values.next() {
                put(&mut types, zigzag(value.wrapping_sub(context.last_type)));
                context.last_type = value;
            }
        }
        if head.shape.result {
            if let Some(value) = values.next() {
                put(&mut results, zigzag(value.wrapping_sub(last_result.wrapping_add(1))));
                last_result = value;
            }
        }
        for (place, value) in values.enumerate() {
            if place >= usize::from(head.shape.text_after) {
                text.extend_from_slice(&value.to_le_bytes());
                continue;
            }
            put(&mut operands, context.slot(place).distance(value, last_result));
        }
    }
    out.extend_from_slice(prefix);
    let streams = [&heads, &types, &results, &operands, &text];
    for stream in streams {
        let Ok(length) = u32::try_from(stream.len()) else { return false };
        put(out, length);
    }
    for stream in streams {
        out.extend_from_slice(stream);
    }
    out.extend_from_slice(rest);
    out.len() <= most(payload.len())
}

/// Restores all of `out` from a filtered payload. None: the two do not fit.
pub(crate) fn decode(filtered: &[u8], out: &mut [u8]) -> Option<()> {
    let mut whole = Stream::new(filtered);
    let (prefix, mut code) = out.split_at_mut_checked(PREFIX)?;
    prefix.copy_from_slice(whole.take(PREFIX)?);
    let lengths: [u32; 5] = std::array::from_fn(|_| whole.number());
    let mut part = |index: usize| Some(Stream::new(whole.take(lengths[index] as usize)?));
    let (mut heads, mut types, mut results) = (part(0)?, part(1)?, part(2)?);
    let (mut operands, mut text) = (part(3)?, part(4)?);
    let tail = whole.remaining();

    let mut walk = Walk::new();
    let mut last_result = 0_u32;
    while !heads.at_end() {
        let number = heads.byte();
        let head = if number == NEW_HEADER {
            let (opcode, words) = (heads.number() as u16, heads.number() as u16);
            walk.add(opcode, words)
        } else {
            *walk.heads.get(usize::from(number))?
        };
        let (instruction, after) = code.split_at_mut_checked(4 * usize::from(head.words))?;
        code = after;
        let context = walk.contexts.get_mut(head.context)?;
        let mut words = instruction.chunks_exact_mut(4);
        let first = u32::from(head.words) << 16 | u32::from(head.opcode);
        words.next()?.copy_from_slice(&first.to_le_bytes());
        if head.shape.typed {
            if let Some(word) = words.next() {
                context.last_type = context.last_type.wrapping_add(unzigzag(types.number()));
                word.copy_from_slice(&context.last_type.to_le_bytes());
            }
        }
        if head.shape.result {
            if let Some(word) = words.next() {
                last_result = last_result.wrapping_add(1).wrapping_add(unzigzag(results.number()));
                word.copy_from_slice(&last_result.to_le_bytes());
            }
        }
        let plain = words.len().min(usize::from(head.shape.text_after));
        for (place, word) in words.by_ref().take(plain).enumerate() {
            let value = context.slot(place).next(operands.number(), last_result);
            word.copy_from_slice(&value.to_le_bytes());
        }
        for word in words {
            word.copy_from_slice(text.take(4)?);
        }
    }
    if code.len() != tail.len() {
        return None;
    }
    code.copy_from_slice(tail);
    [heads, types, results, operands, text].iter().all(Stream::finished).then_some(())
}
