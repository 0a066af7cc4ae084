//! A "hit" is the first use of an entry in a VkPipelineCache that was freshly loaded from data. Later uses of the
//! same entry are several times cheaper in some drivers, and no program creates a pipeline twice.

use vkstash_layer_tests::bench::report::{Kind, Round};

use crate::caches::Cache;
use crate::create::{Plan, Source, round};
use crate::failure::Failure;
use crate::vulkan::Gpu;
use vkstash_layer_tests::corpus::Module;

/// Compiles once, then times the first use of every entry, `rounds` times with a new cache each.
pub(crate) fn whole(
    gpu: &Gpu,
    modules: &[Module],
    plan: Plan<'_>,
    rounds: usize,
) -> Result<Vec<Round>, Failure> {
    let filled = Cache::new(gpu, &[])?;
    let fill = round(gpu, modules, Plan { kind: Kind::Fill, source: Source::One(&filled), ..plan })?;
    let data = filled.data()?;
    drop(filled);
    let mut all = vec![fill];
    for _ in 0..rounds {
        let loaded = Cache::new(gpu, &data)?;
        all.push(round(gpu, modules, Plan { kind: Kind::Hit, source: Source::One(&loaded), ..plan })?);
    }
    Ok(all)
}
