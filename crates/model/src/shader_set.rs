//! Shader set of a pipeline: a number for each of its shaders and of the libraries that it links.
//!
//! Drivers leave state out of their own keys: pipelines that differ in a static viewport alone are one entry of their
//! caches, and some drivers keep an entry for each shader. So a cache can have a pipeline only if it has seen all of
//! its shaders, and these numbers find, among the pipelines of a program, the few whose artifacts may fit one that has
//! none.

use std::hash::{BuildHasher as _, Hash as _, Hasher};

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::recipe::{Code, Pipeline, Stage};
use vkstash_host::sort;

/// A number for each stage (its code, entry point and specialization) and each library that is linked; sorted. Other
/// pipelines may have the same numbers by chance, so the driver is asked before they are relied on. Empty where nothing
/// is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShaderSet(SmallVec<[u64; 5]>);

impl ShaderSet {
    /// Of this pipeline.
    pub fn of(pipeline: &Pipeline<'_>) -> ShaderSet {
        let mut set: SmallVec<[u64; 5]> = pipeline.stages().iter().map(number_of).collect();
        set.extend(pipeline.libraries().iter().map(|library| FxBuildHasher.hash_one(library)));
        sort::sort(&mut set);
        set.dedup();
        ShaderSet(set)
    }

    /// The numbers.
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    /// One number for all shaders of the set together.
    pub fn together(&self) -> u64 {
        FxBuildHasher.hash_one(&self.0)
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }
}

fn number_of(stage: &Stage<'_>) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    stage.stage.hash(&mut hasher);
    match &stage.code {
        Code::Module(identity) => identity.hash(&mut hasher),
        Code::Native { identifier, .. } => identifier.0.hash(&mut hasher),
    }
    stage.entry_point.0.hash(&mut hasher);
    for (constant, value) in &stage.specialization {
        (constant, value.0).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::recipe::{Bytes, Compute, Extensions};

    fn compute(code: [u8; 32], value: &'static [u8]) -> Pipeline<'static> {
        Pipeline::Compute(Compute {
            flags: 0,
            stage: Stage {
                flags: 0,
                stage: 32,
                code: Code::Module(code),
                entry_point: Bytes(b"main"),
                specialization: smallvec![(0, Bytes(value))],
                mappings: smallvec![],
                extensions: Extensions::default(),
            },
            layout: None,
            extensions: Extensions::default(),
        })
    }

    #[test]
    fn shaders_and_their_specialization_tell_sets_apart_and_other_state_does_not() {
        let one = compute([1; 32], &[1]);
        let mut other_state = one.clone();
        if let Pipeline::Compute(compute) = &mut other_state {
            (compute.flags, compute.layout) = (1, Some([7; 32]));
        }
        assert_eq!(ShaderSet::of(&one), ShaderSet::of(&other_state));
        assert_ne!(ShaderSet::of(&one), ShaderSet::of(&compute([2; 32], &[1])));
        assert_ne!(ShaderSet::of(&one), ShaderSet::of(&compute([1; 32], &[2])));
    }
}
