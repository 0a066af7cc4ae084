//! Parsed create info of one pipeline: flags, libraries, stages and feedback, read once for all that use them later in
//! the call.

use std::ffi::c_void;

use ash::vk;

use super::array;
use super::flags::{DERIVATIVE, EARLY_RETURN, FAIL_ON, LIBRARY, OPTIMIZES_LINK, PLAIN_LINK, RETAINS};
use super::graphics::subsets::Subsets;
use super::stage::Naming;
use crate::chain;
use vkstash_model::newer;

/// The create options of one pipeline, and where its parts stand that may be read.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// The kind of the create info.
    pub bind_point: vk::PipelineBindPoint,
    /// The effective flags: those of VkPipelineCreateFlags2CreateInfoKHR replace the member (contract 3.4).
    pub flags: u64,
    /// Whether the flags are those of VkPipelineCreateFlags2CreateInfoKHR.
    pub flags2: bool,
    /// The subsets of state that the create info provides by itself; all of them where it is not of graphics.
    pub subsets: Subsets,
    /// The libraries that are linked.
    pub libraries: &'a [vk::Pipeline],
    /// The stages, none where they may not be read (06600).
    pub stages: &'a [vk::PipelineShaderStageCreateInfo<'a>],
    /// How the program's stages name their code.
    pub naming: Naming,
    /// Where the program wants to be told where the pipeline came from.
    pub feedback: Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>>,
}

/// The structures of a create info's own chain that say something of the call.
#[derive(Default)]
struct Chained<'a> {
    flags: Option<u64>,
    subsets: Option<vk::GraphicsPipelineLibraryFlagsEXT>,
    libraries: Option<&'a vk::PipelineLibraryCreateInfoKHR<'a>>,
    feedback: Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>>,
    /// The pipeline is made of binaries of the program's.
    binaries: bool,
}

impl<'a> Chained<'a> {
    /// # Safety
    /// `p_next` is the chain of a valid create info that lives for `'a`.
    unsafe fn read(p_next: *const c_void) -> Chained<'a> {
        let mut found = Chained::default();
        // SAFETY: `p_next` is the valid chain of a create info that lives for `'a`.
        for node in unsafe { chain::walk(p_next) } {
            // SAFETY: `walk` yields valid structures that live as long as the chain, and the casts follow the sType.
            unsafe {
                match (*node).s_type {
                    vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR => {
                        let flags = (*node.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>()).flags;
                        found.flags.get_or_insert(flags.as_raw());
                    }
                    vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT => {
                        let subsets = (*node.cast::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>()).flags;
                        found.subsets.get_or_insert(subsets);
                    }
                    vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR => {
                        found.libraries.get_or_insert(&*node.cast());
                    }
                    vk::StructureType::PIPELINE_CREATION_FEEDBACK_CREATE_INFO => {
                        found.feedback.get_or_insert(&*node.cast());
                    }
                    newer::PIPELINE_BINARY_INFO => {
                        found.binaries |= (*node.cast::<newer::PipelineBinaryInfoKHR>()).binary_count > 0;
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

impl<'a> Parsed<'a> {
    /// Reads a compute pipeline's create info.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn compute(info: &'a vk::ComputePipelineCreateInfo<'_>) -> Parsed<'a> {
        // SAFETY: the chain of a valid create info, whose one stage may always be read.
        unsafe {
            let chained = Chained::read(info.p_next);
            let stages = std::slice::from_ref(&info.stage);
            Parsed::new(vk::PipelineBindPoint::COMPUTE, info.flags, &chained, stages)
        }
    }

    /// Reads a graphics pipeline's create info.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn graphics(info: &'a vk::GraphicsPipelineCreateInfo<'_>) -> Parsed<'a> {
        // SAFETY: the chain of a valid create info; pLibraries is valid for libraryCount handles, and pStages for
        // stageCount stages where a subset reads it (06600).
        unsafe {
            let chained = Chained::read(info.p_next);
            let flags = chained.flags.unwrap_or(info.flags.as_raw().into());
            let subsets = Subsets::provided(flags, chained.subsets, chained.libraries);
            let stages = array(info.p_stages, if subsets.shaders() { info.stage_count } else { 0 });
            let libraries = chained.libraries.map_or(&[][..], |l| array(l.p_libraries, l.library_count));
            let parsed = Parsed::new(vk::PipelineBindPoint::GRAPHICS, info.flags, &chained, stages);
            Parsed { subsets, libraries, ..parsed }
        }
    }

    /// Reads a ray tracing pipeline's create info.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn ray_tracing(info: &'a vk::RayTracingPipelineCreateInfoKHR<'_>) -> Parsed<'a> {
        // SAFETY: the chain of a valid create info; pStages is valid for stageCount stages, pLibraryInfo NULL or valid
        // with its handles.
        unsafe {
            let chained = Chained::read(info.p_next);
            let stages = array(info.p_stages, info.stage_count);
            let libraries = info.p_library_info.as_ref();
            let libraries = libraries.map_or(&[][..], |l| array(l.p_libraries, l.library_count));
            let parsed = Parsed::new(vk::PipelineBindPoint::RAY_TRACING_KHR, info.flags, &chained, stages);
            Parsed { libraries, ..parsed }
        }
    }

    /// # Safety
    /// `stages` are valid stages of a create info whose stages may be read (contract 6).
    unsafe fn new(
        bind_point: vk::PipelineBindPoint,
        flags: vk::PipelineCreateFlags,
        chained: &Chained<'a>,
        stages: &'a [vk::PipelineShaderStageCreateInfo<'a>],
    ) -> Parsed<'a> {
        // SAFETY: `stages` are valid, and are read by the specification's rules in this pipeline (contract 6).
        let mut naming = unsafe { Naming::of(stages) };
        let flags = chained.flags.unwrap_or(flags.as_raw().into());
        // A pipeline that is made of binaries needs no code (contract 5.5). Any other stage may lack code only where an
        // identifier names it, and then the create info must forbid compiling (contract 2.4).
        naming.lacks_code &= !chained.binaries && (naming.identifier_structure || flags & FAIL_ON != 0);
        let flags2 = chained.flags.is_some();
        let feedback = chained.feedback;
        Parsed { bind_point, flags, flags2, subsets: Subsets::ALL, libraries: &[], stages, naming, feedback }
    }

    fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    fn is_graphics(&self) -> bool {
        self.bind_point == vk::PipelineBindPoint::GRAPHICS
    }

    /// The stages that may be read, as one value.
    pub fn stage_flags(&self) -> vk::ShaderStageFlags {
        self.stages.iter().fold(vk::ShaderStageFlags::empty(), |all, stage| all | stage.stage)
    }

    /// The program forbids compiling (VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT).
    pub fn fails_on_compile_required(&self) -> bool {
        self.has(FAIL_ON)
    }

    /// Whether the later elements of the batch are left out where this pipeline is not made
    /// (VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT).
    pub fn returns_early(&self) -> bool {
        self.has(EARLY_RETURN)
    }

    /// The pipeline derives from another one: base members may be read of no other (contract 6).
    pub fn is_derivative(&self) -> bool {
        self.has(DERIVATIVE)
    }

    /// The pipeline is a library.
    pub fn is_library(&self) -> bool {
        self.has(LIBRARY)
    }

    /// Libraries are linked.
    pub fn is_linked(&self) -> bool {
        !self.libraries.is_empty()
    }

    /// Whether the pipeline is a library of libraries that links optimize again. RADV (Mesa 25.0.7) that finds one in
    /// a cache, its disk cache too, dereferences NULL in such a link.
    pub fn joins_retained(&self) -> bool {
        self.is_graphics() && self.is_library() && self.is_linked() && self.has(RETAINS)
    }

    /// Whether the create info has no shaders of its own, and those of its libraries are not optimized again.
    pub fn has_nothing_to_compile(&self) -> bool {
        self.is_graphics() && self.stages.is_empty() && !(self.is_linked() && self.has(OPTIMIZES_LINK))
    }

    /// Whether the create info links libraries and has no shaders of its own, neither optimized again nor to become a
    /// library: there is nothing to compile, no request will ask for its key, and it has to be instant.
    pub fn is_fast_link(&self) -> bool {
        self.is_graphics() && !self.has(!PLAIN_LINK) && self.is_linked() && !self.subsets.shaders()
    }
}
