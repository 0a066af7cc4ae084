//! Budgets of what layer and store keep in memory; docs/process.md has the other bounds.

use vkstash_host::memory::bounded;

/// What is kept at most in a process with one stash and one device: the three below.
const MOST: usize = bounded(64 << 20, 16 << 20);

/// Bytes of records that may wait for the writer of a stash.
pub const QUEUED: usize = MOST / 8 * 3;

/// Bytes of artifacts in caches of the layer's that a program's request looks in.
pub const COMPANIONS: usize = MOST / 8 * 3;

/// Bytes of binaries that a device's live shader objects were made of.
pub const SHADER_BINARIES: usize = MOST - QUEUED - COMPANIONS;
