//! Dynamic states.

use ash::vk;
use smallvec::SmallVec;

use crate::capture::array;
use crate::chain::{self, Refusal};
use vkstash_host::sort;
use vkstash_model::counters::BypassReason;

/// Dynamic states of the registry. Another one may declare state ignored that capture would read, so it refuses.
fn known_dynamic_state(state: i32) -> bool {
    matches!(state,
        0..=8
        | 1_000_087_000
        | 1_000_099_000..=1_000_099_002
        | 1_000_143_000
        | 1_000_164_004
        | 1_000_164_006
        | 1_000_205_000..=1_000_205_001
        | 1_000_226_000
        | 1_000_259_000
        | 1_000_267_000..=1_000_267_011
        | 1_000_347_000
        | 1_000_352_000
        | 1_000_377_000..=1_000_377_004
        | 1_000_381_000
        | 1_000_455_002..=1_000_455_032
        | 1_000_524_000
        | 1_000_582_000)
}

/// The dynamic states of one pipeline, sorted.
pub struct Dynamic(pub SmallVec<[i32; 24]>);

impl Dynamic {
    /// Reads the list; an empty one where there is none.
    ///
    /// # Safety
    /// `info` is NULL or points to a valid VkPipelineDynamicStateCreateInfo.
    pub unsafe fn read(info: *const vk::PipelineDynamicStateCreateInfo<'_>) -> Result<Dynamic, Refusal> {
        let mut states = SmallVec::new();
        // SAFETY: `info` is NULL or valid; pDynamicStates has dynamicStateCount elements
        // (VUID-VkPipelineDynamicStateCreateInfo-pDynamicStates-parameter), and the chain is valid.
        unsafe {
            if let Some(info) = info.as_ref() {
                chain::scan_empty(info.p_next)?;
                let listed = array(info.p_dynamic_states, info.dynamic_state_count);
                states.extend(listed.iter().map(|state| state.as_raw()));
            }
        }
        sort::sort(&mut states);
        states.dedup();
        match states.iter().find(|&&state| !known_dynamic_state(state)) {
            Some(_) => Err(Refusal {
                reason: BypassReason::UnknownStructure,
                s_type: vk::StructureType::PIPELINE_DYNAMIC_STATE_CREATE_INFO.as_raw(),
            }),
            None => Ok(Dynamic(states)),
        }
    }

    /// Whether a state is dynamic.
    pub fn has(&self, state: vk::DynamicState) -> bool {
        self.0.binary_search(&state.as_raw()).is_ok()
    }

    /// The value where the state is static, 0 where the driver ignores it.
    pub fn unless(&self, state: vk::DynamicState, value: u32) -> u32 {
        if self.has(state) { 0 } else { value }
    }
}
