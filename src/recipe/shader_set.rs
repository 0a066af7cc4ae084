//! Which shaders a pipeline is made of, as one number.
//!
//! Drivers leave state out of their own shader keys: pipelines that differ in a static viewport alone are one entry
//! of their caches. Two pipelines can be one entry only if their shaders are the same, so this number finds, among
//! the pipelines of a program, the few whose artifacts may fit one that has none.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use rustc_hash::FxBuildHasher;

use super::model::{Code, Pipeline, Stage};

/// Equal for pipelines of the same shaders, entry points, specialization and libraries. Others may be equal by
/// chance: whoever uses it asks the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShaderSet(u64);

impl ShaderSet {
    /// Of this pipeline.
    pub fn of(pipeline: &Pipeline<'_>) -> ShaderSet {
        let mut hasher = FxBuildHasher.build_hasher();
        for stage in pipeline.stages() {
            add(stage, &mut hasher);
        }
        pipeline.libraries().hash(&mut hasher);
        ShaderSet(hasher.finish())
    }

    /// One of so many parts of a map.
    pub fn shard(self, shards: usize) -> usize {
        self.0 as usize % shards
    }
}

fn add(stage: &Stage<'_>, hasher: &mut impl std::hash::Hasher) {
    stage.stage.hash(hasher);
    match &stage.code {
        Code::Module(identity) => identity.hash(hasher),
        Code::Native { identifier, .. } => identifier.0.hash(hasher),
    }
    stage.entry_point.0.hash(hasher);
    for (constant, value) in &stage.specialization {
        (constant, value.0).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::model::{Bytes, Compute, Extensions};
    use super::*;

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
